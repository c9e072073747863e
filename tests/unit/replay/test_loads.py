"""Which columns are loads of a GPU, and in which unit: no busy GPU is read as an idle one."""

import json
from pathlib import Path

import pytest

from costguard.engine import Known
from costguard.replay.formats.files import read
from costguard.replay.formats.table import Options
from costguard.replay.trace import Recording, TraceError

START = 1_767_225_600

pytestmark = pytest.mark.parametrize("reader", ["standard", "fast"])


def table(folder: Path, reader: str, head: str, *rows: str, options: Options = Options()) -> Recording:  # noqa: B008 - a value
    lines = [head, *(f"{START + 30 * k},{row}" for k, row in enumerate(rows))]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    return read(str(folder / "log.csv"), options, reader)


def loads(recording: Recording) -> list[float | None]:
    (trace,) = recording.traces
    return [reading.load if isinstance(reading, Known) else None for reading in trace.column(0)]


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("timestamp,utilization.gpu", None),
        ("when,busy", "timestamp=when,utilization.gpu=busy"),
        ("timestamp,busy", "timestamp,utilization.gpu"),
        ("timestamp,utilization.gpu,utilization.encoder", None),
    ],
)
def test_no_name_is_a_unit(tmp_path: Path, reader: str, head: str, columns: str | None) -> None:
    """``utilization.gpu`` is how nvidia-smi calls a load in per cent, and how people call one from 0 to 1."""
    rows = ["0.95,80" if "encoder" in head else "0.95"] * 9
    with pytest.raises(TraceError, match="no load is above 1"):
        table(tmp_path, reader, head, *rows, options=Options(columns=columns))


@pytest.mark.parametrize(
    ("head", "cell", "columns"),
    [
        ("timestamp,utilization.gpu [%]", "0.5", None),
        ("timestamp,utilization.gpu", "0.5 %", None),
        ("timestamp,DCGM_FI_DEV_GPU_UTIL", "0.5", None),
        ("when,busy [%]", "0.5", "timestamp=when,utilization.gpu=busy"),
        ("timestamp,gpu_util_pct", "0.5", "timestamp,utilization.gpu"),
    ],
)
def test_a_unit_that_stands_in_the_file_is_one(
    tmp_path: Path, reader: str, head: str, cell: str, columns: str | None
) -> None:
    """In the header, also under another name, or in the cells, also where the last of them could not be read."""
    rows = [cell] * 9 + ["[N/A]"] * 4
    assert set(loads(table(tmp_path, reader, head, *rows, options=Options(columns=columns)))) == {0.005, None}


@pytest.mark.parametrize("columns", ["timestamp,gpu_util", "gpu_util=nvidia_smi_utilization_gpu_ratio"])
def test_a_share_stays_one_under_another_name(tmp_path: Path, reader: str, columns: str) -> None:
    """A name that somebody gives changes nothing about what the exporter wrote."""
    found = table(
        tmp_path, reader, "timestamp,nvidia_smi_utilization_gpu_ratio", *["1"] * 9, options=Options(columns=columns)
    )
    assert set(loads(found)) == {1.0}


@pytest.mark.parametrize("head", ["utilization.gpu,gpu_util", "gpu_util,utilization.gpu", "gpu_util,load"])
def test_the_highest_of_several_loads_counts(tmp_path: Path, reader: str, head: str) -> None:
    """Whichever comes first; unknown only where none can be read; and that is told."""
    found = table(tmp_path, reader, f"timestamp,{head}", "0,95", "95,0", "[N/A],95", "95,[N/A]", "[N/A],[N/A]")
    assert loads(found) == [0.95, 0.95, 0.95, 0.95, None]
    assert any("the highest counts" in note for note in found.notes)


def test_each_load_has_its_own_unit(tmp_path: Path, reader: str) -> None:
    """DCGM's two metrics of one GPU; ``--scale`` is for the column that names no unit."""
    both = "timestamp,gpu,DCGM_FI_DEV_GPU_UTIL,DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    assert loads(table(tmp_path, reader, both, "0,0,0.9", "0,90,0", "0,2,0.01")) == [0.9, 0.9, 0.02]
    mixed = "timestamp,DCGM_FI_DEV_GPU_UTIL,load"
    with pytest.raises(TraceError, match="no load is above 1"):
        table(tmp_path, reader, mixed, "80,0.9", "0,0.9")
    assert loads(table(tmp_path, reader, mixed, "80,0.9", "0,0.9", options=Options(scale=100.0))) == [0.9, 0.9]


def test_a_table_counts_as_an_answer_of_the_same_series(tmp_path: Path, reader: str) -> None:
    """One exporter, two ways to keep what it says."""
    names = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_DEC_UTIL")
    rows = [("0", "0.5", "7"), ("30", "NaN", "99"), ("NaN", "0.25", "0"), ("NaN", "NaN", "50"), ("1", "0", "0")]
    series = [
        {"metric": {"__name__": name, "gpu": "0"}, "values": [[START + 30 * k, row[i]] for k, row in enumerate(rows)]}
        for i, name in enumerate(names)
    ]
    (tmp_path / "answer.json").write_text(json.dumps({"data": {"result": series}}))
    as_table = table(tmp_path, reader, f"timestamp,gpu,{','.join(names)}", *[f"0,{','.join(row)}" for row in rows])
    assert loads(as_table) == loads(read(str(tmp_path / "answer.json"))) == [0.5, 0.99, 0.25, None, 0.01]


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("timestamp,gpu_util,gpu_util", None),
        ("timestamp,gpu_util (a),gpu_util (b)", None),
        ("when,busy,busy", "timestamp=when,gpu_util=busy"),
        ("when,busy,rest", "timestamp,gpu_util,gpu_util"),
        ("timestamp,timestamp,gpu_util", None),
    ],
)
def test_a_name_that_stands_twice_is_refused(tmp_path: Path, reader: str, head: str, columns: str | None) -> None:
    """Nobody can say which one is meant."""
    with pytest.raises(TraceError, match="appears twice") as caught:
        table(tmp_path, reader, head, f"{START},80", "80,95", options=Options(columns=columns))
    assert caught.value.exit_code == 2


def test_the_refusal_says_what_to_type(tmp_path: Path, reader: str) -> None:
    """Its own suggestion reads the file."""
    head, rows = "timestamp,gpu_util [%],gpu_util [%]", ["0.5,95"] * 5
    with pytest.raises(TraceError, match=r"--columns timestamp,gpu_util,-;") as caught:
        table(tmp_path, reader, head, *rows)
    told = caught.value.message.partition("--columns ")[2].partition(";")[0]
    assert loads(table(tmp_path, reader, head, *rows, options=Options(columns=told))) == [0.005] * 5


def test_metrics_are_asked_about_one_by_one(tmp_path: Path, reader: str) -> None:
    """One in per cent says nothing about the unit of another."""
    series = [
        {"metric": {"__name__": name, "gpu": "0"}, "values": [[START + 30 * k, value] for k in range(5)]}
        for name, value in (("gpu_util", "0.9"), ("utilization", "80"))
    ]
    (tmp_path / "answer.json").write_text(json.dumps({"data": {"result": series}}))
    with pytest.raises(TraceError, match="no load is above 1"):
        read(str(tmp_path / "answer.json"))
