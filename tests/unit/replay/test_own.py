"""costguard's own recordings: what was read comes back, and a file is whole whenever it ends."""

import json
from pathlib import Path

import pytest

from costguard.engine import Device, Known, Reading, Unknown
from costguard.replay.formats.files import read
from costguard.replay.formats.recording import Writer
from costguard.replay.trace import TraceError

GPUS = (Device("0000:01:00.0", 0, "GPU-a", "NVIDIA H200"), Device("0000:02:00.0", 1, "GPU-b", "NVIDIA H200"))
TICKS: tuple[tuple[Reading, Reading], ...] = (
    (Known(0.42, ("power 200 W above idle",), 10.5), Known(0.0)),
    (Known(0.42, ("power 200 W above idle",), 10.5), Unknown("NVML code 15: the GPU is lost")),
    (Known(0.0, (), 9.9), Known(1.0)),
)


def write(path: Path) -> None:
    writer = Writer(str(path), 1_750_000_000.0, 10.0)
    writer.meet(GPUS)
    for number, readings in enumerate(TICKS):
        writer.tick(10.0 * number, readings)
    writer.close()


@pytest.mark.parametrize("name", ["made.jsonl", "made.jsonl.gz"])
def test_everything_comes_back(tmp_path: Path, name: str) -> None:
    """Loads, signs of work, how far evidence reaches, unknown with its reason, and which GPUs they are."""
    write(tmp_path / name)
    (found,) = read(str(tmp_path / name)).traces
    assert found.devices == GPUS
    assert list(zip(found.column(0), found.column(1), strict=True)) == list(TICKS)
    assert list(found.times) == [1_750_000_000.0 + 10.0 * number for number in range(3)]


def test_no_policy_is_in_it(tmp_path: Path) -> None:
    """The same recording serves every policy."""
    write(tmp_path / "made.jsonl")
    head = json.loads((tmp_path / "made.jsonl").read_text().splitlines()[0])
    assert set(head) == {"costguard_trace", "version", "began", "interval"}


def test_evidence_never_reaches_further_than_it_did(tmp_path: Path) -> None:
    """Seconds covered are cut, not rounded up."""
    writer = Writer(str(tmp_path / "made.jsonl"), 0.0, 10.0)
    writer.meet(GPUS[:1])
    writer.tick(0.0, [Known(0.0, (), 9.999)])
    writer.close()
    (found,) = read(str(tmp_path / "made.jsonl")).traces
    assert found.column(0) == [Known(0.0, (), 9.9)]


@pytest.mark.parametrize("name", ["made.jsonl", "made.jsonl.gz"])
def test_a_file_that_was_cut_anywhere_is_read_as_far_as_it_goes(tmp_path: Path, name: str) -> None:
    """A recorder that was killed, a disk that was full: no error, unless not even one look was written."""
    write(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    counts = set()
    for end in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:end])
        try:
            counts.add(len(read(str(tmp_path / name)).traces[0].times))
        except TraceError:
            counts.add(0)
    assert counts == {0, 1, 2, 3} if name.endswith("l") else counts <= {0, 1, 2, 3}


def test_a_gpu_that_appears_later_was_unknown_before(tmp_path: Path) -> None:
    """Not idle: nobody saw it."""
    writer = Writer(str(tmp_path / "made.jsonl"), 0.0, 10.0)
    writer.meet(GPUS[:1])
    writer.tick(0.0, [Known(0.5)])
    writer.meet(GPUS)
    writer.tick(10.0, [Known(0.5), Known(0.25)])
    writer.close()
    (found,) = read(str(tmp_path / "made.jsonl")).traces
    assert isinstance(found.column(1)[0], Unknown)
    assert found.column(1)[1] == Known(0.25)


@pytest.mark.parametrize(
    "line",
    [
        "[20.0,0.1]",
        "[20.0,1.5,0.0]",
        "[5.0,0.1,0.2]",
        '{"x":1}',
        "nonsense",
        "[20.0,true,0.1]",
        "[NaN,0.1,0.1]",
        "[Infinity,0.1,0.1]",
        "[" * 100_000,
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    """Too few readings, an impossible load, time that runs backwards, anything else."""
    file = tmp_path / "made.jsonl"
    write(file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:4], line, *lines[4:]]) + "\n")
    with pytest.raises(TraceError, match=r"made\.jsonl:5: "):
        read(str(file))


def test_another_format_is_refused(tmp_path: Path) -> None:
    """A file of the future is not guessed at."""
    file = tmp_path / "made.jsonl"
    file.write_text('{"costguard_trace": 9, "began": 0, "interval": 10}\n')
    with pytest.raises(TraceError, match="format 9"):
        read(str(file))


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    """A recording of days is worth more than a convenience."""
    write(tmp_path / "made.jsonl")
    with pytest.raises(FileExistsError):
        Writer(str(tmp_path / "made.jsonl"), 0.0, 10.0)
