"""Rows of which it is not plain what they are of: two at one time, and GPUs that no column tells apart."""

from itertools import pairwise
from pathlib import Path

import pytest

from costguard.engine import Known, Unknown
from costguard.replay.formats.files import read
from costguard.replay.formats.rhythm import rows_in_a_tick
from costguard.replay.trace import Recording, Trace, TraceError, steps_of

START = 1_767_225_600

READERS = pytest.mark.parametrize("reader", ["standard", "fast"])


def table(folder: Path, reader: str, head: str, rows: list[str]) -> Recording:
    (folder / "log.csv").write_text("\n".join([head, *rows]) + "\n")
    return read(str(folder / "log.csv"), reader=reader)


def only(recording: Recording) -> Trace:
    (trace,) = recording.traces
    return trace


def loads(trace: Trace, gpu: int = 0) -> list[float | None]:
    return [reading.load if isinstance(reading, Known) else None for reading in trace.column(gpu)]


def joined(first: int, second: int, ticks: range, every: int = 1) -> list[str]:
    """One GPU at 80 %, and from some tick on two rows at a time."""
    rows = []
    for k in range(200):
        double = k in ticks and k % every == 0
        rows += [f"{START + 30 * k},0,{load}" for load in ((first, second) if double else (80,))]
    return rows


@READERS
@pytest.mark.parametrize("head", ["timestamp,index,gpu_util", "timestamp,server,gpu_util"])
@pytest.mark.parametrize("pair", [(0, 90), (90, 0), (0, 5)])
@pytest.mark.parametrize(("ticks", "every"), [(range(200), 1), (range(60, 90), 1), (range(60, 63), 1), (range(200), 2)])
def test_two_rows_of_a_gpu_at_one_time_are_refused(
    tmp_path: Path, reader: str, head: str, pair: tuple[int, int], ticks: range, every: int
) -> None:
    """Of two machines whose rows nothing tells apart, the first one decided whether there was work."""
    if "server" in head and ticks != range(60, 63):  # without an index, a rhythm of two rows is one of two GPUs
        return
    with pytest.raises(TraceError, match="for one GPU have the same time") as caught:
        table(tmp_path, reader, head, joined(*pair, ticks, every))
    assert caught.value.exit_code == 2
    assert "--machine-column" in (caught.value.hint or "")


@READERS
def test_so_they_are_for_each_machine(tmp_path: Path, reader: str) -> None:
    """A column may tell machines apart, and not their GPUs."""
    rows = [f"{START + 30 * k},{name},0,{load}" for k in range(50) for name in "ab" for load in (0, 90)]
    with pytest.raises(TraceError, match=r"50 times from .*, rows of a for one GPU have the same time"):
        table(tmp_path, reader, "timestamp,host,gpu,gpu_util", rows)


@READERS
def test_of_some_few_the_higher_load_counts(tmp_path: Path, reader: str) -> None:
    """A clock of whole seconds, or a row that was written twice; unknown is less than any load."""
    rows = [f"{START + 30 * k},{g},5" for k in range(200) for g in (0, 1)]
    for k, load in ((50, "90"), (100, "0"), (150, "[N/A]")):
        rows.insert(rows.index(f"{START + 30 * k},1,5") + 1, f"{START + 30 * k},0,{load}")
    found = only(table(tmp_path, reader, "timestamp,index,gpu_util", rows))
    assert {b - a for a, b in pairwise(found.times)} == {30.0}
    assert loads(found, 0) == [0.9 if k == 50 else 0.05 for k in range(200)]
    assert loads(found, 1) == [0.05] * 200


@READERS
def test_rows_that_say_the_same_are_one(tmp_path: Path, reader: str) -> None:
    """Within a per cent; how often does not matter."""
    rows = [f"{START + 30 * k},0,{load}" for k in range(200) for load in (1, 2)]
    found = only(table(tmp_path, reader, "timestamp,index,gpu_util", rows))
    assert (len(found.times), set(loads(found))) == (200, {0.02})


