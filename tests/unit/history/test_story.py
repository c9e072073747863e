"""What the story of an incident says of its messages."""

import pytest

from costguard.history.query import Event
from costguard.history.story import RESULTS, UNKNOWN_STATUS, story, summary
from costguard.notify.job import LATER_CAME_FIRST, LEFT_OUT


def events(proof: str) -> list[Event]:
    """A message, and who took it."""
    told = {"effect": "m1", "name": "cancelled", "facts": {}}
    fate = {"effect": "m1", "status": "delivered", "detail": "", "proof": proof}
    return [Event("x-i1", 1.0, "told", "i", "m", told), Event("x-i1", 2.0, "outcome", "i", "m", fate)]


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        ("no channel: nobody asked for messages of this kind (done, info)", "not sent: nobody asked for messages of this kind (done, info)"),
        ("no channel: takes messages of this kind (done, info)", "not sent: nobody asked for messages of this kind (done, info)"),
        ("no channel: nobody is left to hear it: job 1 has ended", "not sent: nobody is left to hear it: job 1 has ended"),
        (f"no channel: {LATER_CAME_FIRST} (acting)", f"not sent: {LATER_CAME_FIRST} (acting)"),
        ("held back for this hour's digest", "held back for this hour's digest"),
    ],
)  # fmt: skip
def test_what_was_sent_to_nobody_was_not_delivered(proof: str, words: str) -> None:
    """Also as an earlier version wrote it; it is neither counted as delivered nor as a failure."""
    found = events(proof)
    assert story(found)[1].title == f"cancelled {words}"
    assert (summary(found).delivered, summary(found).undelivered) == (0, 0)


def test_a_channel_that_had_enough_is_named_beside_those_that_took_the_message() -> None:
    """What became of a message is on record for each channel."""
    told, fate = events("team: Slack")
    fate = fate._replace(data={**fate.data, "beside": {LEFT_OUT: {"terminal": LATER_CAME_FIRST}}})
    assert (
        story([told, fate])[1].title
        == f"cancelled delivered over team: Slack; not sent over terminal: {LATER_CAME_FIRST}"
    )


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("done", "", RESULTS["acted"]),
        ("done", "the command succeeded", f"{RESULTS['acted']}: the command succeeded"),
        ("would_act", "", RESULTS["would"]),
        ("cannot", "no right", f"{RESULTS['cannot']}: no right"),
        ("outcome_unknown", "", RESULTS["unknown"]),
        ("failed", "HTTP 500", f"{RESULTS['failed']}: HTTP 500"),
    ],
)
def test_an_end_that_its_guard_could_not_write_any_more_is_known_by_its_message(
    kind: str, error: str, words: str
) -> None:
    """The guard and all that it had started were killed as it ended; the next one told it."""
    warned = Event("x-i1", 1.0, "phase", "i", "m", {"from": "WATCHING", "to": "WARNING"})
    told = Event("x-i1", 9.0, "told", "i", "m", {"effect": "m2", "name": kind, "facts": {"error": error}})
    assert summary([warned]).words == RESULTS["open"]
    assert summary([warned, told]).words == words
    ended = {"from": "WARNING", "to": "DONE", "done": "cannot", "detail": "no right"}
    both = [warned, Event("x-i1", 9.0, "phase", "i", "m", ended), told._replace(wall=10.0)]
    assert summary(both).result == "cannot", "what was written counts more"


def test_a_message_of_its_own_that_nobody_asked_for() -> None:
    """What the engine does not wait for is told in the same words."""
    fate = {"name": "done", "reached": {"no channel": "nobody asked for messages of this kind (done, info)"}}
    title = story([Event("", 3.0, "delivery", "i", "m", fate)])[0].title
    assert title == "done not sent: nobody asked for messages of this kind (done, info)"


def test_what_was_delivered_is_counted() -> None:
    """The words of a channel do not hide it."""
    found = events("team: takes messages of this kind")
    assert story(found)[1].title == "cancelled delivered over team: takes messages of this kind"
    assert summary(found).delivered == 1


