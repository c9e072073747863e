"""Tables as people have them: every shape is read, and what is none is named with its line."""

import gzip
import time
from itertools import pairwise
from pathlib import Path

import pytest

from costguard.engine import Known, Unknown
from costguard.replay.formats.files import read
from costguard.replay.formats.table import Options
from costguard.replay.trace import Recording, Trace, TraceError

SMI = "timestamp, index, utilization.gpu [%]\n"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times without a zone are local; the tests live in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def table(folder: Path, text: str | bytes, options: Options = Options(), reader: str = "standard") -> Recording:  # noqa: B008 - a value
    file = folder / "log.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(str(file), options, reader)


def only(recording: Recording) -> Trace:
    (found,) = recording.traces
    return found


def loads(trace: Trace, gpu: int = 0) -> list[float | None]:
    return [reading.load if isinstance(reading, Known) else None for reading in trace.column(gpu)]


def test_units_in_the_cells(tmp_path: Path) -> None:
    """As ``--format=csv`` writes it; memory and temperature are passed over."""
    text = (
        "timestamp, name, pci.bus_id, utilization.gpu [%], memory.used [MiB], temperature.gpu\n"
        "2026/01/31 23:59:55.100, NVIDIA A100, 00000000:0A:00.0, 97 %, 40000 MiB, 60\n"
        "2026/02/01 00:00:00.100, NVIDIA A100, 00000000:0A:00.0, 0 %, 40000 MiB, 61\n"
    )
    found = only(table(tmp_path, text))
    assert loads(found) == [0.97, 0.0]
    assert found.times[1] - found.times[0] == pytest.approx(5.0)
    assert found.devices[0].key == "00000000:0a:00.0"
    assert found.devices[0].name == "NVIDIA A100"


def test_units_in_the_header_only(tmp_path: Path) -> None:
    """``nounits``: the numbers stand alone."""
    assert loads(only(table(tmp_path, SMI + "2026/01/31 10:00:00.000, 0, 5\n2026/01/31 10:00:05.000, 0, 100\n"))) == [
        0.05,
        1.0,
    ]


def test_no_header(tmp_path: Path) -> None:
    """The first date is the time, the first percent sign the load; the assumption is told."""
    rows = "".join(f"2026/01/31 10:00:0{k}.000, 3 %, 0 %, 2 MiB, 20146 MiB, 27, 11.64 W\n" for k in range(2))
    recording = table(tmp_path, rows)
    assert loads(only(recording)) == [0.03, 0.03]
    assert "column 2 as utilization.gpu" in recording.notes[0]


def test_no_header_with_an_index(tmp_path: Path) -> None:
    """A small whole number before the load tells the GPUs apart."""
    rows = [f"2026/01/31 10:00:{s:02}.0{g}0, {g}, {10 * g + s} %" for s in range(0, 50, 10) for g in range(2)]
    found = only(table(tmp_path, "\n".join(rows) + "\n"))
    assert [device.number for device in found.devices] == [0, 1]
    assert loads(found, 1) == [0.10, 0.20, 0.30, 0.40, 0.50]


def test_no_header_and_nothing_to_tell_by(tmp_path: Path) -> None:
    """Three plain numbers could be anything: an error, and --columns helps."""
    text = "2026/01/31 10:00:00, 12, 34, 56\n"
    with pytest.raises(TraceError, match=r"log\.csv:1: .*--columns"):
        table(tmp_path, text)
    found = table(tmp_path, text, Options(columns="timestamp,-,utilization.gpu,-"))
    assert loads(only(found)) == [0.34]


def test_utf_16_with_a_mark_and_a_cut_last_line(tmp_path: Path) -> None:
    """What a redirection in PowerShell writes; the line that was being written is left out and told."""
    text = "timestamp, memory.used [MiB], utilization.gpu [%]\r\n"
    text += "2026/08/01 03:59:40.361, 10549 MiB, 100 %\r\n2026/08/01 03:59:41.371, 1764 MiB, 63 %\r\n2026/08/01 03:5"
    recording = table(tmp_path, b"\xff\xfe" + text.encode("utf-16-le") + b"9")
    assert loads(only(recording)) == [1.0, 0.63]
    assert any("cut off" in note for note in recording.notes)


@pytest.mark.parametrize("cut", ["2026/01/31 10:00:10.000, 0, 10", "2026/01/31 10:00:10.000, 0", "2026/01/31 10:0"])
def test_a_cut_last_line_is_no_value(tmp_path: Path, cut: str) -> None:
    """10 of 100 % would be another load."""
    text = SMI + "2026/01/31 10:00:00.000, 0, 100 %\n2026/01/31 10:00:05.000, 0, 100 %\n" + cut
    assert loads(only(table(tmp_path, text))) == [1.0, 1.0]