@READERS
@pytest.mark.parametrize("apart", [0, 0.1])
@pytest.mark.parametrize("gpus", [2, 3, 8])
@pytest.mark.parametrize("lost", [[0], [1], [301], [300, 301], [7, 120, 500]])
def test_a_lost_row_makes_a_time_unknown_and_nothing_else(
    tmp_path: Path, reader: str, apart: float, gpus: int, lost: list[int]
) -> None:
    """Without an index the places of all that follow moved by one, and several GPUs became one."""
    whole = [(k, g) for k in range(400) for g in range(gpus)]
    rows = [f"{START + 30 * k + apart * g:.1f},{10 * g}" for n, (k, g) in enumerate(whole) if n not in lost]
    found = only(table(tmp_path, reader, "timestamp,gpu_util", rows))
    assert len(found.devices) == gpus
    assert {round(b - a) for a, b in pairwise(found.times)} <= {30, 60}  # all rows of a tick may be lost
    holes = {int((at - START) // 30) for at, load in zip(found.times, loads(found), strict=True) if load is None}
    assert holes <= {whole[n][0] for n in lost}
    for gpu in range(gpus):
        assert set(loads(found, gpu)) - {None} == {gpu / 10}


@READERS
def test_where_rows_are_often_lost_nobody_can_say_how_many_gpus_there_are(tmp_path: Path, reader: str) -> None:
    """The date of the first time that is odd is named."""
    rows = [f"{START + 30 * k},{90 * g}" for k in range(400) for g in (0, 1) if not (g and k > 100 and k % 5 == 0)]
    with pytest.raises(TraceError, match=r"log\.csv: no column tells the GPUs apart.*2026-01-01 00:52:30") as caught:
        table(tmp_path, reader, "timestamp,gpu_util", rows)
    assert "timestamp,index,utilization.gpu" in (caught.value.hint or "")


def test_more_rows_than_a_machine_has_gpus_are_refused(tmp_path: Path) -> None:
    """Twenty rows at a time were one GPU."""
    rows = [f"{START + 30 * k},{g}" for k in range(50) for g in range(20)]
    with pytest.raises(TraceError, match="20 of them usually have the same time"):
        table(tmp_path, "standard", "timestamp,gpu_util", rows)


@pytest.mark.parametrize(
    "steps",
    [
        [10.0] * 100,
        [1.0, 2.0, 9.0, 3.0, 4.0] * 30,  # whenever there was time
        [900.0] * 60 + [90000.0] + [900.0] * 60,
        [10.0] * 30 + [5000.0, 10.0, 10.0, 5000.0] * 10,
        [1.0] * 50 + [0.0, 2.0] + [1.0] * 50,
        [60.0] * 19 + [86400.0] + [60.0] * 23 + [86400.0] + [60.0] * 31,
    ],
)
def test_one_gpu_stays_one(steps: list[float]) -> None:
    """However irregular its rows are."""
    moments = [float(START)]
    for step in steps:
        moments.append(moments[-1] + step)
    assert rows_in_a_tick(moments, steps_of(moments)) == 1


def test_a_gpu_that_is_unknown_at_one_time_is_that(tmp_path: Path) -> None:
    """Its reason says that rows are missing."""
    rows = [f"{START + 30 * k},{load}" for k in range(50) for load in (0, 90) if (k, load) != (20, 90)]
    reading = only(table(tmp_path, "standard", "timestamp,gpu_util", rows)).column(0)[20]
    assert isinstance(reading, Unknown)
    assert "rows are missing" in reading.reason


@pytest.mark.parametrize("gpu", [0, 1])
def test_a_lost_row_where_machines_take_turns_moves_no_other(tmp_path: Path, gpu: int) -> None:
    """Of each only one look stands together, which does not show how far apart two are."""
    rows = [
        f"{START + 30 * k + g / 10:.1f},{name},{g},{k % 90}\n"
        for k in range(80)
        for name in "ab"
        for g in (0, 1)
        if (k, name, g) not in {(20, "a", gpu), (0, "b", 0)}
    ]
    found = table(tmp_path, "standard", "timestamp,host,index,gpu_util", [row.strip() for row in rows])
    for trace in found.traces:
        assert {round(b - a) for a, b in pairwise(trace.times)} == {30}
        for place in (0, 1):
            lost = (20, "a", f"gpu{gpu}") if trace.name == "a" else (0, "b", "gpu0")
            key = trace.gpus[place]
            assert loads(trace, place) == [None if (k, trace.name, key) == lost else k % 90 / 100 for k in range(80)]
