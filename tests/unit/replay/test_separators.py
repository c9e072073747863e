"""What stands between the cells of a table, and damaged files."""

import gzip
from pathlib import Path

import pytest

from costguard.engine import Known
from costguard.replay.formats.files import read, read_all
from costguard.replay.formats.table import Options, delimiter_of
from costguard.replay.trace import TraceError

DAY = "2026-01-01 00:"

READERS = pytest.mark.parametrize("reader", ["standard", "fast"])


@READERS
@pytest.mark.parametrize("between", [";", "\t", "; ", ","])
@pytest.mark.parametrize("head", [["timestamp", "index", "utilization.gpu [%]", "name"], []])
@pytest.mark.parametrize("form", ["{:.1f} %", '"{:.1f}"', "comma"])
def test_the_first_line_shows_what_parts_the_cells(
    tmp_path: Path, reader: str, between: str, head: list[str], form: str
) -> None:
    """A spreadsheet writes semicolons where the comma parts a number."""
    if form == "comma" and between == ",":
        return
    load = "{:.1f} %".format if form == "comma" else form.format
    rows = [[f"{DAY}{k:02}:00", str(g), load(k + 0.7 + g), "A100"] for k in range(30) for g in range(2)]
    if not head and "%" not in load(1.0):
        return
    lines = [
        between.join(row if form != "comma" else [row[0], row[1], row[2].replace(".", ","), row[3]]) for row in rows
    ]
    (tmp_path / "log.csv").write_text("\n".join([between.join(head), *lines] if head else lines) + "\n")
    (trace,) = read(str(tmp_path / "log.csv"), reader=reader).traces
    assert [device.number for device in trace.devices] == [0, 1]
    wanted = [Known((k + 1.7) / 100) for k in range(30)]
    assert [reading.load for reading in trace.column(1) if isinstance(reading, Known)] == pytest.approx(
        [reading.load for reading in wanted]
    )


@READERS
def test_a_decimal_comma_in_every_number(tmp_path: Path, reader: str) -> None:
    """Also in seconds since the epoch; a share of 1 is asked about as ever."""
    rows = [f"{1767225600 + 30 * k},5;0,{k % 9}\n" for k in range(40)]
    (tmp_path / "log.csv").write_text("timestamp;load\n" + "".join(rows))
    with pytest.raises(TraceError, match="no load is above 1"):
        read(str(tmp_path / "log.csv"), reader=reader)
    (trace,) = read(str(tmp_path / "log.csv"), Options(scale=100.0), reader).traces
    assert (trace.times[0], trace.column(0)[8]) == (1767225600.5, Known(0.8))


@pytest.mark.parametrize(
    ("line", "names", "wanted"),
    [
        ("timestamp, name; index, utilization.gpu", "", ","),
        ("when;busy", "timestamp=when,load=busy", ";"),
        ("when;busy", "timestamp,load", ";"),
        ("2026/01/01 00:00:00,5;80,5", "timestamp,load", ";"),
        ("2026/01/01 00:00:00,5;80,5", "", ";"),
        ("2026/01/01 00:00:00.5, 0, 80 %, a;b\tc", "", ","),
        ("hello", "", ","),
    ],
)
def test_what_parts_the_cells(line: str, names: str, wanted: str) -> None:
    """By whatever makes sense of them; a name may have a semicolon in it."""
    assert delimiter_of(line, names) == wanted


def test_a_wrong_cell_is_named_with_its_line(tmp_path: Path) -> None:
    """As in a table with commas."""
    (tmp_path / "log.csv").write_text(f"timestamp;load\n{DAY}00:00;5\n{DAY}01:00;five\n")
    with pytest.raises(TraceError, match=r"log\.csv:3: 'five' is not a load"):
        read(str(tmp_path / "log.csv"))


@READERS
@pytest.mark.parametrize(
    "content", [b"\x1f\x8b\x08\x00garbage", gzip.compress(b"timestamp,load\n", mtime=0)[:10]], ids=["garbage", "cut"]
)
def test_a_packed_file_of_which_nothing_can_be_unpacked_is_damaged(tmp_path: Path, reader: str, content: bytes) -> None:
    """It was said to have no rows."""
    (tmp_path / "log.csv.gz").write_bytes(content)
    with pytest.raises(TraceError, match=r"cannot unpack .*log\.csv\.gz: it is damaged, or cut off"):
        read(str(tmp_path / "log.csv.gz"), reader=reader)


def test_one_file_does_not_end_so(tmp_path: Path) -> None:
    """Grammar of a note."""
    (tmp_path / "a.csv").write_text(f"timestamp,load\n{DAY}00:00,5\n")
    (tmp_path / "README.md").write_text("# recordings")
    assert "skipped 1 file that does not end in" in read_all([str(tmp_path)]).notes[0]
    (tmp_path / "LICENSE").write_text("")
    assert "skipped 2 files that do not end in" in read_all([str(tmp_path)]).notes[0]