def test_a_whole_last_line_without_its_end_counts(tmp_path: Path) -> None:
    """A file need not end with a line end."""
    text = SMI + "2026/01/31 10:00:00.000, 0, 100 %\n2026/01/31 10:00:05.000, 0, 7 %"
    assert loads(only(table(tmp_path, text))) == [1.0, 0.07]


def test_seconds_since_the_epoch_and_names_of_ones_own(tmp_path: Path) -> None:
    """Floats, an own header, ten samples a second."""
    rows = "".join(f"{1736203508.75 + k / 10},0,{k}\n" for k in range(20))
    found = only(table(tmp_path, "Time,GPU_ID,Utilization\n" + rows))
    assert found.interval == pytest.approx(0.1)
    assert loads(found)[:3] == [0.0, 0.01, 0.02]


def test_a_header_before_every_row(tmp_path: Path) -> None:
    """A loop that calls nvidia-smi again and again."""
    text = "".join(SMI + f"2026/01/31 10:00:0{k}.000, 0, 22 %\n" for k in range(3))
    assert loads(only(table(tmp_path, text))) == [0.22] * 3


@pytest.mark.parametrize("cell", ["[N/A]", "[Unknown Error]", "ERR!", "N/A", "[GPU is lost]", "[Not Supported]", ""])
def test_what_could_not_be_read_is_unknown(tmp_path: Path, cell: str) -> None:
    """Never 0, and the reason is kept."""
    found = only(table(tmp_path, SMI + f"2026/01/31 10:00:00.000, 0, {cell}\n"))
    (reading,) = found.column(0)
    assert isinstance(reading, Unknown)
    assert cell in reading.reason


@pytest.mark.parametrize("name", ["index", "uuid", "pci.bus_id"])
def test_several_gpus_a_tick(tmp_path: Path, name: str) -> None:
    """Rows of one look differ by milliseconds; the tick is as late as its last row."""
    keys = {"index": ["0", "1"], "uuid": ["GPU-a", "GPU-b"], "pci.bus_id": ["00000000:01:00.0", "00000000:02:00.0"]}[
        name
    ]
    rows = [f"2026/01/31 10:00:{s:02}.{100 + g}, {keys[g]}, {10 * g + s} %" for s in range(0, 60, 10) for g in range(2)]
    found = only(table(tmp_path, f"timestamp, {name}, utilization.gpu [%]\n" + "\n".join(rows) + "\n"))
    assert len(found.times) == 6
    assert loads(found, 0)[:3] == [0.0, 0.1, 0.2]
    assert loads(found, 1)[:3] == [0.1, 0.2, 0.3]
    assert found.times[0] % 1 == pytest.approx(0.101, abs=1e-3)


def test_several_gpus_that_nothing_tells_apart(tmp_path: Path) -> None:
    """Neither index nor address: the place in the tick counts."""
    rows = [f"2026/01/31 10:00:{s:02}.{100 + g}, {10 * g + s} %" for s in range(0, 60, 10) for g in range(3)]
    found = only(table(tmp_path, "timestamp, utilization.gpu [%]\n" + "\n".join(rows) + "\n"))
    assert [len(found.times), len(found.devices)] == [6, 3]
    assert loads(found, 2)[:2] == [0.2, 0.3]


def test_a_gpu_that_is_missing_from_a_tick_is_unknown_then(tmp_path: Path) -> None:
    """It fell off the bus for one look; the others keep their places."""
    rows = [
        f"2026/01/31 10:00:{s:02}.{100 + g}, {g}, {s} %"
        for s in range(0, 60, 10)
        for g in range(2)
        if (s, g) != (20, 0)
    ]
    found = only(table(tmp_path, SMI + "\n".join(rows) + "\n"))
    assert loads(found, 0) == [0.0, 0.1, None, 0.3, 0.4, 0.5]
    assert loads(found, 1) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_one_log_for_each_gpu_one_after_the_other(tmp_path: Path) -> None:
    """Rows out of order are put in order, and that is told."""
    rows = [f"2026/01/31 10:00:{s:02}.100, {g}, {10 * g + s} %" for g in range(2) for s in range(0, 60, 10)]
    recording = table(tmp_path, SMI + "\n".join(rows) + "\n")
    assert loads(only(recording), 1) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert any("out of order" in note for note in recording.notes)


