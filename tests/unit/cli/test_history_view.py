"""The history for people."""

import io

from costguard.cli.history_view import overview
from costguard.cli.render import console, show
from costguard.history.query import Day


def test_the_hours_of_a_day_have_one_unit() -> None:
    """A few seconds beside hours are told as less than a tenth of one; nothing at all is a dash."""
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [Day("2026-11-20", 9.0, 7200.0, 0.0, 720.0)], [], []))
    line = next(line for line in file.getvalue().splitlines() if line.startswith("2026-11-20"))
    assert line.split("  ", 1)[1].split() == ["<0.1", "h", "2.0", "h", "–", "0.2", "h"]
