"""The history for people."""

import io

from costguard.cli.history_view import incident_view, overview
from costguard.cli.render import console, show
from costguard.history.query import Day
from costguard.history.story import Entry, IncidentSummary


def test_the_hours_of_a_day_have_one_unit() -> None:
    """A few seconds beside hours are told as less than a tenth of one; nothing at all is a dash."""
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [Day("2026-11-20", 9.0, 7200.0, 0.0, 720.0)], [], []))
    line = next(line for line in file.getvalue().splitlines() if line.startswith("2026-11-20"))
    assert line.split("  ", 1)[1].split() == ["<0.1", "h", "2.0", "h", "–", "0.2", "h"]


def test_a_long_heading_stays_beside_its_time() -> None:
    """So that the times can be read down the left edge, also where a heading takes several lines."""
    head = IncidentSummary("i1", 0.0, 9.0, "m", "i", "idle", "stop", "live", "", "acted", "done", "", 1, 0)
    file = io.StringIO()
    show(console(file), incident_view("/h", head, [Entry(5.0, "NOT delivered: " + "word " * 40, ("below",))], [], {}))
    lines = file.getvalue().splitlines()
    first = next(number for number, line in enumerate(lines) if "NOT delivered" in line)
    assert [line[:10].strip() for line in lines[first + 1 :]] == [""] * len(lines[first + 1 :])
    assert len(lines[first + 1 :]) >= 2


def test_one_message_is_no_messages() -> None:
    """A count and its noun agree."""
    head = IncidentSummary("i1", 0.0, 9.0, "m", "i", "idle", "stop", "live", "", "acted", "done", "", 1, 0)
    file = io.StringIO()
    show(console(file), incident_view("/h", head, [], [], {}))
    assert "people    1 message delivered\n" in file.getvalue()
