"""The history for people."""

import io

import pytest

from costguard.cli.history_view import Money, incident_view, overview
from costguard.cli.render import console, show
from costguard.engine.words import date_and_second
from costguard.history.query import Day, Event
from costguard.history.story import Entry, IncidentSummary, other_messages
from costguard.money import Rate

DONE = IncidentSummary("i1", 0.0, 9.0, "m", "i", "idle", "stop", "live", "", "acted", "done", "", 1, 0)


def test_the_hours_of_a_day_have_one_unit() -> None:
    """A few seconds beside hours are told as less than a tenth of one; nothing at all is a dash."""
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [Day("2026-11-20", 9.0, 7200.0, 0.0, 720.0)], [], []))
    line = next(line for line in file.getvalue().splitlines() if line.startswith("2026-11-20"))
    assert line.split("  ", 1)[1].split() == ["<0.1", "h", "2.0", "h", "–", "0.2", "h"]


def test_a_long_heading_stays_beside_its_time() -> None:
    """So that the times can be read down the left edge, also where a heading takes several lines."""
    file = io.StringIO()
    show(console(file), incident_view("/h", DONE, [Entry(5.0, "NOT delivered: " + "word " * 40, ("below",))], [], {}))
    lines = file.getvalue().splitlines()
    first = next(number for number, line in enumerate(lines) if "NOT delivered" in line)
    assert [line[:10].strip() for line in lines[first + 1 :]] == [""] * len(lines[first + 1 :])
    assert len(lines[first + 1 :]) >= 2


def test_a_program_of_no_incident_is_shown_with_how_it_ended() -> None:
    """`armed` and `post_boot` belong to none: their output stands with the other messages."""
    ended = Event("", 5.0, "hook", "i", "m", {"step": "armed", "status": "done", "detail": "the armed hook succeeded"})
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [], [], [ended]))
    assert "hook armed: the armed hook succeeded" in file.getvalue()


def test_a_hold_that_was_told_to_nobody_is_among_the_messages() -> None:
    """With who, until when, and why."""
    file = io.StringIO()
    sent = [Event("", 5.0, "held", "i", "m", {"owner": "ann", "hold": "evaluation", "hold_until_wall": 7205.0})]
    show(console(file), overview("/h", 0.0, [], [], sent))
    words = " ".join(file.getvalue().split())
    assert f"ann held it until {date_and_second(7205.0)} (evaluation); no message said so" in words


def test_a_message_that_is_told_again_after_a_restart_stands_once() -> None:
    """When it was told first, with all that became of it."""
    file, data = io.StringIO(), {"effect": "a-1", "name": "hold_ended", "facts": {"owner": "ann", "hold": "released"}}
    lost = {"effect": "a-1", "name": "hold_ended", "reached": {}, "failed": {"team": "it was not sent"}}
    sent = [Event("", 5.0, "told", "i", "m", data), Event("", 6.0, "outcome", "i", "m", lost | {"status": "failed"})]
    again = data | {"facts": {"owner": "ann", "hold": "released", "told_again": True}}
    sent += [Event("", 65.0, "told", "i", "m", again)]
    sent += [
        Event("", 66.0, "outcome", "i", "m", lost | {"status": "delivered", "reached": {"team": "team"}, "failed": {}})
    ]
    show(console(file), overview("/h", 0.0, [], [], other_messages(sent)))
    words = file.getvalue()
    assert words.count("released by ann") == 1, words
    assert "delivered" in words
    file = io.StringIO()
    another = data | {"facts": {"owner": "bob", "hold": "released"}}  # a guard that had lost its state counts anew
    show(
        console(file), overview("/h", 0.0, [], [], other_messages([*sent, Event("", 99.0, "told", "i", "m", another)]))
    )
    assert "released by bob" in file.getvalue()


def test_messages_that_are_too_many_to_show_are_counted() -> None:
    """Nobody takes what is shown for all that there was."""
    file = io.StringIO()
    sent = [Event("", float(at), "released", "i", "m", {"owner": f"user {at}"}) for at in range(23)]
    show(console(file), overview("/h", 0.0, [], [], sent))
    words = " ".join(file.getvalue().split())
    assert "user 22 ran" in words
    assert "user 2 ran" not in words
    assert "3 earlier ones: costguard history --json" in words


