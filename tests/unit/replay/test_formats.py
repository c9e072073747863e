"""What other systems keep: answers of a Prometheus server, Parquet, folders of recordings."""

import gzip
import json
import os
import socket
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from costguard.engine import Known
from costguard.replay.formats.columns import plain
from costguard.replay.formats.files import read, read_all
from costguard.replay.formats.table import Options
from costguard.replay.trace import Trace, TraceError

START = 1_750_000_000


def series(metric: str, values: list[str], **labels: str) -> dict[str, object]:
    """One series as /api/v1/query_range answers it, a sample each 30 s."""
    name = {"__name__": metric} if metric else {}
    return {"metric": {**name, **labels}, "values": [[START + 30 * k, value] for k, value in enumerate(values)]}


def answer(folder: Path, *found: dict[str, object], options: Options = Options()) -> dict[str, Trace]:  # noqa: B008 - a value
    path = folder / "answer.json"
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(found)}}))
    return {trace.name: trace for trace in read(str(path), options).traces}


def loads(trace: Trace, gpu: int = 0) -> list[float | None]:
    return [reading.load if isinstance(reading, Known) else None for reading in trace.column(gpu)]


def test_an_answer_of_prometheus(tmp_path: Path) -> None:
    """Two hosts; of one two GPUs, of which one has gaps, an engine beside it, and a value that is none."""
    gpu = {"Hostname": "a", "gpu": "0", "UUID": "GPU-0", "modelName": "NVIDIA H200"}
    late = series("DCGM_FI_DEV_GPU_UTIL", ["5"], Hostname="a", gpu="1", UUID="GPU-1")
    found = answer(
        tmp_path,
        series("DCGM_FI_DEV_GPU_UTIL", ["0", "50", "NaN"], **gpu),
        series("DCGM_FI_DEV_DEC_UTIL", ["90", "0", "90"], **gpu),
        late,
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", ["0.25", "1", "0"], Hostname="b", gpu="3"),
        series("DCGM_FI_DEV_POWER_USAGE", ["70", "70", "70"], **gpu),
    )
    assert loads(found["a"]) == [0.9, 0.5, None]
    assert loads(found["a"], 1) == [0.05, None, None]
    assert loads(found["b"]) == [0.25, 1.0, 0.0]
    assert [(d.key, d.number, d.name) for d in found["a"].devices] == [("GPU-0", 0, "NVIDIA H200"), ("GPU-1", 1, "")]
    assert (found["b"].devices[0].number, found["a"].interval) == (3, 30.0)


def notes(folder: Path, **said: object) -> tuple[str, ...]:
    """What is told of an answer in which the server says this beside its data."""
    path = folder / "answer.json"
    found = [series("DCGM_FI_DEV_GPU_UTIL", ["0", "50"], Hostname="a", gpu="0")]
    path.write_text(json.dumps({"status": "success", **said, "data": {"resultType": "matrix", "result": found}}))
    return read(str(path)).notes


def test_what_a_server_says_of_its_answer_is_told(tmp_path: Path) -> None:
    """A GPU that is missing from a partial answer shows in nothing else."""
    assert notes(tmp_path) == notes(tmp_path, warnings=[], infos=None, isPartial=False) == ()
    told = notes(tmp_path, warnings=["partial response: 1 store\ntimed out"], infos=["PromQL info: none"])
    assert told == (
        "the server warns of its answer: partial response: 1 store timed out",
        "the server notes on its answer: PromQL info: none",
    )
    assert notes(tmp_path, warnings="one text") == ("the server warns of its answer: one text",)
    assert notes(tmp_path, isPartial=True) == (
        "the server says that its answer is partial: GPUs, or times of them, may be missing",
    )


def test_no_server_says_too_much(tmp_path: Path) -> None:
    """Long remarks are cut, and many are counted."""
    told = notes(tmp_path, warnings=[f"{number} {'x' * 999}" for number in range(9)])
    assert len(told) == 6
    assert all(len(note) < 350 for note in told)
    assert told[-1] == "the server warns of its answer 4 times more"


def test_an_engine_alone_is_no_load_of_a_gpu(tmp_path: Path) -> None:
    """A decoder that rests says nothing of the rest."""
    found = answer(tmp_path, series("DCGM_FI_DEV_DEC_UTIL", ["0", "0"], Hostname="a", gpu="0"))
    assert loads(found["a"]) == [None, None]


def test_an_aggregate_without_a_name(tmp_path: Path) -> None:
    """What ``avg by (node)`` leaves: its unit is asked for where it is in doubt."""
    mean = series("", ["0.5", "0.75"], node="n")
    with pytest.raises(TraceError, match="no load is above 1"):
        answer(tmp_path, mean)
    assert loads(answer(tmp_path, mean, options=Options(scale=100.0))["n"]) == [0.5, 0.75]
    assert loads(answer(tmp_path, series("", ["7", "9"], node="n"))["n"]) == [0.07, 0.09]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"status":"error","error":"bad_data"}', "no data.result"),
        ('{"status":"success","data":{"result":[]}}', "no sample"),
        ('{"status":', "not an answer of a Prometheus server"),
        (
            json.dumps({"data": {"result": [series("DCGM_FI_DEV_POWER_USAGE", ["70"])]}}),
            "no GPU load among its metrics",
        ),
        (json.dumps({"data": {"result": [series("DCGM_FI_DEV_GPU_UTIL", ["170"])]}}), "not between 0 and 100"),
    ],
)
def test_what_is_no_such_answer(tmp_path: Path, content: str, words: str) -> None:
    """The error says what was found and what is allowed."""
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(TraceError, match=words):
        read(str(tmp_path / "a.json"))


