"""Several files of one machine are one recording, whatever cut them apart."""

import gzip
import json
import random
from pathlib import Path

import pytest

from costguard.engine import Known
from costguard.engine.observation import Device, Veto
from costguard.replay.formats.files import read, read_all
from costguard.replay.formats.recording import Writer
from costguard.replay.formats.table import Options
from costguard.replay.levels import Levels
from costguard.replay.run import walk
from costguard.replay.trace import Recording, Trace, TraceError
from tests.unit.replay.made import ROOMY

START = 1_767_225_600
HEAD = "timestamp,host,index,gpu_util\n"


def files(folder: Path, *contents: str) -> list[str]:
    """Files of a log, the first one first."""
    for number, content in enumerate(contents):
        (folder / f"gpus-{number}.csv").write_text(content)
    return [str(folder / f"gpus-{number}.csv") for number in range(len(contents))]


def rows(ticks: range, load: int, host: str = "a", gpu: str = "0") -> str:
    return "".join(f"{START + 30 * k},{host},{gpu},{load}\n" for k in ticks)


def loads(trace: Trace, gpu: int = 0) -> list[float | None]:
    return [reading.load if isinstance(reading, Known) else None for reading in trace.column(gpu)]


def content(trace: Trace) -> object:
    """What a policy can see of a machine."""
    return trace.times, {device: trace.column(gpu) for gpu, device in enumerate(trace.gpus)}, trace.interval


def same(one: Recording, other: Recording) -> None:
    assert {trace.name: content(trace) for trace in one.traces} == {
        trace.name: content(trace) for trace in other.traces
    }
    assert one.rows == other.rows


def log(dice: random.Random) -> list[str]:
    """A log of some machines: their GPUs' rows some milliseconds apart, holes, and rows that are lost."""
    machines = {f"node{i}": (dice.choice([1, 2, 4]), dice.random()) for i in range(dice.choice([1, 1, 3]))}
    lines, at = [], 1.75e9
    for tick in range(dice.choice([20, 100, 400])):
        at += dice.choice([30, 30, 30, 30, 31, 7200 if dice.random() < 0.1 else 30])
        for machine, (gpus, phase) in machines.items():
            for gpu in range(gpus):
                if dice.random() < 0.01:
                    continue
                load = dice.choice([60, 90]) if (tick / 60 + phase) % 1 < 0.4 else 0
                cell = "[N/A]" if dice.random() < 0.01 else str(load)
                lines.append(f"{at + phase + gpu / 1000:.3f},{machine},{gpu},{cell}\n")
    return lines


@pytest.mark.parametrize("seed", range(60))
def test_a_log_that_is_cut_anywhere_is_the_whole_one(tmp_path: Path, seed: int) -> None:
    """Between the rows of one look, too; in whatever order the files are named, packed or not."""
    dice = random.Random(seed)
    lines = log(dice)
    cuts = sorted(dice.sample(range(1, len(lines)), dice.choice([1, 2, 6])))
    paths = []
    for begin, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        piece = (HEAD + "".join(lines[begin:end])).encode()
        paths.append(tmp_path / f"{begin}.csv")
        paths[-1].write_bytes(gzip.compress(piece) if dice.random() < 0.3 else piece)
    (tmp_path / "whole.log").write_text(HEAD + "".join(lines))
    dice.shuffle(paths)
    whole, joined = read(str(tmp_path / "whole.log")), read_all([str(path) for path in paths])
    same(joined, whole)
    of_name = {trace.name: trace for trace in joined.traces}
    for trace in whole.traces:
        assert walk(Levels(of_name[trace.name]), ROOMY).decisions == walk(Levels(trace), ROOMY).decisions


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("cut", [2000, 2001, 2003])
def test_a_log_with_uuids_is_one_machine_without_a_host(tmp_path: Path, reader: str, cut: int) -> None:
    """A GPU is in one machine only; both readers keep the rows of the look in which the file was cut."""
    head = "timestamp, uuid, utilization.gpu [%]\n"
    lines = [
        f"{START + 30 * k}.{100 + g}, GPU-{g}, {90 if k % 400 < 100 else 0} %\n" for k in range(1500) for g in range(4)
    ]
    paths = files(tmp_path, head + "".join(lines[:cut]), head + "".join(lines[cut:]))
    (tmp_path / "whole.log").write_text(head + "".join(lines))
    whole, joined = read(str(tmp_path / "whole.log"), reader=reader), read_all(paths, reader=reader)
    (one,), (other,) = whole.traces, joined.traces
    assert content(one) == content(other)
    assert any("2 files are of 1 machine, by name or GPUs" in note for note in joined.notes)


def test_work_that_comes_back_in_the_next_file_is_seen(tmp_path: Path) -> None:
    """The stop before midnight was a good one as long as each file had an end of its own."""
    days = [rows(range(100), 80) + rows(range(100, 400), 0), rows(range(400, 500), 0) + rows(range(500, 600), 80)]
    (trace,) = read_all(files(tmp_path, *[HEAD + day for day in days])).traces
    kinds = [decision.kind for decision in walk(Levels(trace), ROOMY).decisions]
    assert kinds[kinds.index("stop") :].count("work") == 1
    assert trace.name == "a"