@pytest.mark.parametrize("where", ["text", "title"])
def test_what_became_of_a_digest_is_shown_with_what_it_said(where: str) -> None:
    """Nothing else tells of it: no incident, and no message of the engine; nor of one whose guard was killed before it wrote that."""
    fate = {
        "name": "notes",
        "effect": "b-digest0",
        "reached": {"mail": "E-Mail"},
        "failed": {"team": "HTTP 503"},
        "tries": 2,
    }
    file = io.StringIO()
    sent = Event("", 5.0, "delivery", "i", "m", {**fate, where: "left out of the last hour: 9 × held"})
    show(console(file), overview("/h", 0.0, [], [], [sent]))
    words = (
        "notes delivered at try 2 over mail: E-Mail; failed over team: HTTP 503: left out of the last hour: 9 × held"
    )
    assert words in " ".join(file.getvalue().split())


def test_a_message_of_no_incident_says_whom_it_reached() -> None:
    """At each of its tries, as those of an incident do; and what nothing else tells of, a summary."""
    answers = {"status": "failed", "detail": "team: JSON: HTTP 500", "proof": "", "failed": {"team": "JSON: HTTP 500"}}
    again = {"name": "unknown_alarm", "effect": "m1", "reached": {"team": "JSON"}, "tries": 2}
    happened = [
        Event("", 5.0, "told", "i", "m", {"effect": "m1", "name": "unknown_alarm", "facts": {}}),
        Event("", 6.0, "outcome", "i", "m", {"effect": "m1", **answers}),
        Event("", 7.0, "outcome", "i", "m", {"effect": "a1", "status": "ready"}),
        Event("x-i1", 8.0, "outcome", "i", "m", {"effect": "m2", **answers}),
        Event("", 66.0, "delivery", "i", "m", again),
        Event("", 90.0, "delivery", "i", "m", {"name": "summary", "effect": "s1", "reached": {"team": "JSON"}}),
    ]
    found = other_messages(happened)
    assert [event.wall for event in found] == [5.0, 6.0, 66.0, 90.0], (
        "no check of an action, and nothing of an incident"
    )
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [], [], found))
    lines = [line.strip() for line in file.getvalue().splitlines() if "deliver" in line]
    assert lines[0].endswith("summary delivered over team: JSON")
    assert lines[1:] == [
        "unknown alarm NOT delivered: team: JSON: HTTP 500",
        "unknown alarm delivered at try 2 over team: JSON",
    ]


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (
            Rate(32.0, "USD", "as set"),
            "live mode would have saved about 64.00 USD (an estimate, up to saving_limit of each): it stayed",
        ),
        (None, "live mode would have saved this: it stayed up for 3.0 h after stops"),
    ],
)
def test_a_dry_run_says_what_live_mode_would_have_saved(price: Rate | None, words: str) -> None:
    """The number that people go live for, as the summary and the report have it; nothing after live stops."""
    day = Day("2026-11-20", 9.0, 7200.0, 0.0, 720.0)
    shown_of = {}
    for stayed in (10800.0, 0.0):
        file = io.StringIO()
        show(console(file), overview("/h", 0.0, [day], [], [], Money({}, price, stayed, 7200.0 if stayed else 0.0)))
        shown_of[stayed] = " ".join(file.getvalue().split())
    assert words in shown_of[10800.0]
    assert "would have" not in shown_of[0.0]


def test_one_message_is_no_messages() -> None:
    """A count and its noun agree."""
    file = io.StringIO()
    show(console(file), incident_view("/h", DONE, [], [], {}))
    assert "people    1 message delivered\n" in file.getvalue()


@pytest.mark.parametrize(("incidents", "words"), [([], "Nothing was recorded"), ([DONE], "No hours were recorded")])
def test_an_incident_without_hours_is_not_nothing(incidents: list[IncidentSummary], words: str) -> None:
    """A stop within the first minutes of a record: who reads of it does not read first that there is nothing."""
    file = io.StringIO()
    show(console(file), overview("/h", 0.0, [], incidents, []))
    assert f"{words} in this time" in file.getvalue()


@pytest.mark.parametrize("head", ["Receipt: ", "To start it again: `"])
def test_what_is_copied_from_a_story_stands_on_one_line(head: str) -> None:
    """However long it is, in a file as on a narrow terminal; sentences are wrapped."""
    long = head + '{"instance":"' + "0123456789 " * 40 + '"}'
    file = io.StringIO()
    show(console(file), incident_view("/h", DONE, [Entry(5.0, "told: accepted", (long, "word " * 40))], [], {}))
    lines = file.getvalue().splitlines()
    assert " " * 10 + long in lines
    assert max(len(line) for line in lines if long not in line) <= 100