KILLED = "its process exited without a result (signal 9); it may have arrived"


def test_a_message_whose_sender_died_has_perhaps_arrived() -> None:
    """Nobody knows: it is neither called delivered nor not; a later try that arrives settles it."""
    told = {"effect": "m1", "name": "acting", "facts": {}}
    fate = {"effect": "m1", "status": "failed", "detail": f"the worker failed: {KILLED}", "failed": {"team": KILLED}}
    found = [Event("x-i1", 1.0, "told", "i", "m", told), Event("x-i1", 2.0, "outcome", "i", "m", fate)]
    assert story(found)[1].title == f"acting may have been delivered: the worker failed: {KILLED}"
    assert counts(found) == (0, 0, 1)
    again = {"effect": "m1", "name": "acting", "reached": {"team": "JSON"}, "failed": {}, "tries": 2}
    assert counts([*found, Event("x-i1", 60.0, "delivery", "i", "m", again)]) == (1, 0, 0)
    lost = {**again, "reached": {}, "failed": {"team": "HTTP 500"}}
    assert counts([*found, Event("x-i1", 60.0, "delivery", "i", "m", lost)]) == (0, 0, 1), "the first may still have"


def test_a_message_without_a_fate_is_in_doubt_once_somebody_would_know() -> None:
    """The guard was killed while it was told: it counts as neither."""
    told = [
        Event("x-i1", at, "told", "i", "m", {"effect": f"m{at:.0f}", "name": "acting", "facts": {}})
        for at in (1.0, 100.0)
    ]
    assert counts(told) == (0, 0, 1)
    assert [UNKNOWN_STATUS in entry.lines for entry in story(told)] == [True, False]
    fate = {"effect": "m1", "name": "acting", "error": "the agent ended before it knew; it was not sent"}
    recalled = Event("x-i1", 101.0, "delivery", "i", "m", fate)
    assert [UNKNOWN_STATUS in entry.lines for entry in story([*told, recalled])] == [False] * 3
    assert story([*told, recalled])[2].title == "acting NOT delivered: the agent ended before it knew; it was not sent"
    assert counts([*told, recalled]) == (0, 1, 0)
    doubted = recalled._replace(data={**fate, "error": "the agent ended before it knew; it may have arrived"})
    assert counts([*told, doubted]) == (0, 0, 1)


def test_a_message_that_its_guard_could_not_write_any_more_has_its_text() -> None:
    """It stands beside what became of it, from the record of its delivery."""
    fate = {
        "effect": "m1",
        "name": "warning",
        "reached": {"team": "Slack"},
        "title": "gpu-7 will be stopped",
        "body": "Hold it.\nNow.",
    }
    (entry,) = story([Event("x-i1", 1.0, "delivery", "i", "m", fate)])
    assert (entry.title, entry.lines) == (
        "warning delivered over team: Slack",
        ("told: gpu-7 will be stopped", "Hold it.", "Now."),
    )


def counts(found: list[Event]) -> tuple[int, int, int]:
    """Messages that arrived, that did not, and of which nobody knows."""
    of = summary(found)
    return of.delivered, of.undelivered, of.in_doubt


def test_a_hold_that_was_told_again_stands_in_its_incident_once() -> None:
    """The guard was killed while the message was on its way: the next one records it with the countdown that it ended."""
    warned = {"effect": "m1", "name": "warning", "facts": {}}
    held = {"effect": "m2", "name": "held", "facts": {"owner": "ann", "takes_back": "warning", "overtakes": "x-i1"}}
    found = [Event("x-i1", at, "told", "i", "m", data) for at, data in ((1.0, warned), (2.0, held), (30.0, held))]
    assert [entry.title.startswith("told: ") for entry in story(found)] == [True, True, False]
    assert story(found)[2].title == "held is repeated after a restart"
    assert summary(found).words == "postponed by ann"