def test_parquet(tmp_path: Path) -> None:
    """As a table of the same columns, times with a zone among them."""
    import pyarrow as pa
    from pyarrow import parquet

    when = [datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=10 * k) for k in range(5)]
    columns = {
        "timestamp": when,
        "index": [0] * 5,
        "utilization.gpu": [0.0, 10.0, None, 30.0, 40.0],
        "tags": [["x"]] * 5,
    }
    parquet.write_table(pa.table(columns), tmp_path / "gpus.parquet")
    (trace,) = read(str(tmp_path / "gpus.parquet")).traces
    assert loads(trace) == [0.0, 0.1, None, 0.3, 0.4]
    assert trace.times[0] == when[0].timestamp()


def test_a_folder_and_a_file(tmp_path: Path) -> None:
    """Each file that names no machine is one of its own; what is no recording is passed over, and that is told."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    rows = "timestamp,utilization.gpu\n" + "".join(f"{START + 10 * k},{k}\n" for k in range(3))
    (folder / "a.csv").write_text(rows)
    (folder / "b.csv.gz").write_bytes(gzip.compress(rows.replace(",2\n", ",9\n").encode()))
    (folder / "README.md").write_text("# recordings")
    (tmp_path / "a.csv").write_text(rows.replace(",2\n", ",8\n"))
    found = read_all([str(folder), str(tmp_path / "a.csv")])
    assert [trace.name for trace in found.traces] == ["a.csv", "b.csv.gz", f"a.csv ({tmp_path / 'a.csv'})"]
    assert found.rows == 9
    assert "skipped 1 file" in found.notes[0]
    (tmp_path / "a.csv").unlink()
    with pytest.raises(TraceError, match="no recording in the folder"):
        read_all([str(tmp_path)])


@pytest.mark.parametrize("reader", ["standard", "auto"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("begins", "megabytes"),
    [
        (b"time,load\n2026-01-01 00:00:00,", 32),
        (b'{"costguard_trace":1,"version":"1","began":0,"interval":10}\n[0,"', 32),
        (b"", 32),
        (b'{"status":"', 32),
        (b'{"data":{"result":"', 400),  # read whole up to its own limit
    ],
)
def test_a_line_without_end_is_refused_before_it_is_in_memory(
    tmp_path: Path, reader: str, packed: bool, begins: bytes, megabytes: int
) -> None:
    """Half a megabyte of gzip may hold 600 MB in one line: the error says so, and little of it was read."""
    digits = b"9" * (1 << 22)
    with (tmp_path / "line").open("wb") as file:
        file.write(gzip.compress(begins) if packed else begins)
        if packed:
            file.write(gzip.compress(digits) * 150)
        else:
            file.truncate(600 << 20)  # zero bytes take no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(TraceError, match=r"exceeds|larger than|binary file|no data.result"):
            read(str(tmp_path / "line"), reader=reader)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes << 20


def test_the_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    """As every error of a recording names its line."""
    (tmp_path / "t.csv").write_text("time,load\n2026-01-01 00:00:00,1\n2026-01-01 00:00:10," + "9" * (3 << 20) + "\n")
    with pytest.raises(TraceError, match=r"line 3 of .* exceeds 1 MiB") as caught:
        read(str(tmp_path / "t.csv"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["log.json", "log.csv"])
@pytest.mark.parametrize("sign", ["[", "(", "[(", "]", "{", "[[{", '["'])
def test_brackets_without_end_are_refused_at_once(tmp_path: Path, name: str, sign: str) -> None:
    """The time that a header takes grows with its length, not with its square."""
    (tmp_path / name).write_text(sign * 100_000)
    start = time.process_time()
    with pytest.raises(TraceError):
        read(str(tmp_path / name))
    assert time.process_time() - start < 5.0  # it took minutes


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("utilization.gpu [%]", "utilization.gpu"),
        (" Load (percent) ", "load"),
        ("a [b] [c]", "a_[b]"),
        ("a [b (c]", "a"),
        ("a]", "a]"),
        ("[%]", ""),
        ("GPU Util", "gpu_util"),
    ],
)
def test_a_name_without_its_unit(cell: str, name: str) -> None:
    """What stands in brackets at the end is the unit."""
    assert plain(cell) == name


def test_an_index_of_many_digits_is_a_name(tmp_path: Path) -> None:
    """Not a number that nobody can convert."""
    key = "1" * 5000
    (tmp_path / "t.csv").write_text(f"time,index,load\n{START:.0f},{key},7\n{START + 10:.0f},{key},9\n")
    assert read(str(tmp_path / "t.csv")).traces[0].devices[0].number == 0


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """A named pipe to which nobody writes, a socket, a device without end; in a folder they are passed over."""
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    for path, what in (("pipe.csv", "a pipe"), ("socket", "a socket"), ("/dev/zero", "a device")):
        with pytest.raises(TraceError, match=f"is not a regular file: it is {what}") as caught:
            read(str(tmp_path / path))
        assert caught.value.exit_code == 2
        assert "costguard replay -" in (caught.value.hint or "")
    with pytest.raises(TraceError, match="is not a valid path"):
        read("a\0b")
    with pytest.raises(TraceError, match="no recording in the folder"):
        read_all([str(tmp_path)])


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_what_a_shell_opened_is_read(form: str) -> None:
    """``costguard replay <(zcat …)``: somebody writes there, and it ends."""
    end, begin = os.pipe()
    rows = "timestamp,utilization.gpu\n" + "".join(f"{START + 10 * k},{k}\n" for k in range(3))
    os.write(begin, rows.encode())
    os.close(begin)
    try:
        assert read(form.format(end)).rows == 3
    finally:
        os.close(end)
