"""Numbers that are times: their size tells the unit, and what is no date of a recording is refused with its line."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from costguard.replay.formats.files import read
from costguard.replay.trace import TraceError

START = 1_767_225_600
PARTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("unit", PARTS)
@pytest.mark.parametrize("form", ["{}", "{}.0"])
def test_the_size_of_a_number_tells_its_unit(tmp_path: Path, reader: str, unit: str, form: str) -> None:
    """Read as another unit, an hour of rest would be a month, or four seconds."""
    rows = [f"{form.format((START + 30 * k) * PARTS[unit])},80\n" for k in range(200)]
    (tmp_path / "log.csv").write_text("timestamp,gpu_util\n" + "".join(rows))
    (trace,) = read(str(tmp_path / "log.csv"), reader=reader).traces
    assert trace.times[0] == START
    assert {round(b - a, 3) for a, b in pairwise(trace.times)} == {30.0}


@pytest.mark.parametrize("unit", PARTS)
def test_so_it_does_in_an_answer_of_prometheus(tmp_path: Path, unit: str) -> None:
    """A server answers in seconds; what exports it may not."""
    values = [[(START + 30 * k) * PARTS[unit], "80"] for k in range(5)]
    found = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": values}
    (tmp_path / "answer.json").write_text(json.dumps({"data": {"result": [found]}}))
    (trace,) = read(str(tmp_path / "answer.json")).traces
    assert (trace.times[0], trace.interval) == (START, 30.0)


@pytest.mark.parametrize("unit", PARTS)
def test_integers_of_parquet_are_told_apart_too(tmp_path: Path, unit: str) -> None:
    """A column of a type for times names its unit; one of integers does not."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"timestamp": [(START + 30 * k) * PARTS[unit] for k in range(5)], "gpu_util": [80] * 5}
    typed = pa.array(columns["timestamp"], pa.int64()).cast(pa.timestamp(unit, "UTC"))
    for name, times in (("plain", columns["timestamp"]), ("typed", typed)):
        parquet.write_table(pa.table({**columns, "timestamp": times}), tmp_path / f"{name}.parquet")
        (trace,) = read(str(tmp_path / f"{name}.parquet")).traces
        assert (trace.times[0], trace.interval) == (START, 30.0)


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize(
    "cell",
    [
        "-5",
        "5e9",
        "176722560000",
        "99999999999999999999",
        "9999-12-31 23:59:59",
        "1970-01-01T00:00:05Z",
        "nan",
    ],
)
def test_a_time_that_no_recording_has_is_refused_with_its_line(tmp_path: Path, reader: str, cell: str) -> None:
    """A clock that was never set, a number too large for any date."""
    (tmp_path / "log.csv").write_text(f"timestamp,gpu_util\n{START},80\n{cell},80\n{START + 60},80\n")
    with pytest.raises(TraceError, match=r"log\.csv:3: ") as caught:
        read(str(tmp_path / "log.csv"), reader=reader)
    assert caught.value.exit_code == 2
    assert cell in caught.value.message


@pytest.mark.parametrize("at", [1e20, -5.0, 9e11])
def test_a_look_of_a_recording_at_no_date_is_refused_with_its_line(tmp_path: Path, at: float) -> None:
    """Nobody could print it."""
    head = {"costguard_trace": 1, "version": "1", "began": 0, "interval": 10}
    lines = [head, {"gpus": [{"key": "a", "index": 0, "uuid": "", "name": ""}]}, [at, 0.5]]
    (tmp_path / "night.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(TraceError, match=r"night\.jsonl:3: "):
        read(str(tmp_path / "night.jsonl"))


def test_a_time_of_prometheus_that_is_none_is_refused(tmp_path: Path) -> None:
    """As in a table."""
    found = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": [[5, "80"]]}
    (tmp_path / "answer.json").write_text(json.dumps({"data": {"result": [found]}}))
    with pytest.raises(TraceError, match="5 is not a time"):
        read(str(tmp_path / "answer.json"))


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("form", ["{}", "{}.5"])
def test_seconds_since_the_beginning_are_read_as_such_and_that_is_told(tmp_path: Path, reader: str, form: str) -> None:
    """Who simulates, or logs by a stopwatch, has no dates."""
    (tmp_path / "log.csv").write_text(
        "timestamp,gpu_util\n" + "".join(f"{form.format(30 * k)},80\n" for k in range(200))
    )
    found = read(str(tmp_path / "log.csv"), reader=reader)
    assert (found.traces[0].interval, len(found.traces[0].times)) == (30.0, 200)
    assert any("seconds since the recording began" in note for note in found.notes)


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("small", [1, 5000])
def test_a_clock_that_was_set_in_the_middle_is_refused(tmp_path: Path, reader: str, small: int) -> None:
    """Between is no hole of half a century."""
    times = [30 * k for k in range(small)] + [START + 30 * k for k in range(5000)]
    (tmp_path / "log.csv").write_text("timestamp,gpu_util\n" + "".join(f"{at},80\n" for at in times))
    with pytest.raises(TraceError, match="the clock was set during the recording"):
        read(str(tmp_path / "log.csv"), reader=reader)