def test_the_encoder_is_work_too(tmp_path: Path) -> None:
    """The highest engine is the load; an engine that the GPU does not have says nothing."""
    head = "timestamp, index, utilization.gpu [%], utilization.encoder [%], utilization.jpeg [%]\n"
    text = head + "2026/01/31 10:00:00, 0, 2 %, 60 %, [N/A]\n2026/01/31 10:00:10, 0, [N/A], 60 %, [N/A]\n"
    assert loads(only(table(tmp_path, text))) == [0.6, None]


def test_several_machines(tmp_path: Path) -> None:
    """A column that tells machines apart makes a trace of each."""
    text = "t,machine,gpu_util_pct,gpu_mem_bytes\n" + "".join(
        f"{1.75e9 + 60 * k},{name},{load},1.0\n" for name, load in (("a", 10), ("b", 20)) for k in range(3)
    )
    recording = table(tmp_path, text)
    assert [(found.name, loads(found)) for found in recording.traces] == [("a", [0.1] * 3), ("b", [0.2] * 3)]


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_blanks_around_a_key_make_no_second_gpu(tmp_path: Path, reader: str) -> None:
    """Whatever aligned the columns: a GPU that seems to be two would be unknown half of the time, and never idle."""
    rows = "".join(f"2026/01/31 10:00:{s:02}, {'0 ' if s % 20 else '0'}, {s} % \n" for s in range(0, 60, 10))
    found = only(table(tmp_path, SMI + rows, reader=reader))
    assert [device.number for device in found.devices] == [0]
    assert loads(found) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_blanks_around_the_name_of_a_machine_make_no_second_one(tmp_path: Path) -> None:
    """A space before a comma is a habit of whoever wrote the file, not another machine."""
    rows = "".join(f"{1769871600 + s},{name},{s}\n" for s, name in ((0, "a"), (10, "a "), (20, "a")))
    recording = table(tmp_path, "time,node,utilization\n" + rows)
    assert [found.name for found in recording.traces] == ["a"]


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_a_line_that_was_written_twice_is_no_tick_without_the_other_gpus(tmp_path: Path, reader: str) -> None:
    """Else the other GPUs would be unknown at that time, and their windows begin again."""
    rows = [f"2026/01/31 10:00:{s:02}.{100 + g}, {g}, {s} %\n" for s in range(0, 60, 10) for g in range(2)]
    rows.insert(6, rows[5])
    found = only(table(tmp_path, SMI + "".join(rows), reader=reader))
    assert len(found.times) == 6
    assert loads(found, 0) == loads(found, 1) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]