def test_one_log_for_each_gpu_of_a_machine(tmp_path: Path) -> None:
    """They tell of one time, and of other GPUs."""
    paths = files(tmp_path, HEAD + rows(range(50), 0, gpu="0"), HEAD + rows(range(50), 90, gpu="1"))
    (trace,) = read_all(paths).traces
    assert (len(trace.times), set(loads(trace, 0)), set(loads(trace, 1))) == (50, {0.0}, {0.9})


def test_a_piece_that_stands_in_two_files_counts_once(tmp_path: Path) -> None:
    """Whoever copies a log while it grows."""
    paths = files(tmp_path, HEAD + rows(range(60), 5), HEAD + rows(range(40, 100), 5))
    (trace,) = read_all(paths).traces
    assert loads(trace) == [0.05] * 100


@pytest.mark.parametrize(
    ("ticks", "shift"), [(range(50, 150), 0), (range(20, 30), 7), (range(200), 0), (range(97, 200), 0)]
)
def test_files_that_say_something_else_of_one_time_are_refused(tmp_path: Path, ticks: range, shift: int) -> None:
    """Both are named, with the dates."""
    later = "".join(f"{START + 30 * k + shift},a,0,90\n" for k in ticks)
    with pytest.raises(TraceError, match=r"gpus-0\.csv and .*gpus-1\.csv both cover a from 2026-01-01") as caught:
        read_all(files(tmp_path, HEAD + rows(range(100), 5), HEAD + later))
    assert caught.value.exit_code == 2


def test_one_row_more_at_the_cut_is_no_second_truth(tmp_path: Path) -> None:
    """Of two rows of one time the higher load counts, as in one file."""
    (trace,) = read_all(files(tmp_path, HEAD + rows(range(100), 5), HEAD + rows(range(99, 200), 90))).traces
    assert loads(trace) == [0.05] * 99 + [0.9] * 101


def test_a_file_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    """By its name, by a link in the folder, or as a copy; nothing of it names the machine."""
    text = "timestamp,gpu_util\n" + "".join(f"{START + 30 * k},{k % 90}\n" for k in range(90))
    (path,) = files(tmp_path, text)
    (tmp_path / "latest.csv").symlink_to(path)
    (tmp_path / "copy.csv").write_text(text)
    found = read_all([path, str(tmp_path)])
    assert (len(found.traces), found.rows) == (1, 90)
    assert any("is the same file as" in note for note in found.notes)
    assert any("has the same content as" in note for note in found.notes)


def test_machines_at_rest_may_say_the_same(tmp_path: Path) -> None:
    """A fleet whose logs are written each full minute; it is told that nothing names the machines."""
    found = read_all(files(tmp_path, *["timestamp,gpu_util\n" + f"{START},0\n{START + 60},0\n"] * 3))
    assert len(found.traces) == 3
    assert any("3 files name no machine and no UUID" in note and "cat FILE" in note for note in found.notes)


def test_two_machines_of_one_name_stay_two(tmp_path: Path) -> None:
    """``localhost`` is many; their GPUs say so."""
    answers = []
    for number, gpu in enumerate(("GPU-a", "GPU-b")):
        labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "Hostname": "localhost", "gpu": "0", "UUID": gpu}
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"data": {"result": [{"metric": labels, "values": [[START + number, "5"]]}]}}))
        answers.append(str(path))
    assert [trace.name for trace in read_all(answers).traces] == ["localhost", f"localhost ({answers[1]})"]


@pytest.mark.parametrize("split", [False, True])
def test_a_gpu_whose_exporter_changes_its_address_is_one(tmp_path: Path, split: bool) -> None:
    """In one answer, or in one for each day; by the address of each, the stop had no work after it."""
    series = [
        {
            "metric": {
                "__name__": "DCGM_FI_DEV_GPU_UTIL",
                "instance": f"10.0.0.{day}:9400",
                "gpu": "0",
                "UUID": "GPU-a",
            },
            "values": [[START + 30 * k, str(80 * (k < 50 or k >= 150))] for k in range(100 * day, 100 * day + 100)],
        }
        for day in (0, 1)
    ]
    answers = [[series[0]], [series[1]]] if split else [series]
    paths = []
    for number, found in enumerate(answers):
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps({"data": {"result": found}}))
    recording = read_all([str(path) for path in paths])
    (trace,) = recording.traces
    assert loads(trace) == [0.8] * 50 + [0.0] * 100 + [0.8] * 50
    assert trace.name == "10.0.0.0:9400"
    named = read_all([str(path) for path in paths], Options(machine="instance"))
    assert len(named.traces) == 2  # somebody said what tells machines apart


def test_recordings_of_one_machine_are_one(tmp_path: Path) -> None:
    """By their UUIDs; what a sense saw at the end of the first says nothing about the second."""
    device = Device("0000:01:00.0", 0, "GPU-a", "NVIDIA H200")
    for number in (0, 1):
        writer = Writer(str(tmp_path / f"{number}.jsonl"), START + 10_000.0 * number, 10.0)
        writer.meet([device])
        if not number:
            writer.seen(0.0, (Veto("terminals", "ann typed", False, sense=True),))
        for k in range(20):
            writer.tick(10.0 * k, [Known(0.5 * number)])
        writer.close()
    (trace,) = read_all([str(tmp_path / "1.jsonl"), str(tmp_path / "0.jsonl")]).traces
    assert loads(trace) == [0.0] * 20 + [0.5] * 20
    assert trace.devices == (device,)
    assert [(seen.wall, len(seen.vetoes)) for seen in trace.vetoes] == [(START, 1), (START + 10_000.0, 0)]
