"""Files of the kernel, and figures for people."""

from costguard.readers.host.text import amount, duration, printable, read


def test_a_table_is_read_to_its_end() -> None:
    """One read of a table in /proc gives a page of it."""
    assert len(read("/proc/self/smaps", 20_000)) == 20_000


def test_figures_are_those_that_people_write() -> None:
    """In the largest unit that is not below one."""
    assert [amount(rate) for rate in (1e5, 2.5e6, 1e9, 12.0)] == ["100 kB/s", "2.5 MB/s", "1 GB/s", "12 B/s"]
    assert [duration(seconds) for seconds in (7200.0, 300.0, 90.0)] == ["2 h", "5 min", "90 s"]


def test_a_name_changes_no_terminal() -> None:
    """Whoever starts a program chooses its name."""
    assert printable("a\x1b[31mb\n") == "a[31mb"
    assert printable("\x00\x07") == "?"
    assert printable("`rm -rf`") == "rm -rf"
