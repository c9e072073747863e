"""What became of a message whose worker or guard was killed, from what its delivery wrote down: never more than is so, never less."""

import json
from pathlib import Path

import pytest

from costguard.clocks import boot_clock
from costguard.notify import recall
from costguard.notify.delivered import Delivered, record_of, rows_of
from costguard.notify.job import Draft, RecallJob, Told

WARNING = Draft("m1", "warning", "critical", {"incident": "b-i1"})
CHANNELS = ("team", "mail", "wall")
WHY = "its process exited without a result (signal 9)"


def begun(folder: Path, message: Draft = WARNING, *, again: bool = False) -> Delivered:
    """A delivery that has just begun."""
    return Delivered(str(folder), message, again=again, channels=CHANNELS)


def asked(folder: Path, message: Draft | None = WARNING) -> Told | None:
    """What is said of it."""
    return recall.recall(RecallJob(str(folder), WHY, boot_clock(), message, CHANNELS if message else ()))


@pytest.mark.parametrize(
    ("steps", "reached", "failed"),
    [
        ([], "", f"{WHY}; it was not sent"),
        ([("due", 0)], "", f"{WHY}; it was not sent"),
        ([("due", 0), ("left", 0)], "", f"{WHY}; it may have arrived"),
        ([("due", 0), ("left", 0), ("back", 0, "Slack: HTTP 503")], "", "Slack: HTTP 503"),
        ([("left", 0), ("back", 0, "Slack: HTTP 503"), ("left", 0)], "", f"{WHY}; it may have arrived"),
        ([("left", 0), ("over", 0, "Slack: HTTP 403")], "", "Slack: HTTP 403"),
        ([("left", 0), ("keep", 0, "Slack")], "Slack", ""),
        ([("had", 0, "Slack")], "Slack", ""),
        ([("keep", 0, "Slack"), ("due", 1)], "Slack", f"{WHY}; it was not sent"),
        ([("over",)], "", ""),
        ([("over", 0)], "", ""),
    ],
)
def test_each_channel_is_as_far_as_its_last_step(
    tmp_path: Path, steps: list[tuple[str, object]], reached: str, failed: str
) -> None:
    """Whoever was to get nothing is no failure; and the others were not asked."""
    record = begun(tmp_path)
    for step, *where in steps:
        getattr(record, step)("team", *where)
    told = asked(tmp_path)
    assert told is not None
    assert (told.reached.get("team", ""), told.failed.get("team", "")) == (reached, failed)
    assert told.failed["mail"] == told.failed["wall"] == f"{WHY}; it was not sent"


def test_of_a_worker_that_was_killed_before_it_began_nothing_was_sent(tmp_path: Path) -> None:
    """Where it could have written; where it could not, nobody knows."""
    begun(tmp_path, Draft("m9", "held"))
    assert asked(tmp_path) == Told(failed=dict.fromkeys(CHANNELS, f"{WHY}; it was not sent"))
    assert asked(tmp_path / "nowhere") == Told(failed=dict.fromkeys(CHANNELS, f"{WHY}; it may have arrived"))


def test_an_earlier_try_of_the_same_message_is_another_delivery(tmp_path: Path) -> None:
    """Which has its own end, in the same record."""
    begun(tmp_path).keep("team", 0, "Slack")
    again = WARNING._replace(id="m2")
    begun(tmp_path, again, again=True)
    told = asked(tmp_path, again)
    assert told is not None
    assert (told.reached, set(told.failed)) == ({}, set(CHANNELS))


def test_every_delivery_that_was_cut_off_is_told_once(tmp_path: Path) -> None:
    """Not one that has ended, nor one of the guard that asks."""
    said: list[Told] = []
    begun(tmp_path).keep("team", 0, "Slack")
    begun(tmp_path, Draft("m2", "held", facts={"overtakes": "b-i2"})).left("mail", 0)
    begun(tmp_path, Draft("m3", "finding")).ended()
    now = boot_clock()
    own = begun(tmp_path, Draft("m4", "finding"))
    for _ in range(2):
        said += recall.cut_off(RecallJob(str(tmp_path), WHY, now))
        own.ended()
        now = boot_clock()
    assert [dict(one.beside) for one in said] == [
        {"id": "m1", "kind": "warning", "incident": "b-i1"},
        {"id": "m2", "kind": "held", "incident": "b-i2"},
    ]
    assert said[0].reached == {"team": "Slack"}
    assert said[1].failed["mail"] == f"{WHY}; it may have arrived"


@pytest.mark.parametrize(
    "text", ["[]", "7", '["",0]', '["",0,"m1",1.0,1.0,7]', '["",3,"m7",1.0,1.0,"team",0]', '["team"', "null"]
)
def test_lines_that_make_no_sense_are_none(tmp_path: Path, text: str) -> None:
    """A worker may have been killed while it wrote, and an older version wrote less."""
    record = begun(tmp_path)
    path = Path(record_of(str(tmp_path), WARNING))
    with path.open("a") as file:
        file.write(text + "\n")
    record.keep("team", 0, "Slack")
    with path.open("a") as file:
        file.write(json.dumps(["mail", 0, "E-Mail", 1.0]) + "\n")
    told = asked(tmp_path)
    assert told is not None
    assert told.reached == {"team": "Slack"}
    assert rows_of(str(path))