def test_packed(tmp_path: Path) -> None:
    """Whatever its name, gzip is unpacked; what a recorder had not packed yet is missing, no error."""
    rows = "".join(f"2026/01/31 10:{k // 60:02}:{k % 60:02}.000, 0, {k % 100} %\n" for k in range(3000))
    packed = gzip.compress((SMI + rows).encode())
    assert len(only(table(tmp_path, packed)).times) == 3000
    assert 0 < len(only(table(tmp_path, packed[: len(packed) // 2])).times) < 3000


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (SMI + "2026/01/31 10:00:00.000, 0, 250 %\n", 2, "250"),
        (SMI + "2026/01/31 10:00:00.000, 0, 5 %\n\n2026/01/31 10:00:05.000, 0, five\n", 4, "five"),
        (SMI + "yesterday, 0, 5 %\n", 2, "yesterday"),
        ((SMI + "2026/01/31 10:00:00.000, 0, 5 %\n") * 3 + "\n" + SMI + "yesterday, 0, 5 %\n" + SMI, 9, "yesterday"),
        (SMI + "2026/13/31 10:00:00.000, 0, 5 %\n", 2, "2026/13/31"),
        (SMI + "2026/01/31 10:00:00.000, 0\n2026/01/31 10:00:00.000, 0, 5 %\n", 2, "2 columns instead of 3"),
        (
            SMI + "2026/01/31 10:00:00.000, 0, 5 %\n2026/01/31 10:00:10.000, 0, 5 %, 6 %\nx\n",
            3,
            "4 columns instead of 3",
        ),
        ("timestamp, index, memory.used [MiB]\n", 1, "no column with the GPU load"),
        ("index, utilization.gpu [%]\n", 1, "no time column"),
        ("hello\n", 1, "no header"),
        ("[]\n", 1, "no header"),
    ],
)
@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_anything_else_is_named_with_its_line(tmp_path: Path, reader: str, text: str, line: int, words: str) -> None:
    """File, line, what was read, what is allowed; the same with either reader."""
    with pytest.raises(TraceError) as error:
        table(tmp_path, text, reader=reader)
    assert f"log.csv:{line}: " in error.value.message
    assert words in error.value.message
    assert "allowed" in error.value.message + error.value.hint


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("row", [6000, 6001, 6002, 8999])
def test_a_wrong_time_late_in_a_large_file_is_named(tmp_path: Path, reader: str, row: int) -> None:
    """Whichever GPU's it is, and wherever a piece of the file ends."""
    rows = [f"2026/01/31 00:{k // 60:02}:{k % 60:02}.000, {g}, 5 %\n" for k in range(3000) for g in range(3)]
    rows[row] = rows[row].replace("2026/01/31 0", "2026/01/32 0")
    with pytest.raises(TraceError) as error:
        table(tmp_path, SMI + "".join(rows) + rows[-3], reader=reader)
    assert f"log.csv:{row + 2}: " in error.value.message


@pytest.mark.parametrize("content", [b"", b"\n\n", SMI.encode(), b"\x00\x01\x02\x03" * 50, b"\x1f\x8b\x08\x00garbage"])
def test_nothing_to_read_is_an_error(tmp_path: Path, content: bytes) -> None:
    """An empty file, a header alone, and what is no text."""
    with pytest.raises(TraceError):
        table(tmp_path, content)


def test_local_time_over_the_end_of_summer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hour that comes twice makes no negative time."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    hours = ["01", "02", "02", "03"]
    rows = [f"2025/10/26 {hour}:{minute:02}:00.000, 0, 5 %" for hour in hours for minute in range(60)]
    found = only(table(tmp_path, SMI + "\n".join(rows) + "\n"))
    assert [b - a for a, b in pairwise(found.times)] == [60.0] * 239


def test_several_gpus_over_the_end_of_summer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in the second of the two hours stays there, and is not mixed with the first."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    rows = [
        f"2025/11/02 {hour}:{minute:02}:00.{100 + g}, {g}, {9 * (tick == 2)} %"
        for tick, hour in enumerate(["00", "01", "01", "02"])
        for minute in range(0, 60, 15)
        for g in range(2)
    ]
    recording = table(tmp_path, SMI + "\n".join(rows) + "\n")
    assert [b - a for a, b in pairwise(only(recording).times)] == [900.0] * 15
    assert loads(only(recording), 1) == [0.0] * 8 + [0.09] * 4 + [0.0] * 4
    assert not recording.notes


@pytest.mark.parametrize(
    "cells",
    [
        ["2025-10-26 02:40:00", "2025-10-26 02:40:10", "2025-10-26 02:40:05"],
        ["2025-10-26T00:40:00Z", "2025-10-26T00:40:10Z", "2025-10-26T00:05:00Z"],
    ],
    ids=["late by a little", "with a zone"],
)
def test_a_late_row_in_that_hour_is_sorted_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str]
) -> None:
    """Only a local clock is set back, and never by some seconds."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    recording = table(tmp_path, SMI + "".join(f"{cell}, 0, 5 %\n" for cell in cells))
    assert only(recording).times[-1] - only(recording).times[0] <= 2110
    assert any("out of order" in note for note in recording.notes)


def joined(*parts: tuple[int, int, int]) -> bytes:
    """Rows each 10 s: from, to (in ticks) and a load, one part after the other."""
    rows = [f"{1.75e9 + 10 * k},{load}" for start, end, load in parts for k in range(start, end)]
    return ("timestamp,utilization.gpu\n" + "\n".join(rows) + "\n").encode()


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize(
    "parts", [((0, 90, 0), (60, 200, 90)), ((100, 200, 0), (0, 150, 90)), ((0, 99, 0), (0, 99, 9))]
)
def test_a_clock_that_was_set_back_or_two_machines_in_one_file_are_refused(
    tmp_path: Path, reader: str, parts: tuple[tuple[int, int, int], ...]
) -> None:
    """Rows of two truths, sorted into one, would be the load of a machine that never was."""
    path = tmp_path / "log.csv"
    path.write_bytes(joined(*parts))
    with pytest.raises(
        TraceError, match=r"log\.csv: the times go back from .* to .*: the clock was set back"
    ) as caught:
        read(str(path), reader=reader)
    assert "--machine-column" in caught.value.hint


@pytest.mark.parametrize(
    "parts", [((100, 200, 0), (0, 100, 90)), ((0, 50, 0), (80, 99, 0), (50, 80, 9)), ((0, 99, 5),) * 2]
)
def test_stretches_that_do_not_overlap_are_only_out_of_order(
    tmp_path: Path, parts: tuple[tuple[int, int, int], ...]
) -> None:
    """Logs joined in the wrong order, a piece that came late, a file that was joined with itself."""
    path = tmp_path / "log.csv"
    path.write_bytes(joined(*parts))
    found = read(str(path))
    steps = {b - a for a, b in pairwise(found.traces[0].times)}
    assert steps == {10.0}
    assert "out of order" in found.notes[0]


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_shares_of_one_are_asked_about(tmp_path: Path, reader: str) -> None:
    """0.9 is a busy GPU or an idle one: whoever knows says it, and nobody guesses."""
    text = "timestamp,load\n" + "".join(f"{1.75e9 + 10 * k},{0.9 if k % 2 else 0.25}\n" for k in range(20))
    with pytest.raises(TraceError, match="no load is above 1") as caught:
        table(tmp_path, text, reader=reader)
    assert "--scale 100" in caught.value.hint
    assert set(loads(only(table(tmp_path, text, Options(scale=100.0), reader)))) == {0.25, 0.9}
    assert set(loads(only(table(tmp_path, text, Options(scale=1.0), reader)))) == {0.25 / 100, 0.9 / 100}


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("busy", ["1", "1.0"])
def test_ones_and_zeros_are_asked_about(tmp_path: Path, reader: str, busy: str) -> None:
    """Whether a GPU works, or one per cent of it: both write 1."""
    text = "timestamp,load\n" + "".join(f"{1.75e9 + 10 * k},{busy if k % 5 else 0}\n" for k in range(20))
    with pytest.raises(TraceError, match="no load is above 1") as caught:
        table(tmp_path, text, reader=reader)
    assert "--scale 100" in caught.value.hint
    assert set(loads(only(table(tmp_path, text, Options(scale=100.0), reader)))) == {0.0, 1.0}
    assert set(loads(only(table(tmp_path, text, Options(scale=1.0), reader)))) == {0.0, 0.01}


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_zeros_alone_need_no_unit(tmp_path: Path, reader: str) -> None:
    """They are 0 in each."""
    text = "timestamp,load\n" + "".join(f"{1.75e9 + 10 * k},{k % 2 and '0.0'}\n" for k in range(20))
    assert set(loads(only(table(tmp_path, text, reader=reader)))) == {0.0}


@pytest.mark.parametrize("reader", ["standard", "fast"])
@pytest.mark.parametrize("header", ["timestamp,load [%]", "timestamp,gpu_util_pct"])
def test_a_unit_in_the_header_is_an_answer(tmp_path: Path, reader: str, header: str) -> None:
    """An idle GPU of 0.2 per cent needs no question."""
    text = header + "\n" + "".join(f"{1.75e9 + 10 * k},0.2\n" for k in range(20))
    assert set(loads(only(table(tmp_path, text, reader=reader)))) == {0.002}


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_names_as_exporters_write_them(tmp_path: Path, reader: str) -> None:
    """DCGM writes per cent under one name and a share of 1 under another; engines keep their own unit."""
    rows = "".join(f"{1.75e9 + 10 * k},3,0.5,80,node-a\n" for k in range(20))
    text = "Time,gpu,DCGM_FI_PROF_GR_ENGINE_ACTIVE,DCGM_FI_DEV_DEC_UTIL,Hostname\n" + rows
    found = only(table(tmp_path, text, reader=reader))
    assert (found.name, found.devices[0].number, set(loads(found))) == ("node-a", 3, {0.8})


@pytest.mark.parametrize("reader", ["standard", "fast"])
def test_columns_of_other_names(tmp_path: Path, reader: str) -> None:
    """Renamed where a header stands, or named all; the header is no row."""
    text = "when,busy,note\n" + "".join(f"{1.75e9 + 10 * k},40,x\n" for k in range(20))
    found = only(table(tmp_path, text, Options(columns="timestamp=when, utilization.gpu=busy"), reader))
    assert (len(found.times), set(loads(found))) == (20, {0.4})
    known = "ts," + text.partition(",")[2]
    assert len(only(table(tmp_path, known, Options(columns="timestamp,utilization.gpu,-"), reader)).times) == 20
    with pytest.raises(TraceError, match="'load=nothing' renames no column; the file has: when, busy, note"):
        table(tmp_path, text, Options(columns="load=nothing"), reader)
