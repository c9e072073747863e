"""What became of a message whose worker or guard was killed, from what its delivery wrote down: never more than is so, never less."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.clocks import boot_clock
from costguard.history import FILE, store
from costguard.history.job import Batch, EventRow
from costguard.notify import recall
from costguard.notify.delivery_record import FILES_KEPT, FOLDER, DeliveryRecord, record_of, rows_of
from costguard.notify.job import DeliveryResult, Draft, RecallJob

WARNING = Draft("m1", "warning", "critical", {"incident": "b-i1"})
CHANNELS = ("team", "mail", "wall")
WHY = "its process exited without a result (signal 9)"


def begun(folder: Path, message: Draft = WARNING, *, again: bool = False) -> DeliveryRecord:
    """A delivery that has just begun."""
    return DeliveryRecord(str(folder), message, again=again, channels=CHANNELS)


def asked(folder: Path, message: Draft | None = WARNING) -> DeliveryResult | None:
    """What is said of it."""
    return recall.recall(RecallJob(str(folder), WHY, boot_clock(), message, CHANNELS if message else ()))


@pytest.mark.parametrize(
    ("steps", "reached", "failed"),
    [
        ([], "", f"{WHY}; it was not sent"),
        ([("due", 0)], "", f"{WHY}; it was not sent"),
        ([("due", 0), ("asked", 0)], "", f"{WHY}; it may have arrived"),
        ([("due", 0), ("asked", 0), ("not_taken", 0, "Slack: HTTP 503")], "", "Slack: HTTP 503"),
        ([("asked", 0), ("not_taken", 0, "Slack: HTTP 503"), ("asked", 0)], "", f"{WHY}; it may have arrived"),
        ([("asked", 0), ("done", 0, "Slack: HTTP 403")], "", "Slack: HTTP 403"),
        ([("asked", 0), ("keep", 0, "Slack")], "Slack", ""),
        ([("already_taken", 0, "Slack")], "Slack", ""),
        ([("keep", 0, "Slack"), ("due", 1)], "Slack", f"{WHY}; it was not sent"),
        ([("done",)], "", ""),
        ([("done", 0)], "", ""),
        ([("asked", 0), ("absent", 0, "the task has ended")], "", ""),
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


def test_a_channel_that_leads_to_nobody_is_no_failure_beside_others(tmp_path: Path) -> None:
    """As where the delivery itself says so; alone it is one."""
    none = "costguard has no terminal of its own"
    DeliveryRecord(str(tmp_path), WARNING, again=False, channels=("wall",)).absent("wall", 0, none)
    alone = asked(tmp_path)
    assert alone is not None
    assert alone.failed == {"wall": none}
    record = begun(tmp_path)
    record.absent("wall", 0, none)
    record.keep("team", 0, "Slack")
    told = asked(tmp_path)
    assert told is not None
    assert (set(told.failed), told.absent) == ({"mail"}, {})


def test_of_a_worker_that_was_killed_before_it_began_nothing_was_sent(tmp_path: Path) -> None:
    """Where it could have written; where it could not, nobody knows."""
    begun(tmp_path, Draft("m9", "held"))
    assert asked(tmp_path) == DeliveryResult(failed=dict.fromkeys(CHANNELS, f"{WHY}; it was not sent"))
    assert asked(tmp_path / "nowhere") == DeliveryResult(failed=dict.fromkeys(CHANNELS, f"{WHY}; it may have arrived"))


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
    said: list[DeliveryResult] = []
    begun(tmp_path).keep("team", 0, "Slack")
    begun(tmp_path, Draft("m2", "held", facts={"overtakes": "b-i2"})).asked("mail", 0)
    begun(tmp_path, Draft("m3", "finding")).ended()
    now = boot_clock()
    own = begun(tmp_path, Draft("m4", "finding"))
    for _ in range(2):
        said += recall.unkept(RecallJob(str(tmp_path), WHY, now))
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


def recorded(folder: Path, kind: str, name: str, /, *, ago: float = 1.0, **data: Any) -> None:
    """The history has an event of a message."""
    row = EventRow("b-i1", time.time() - ago, kind, json.dumps({"effect": name, "name": "warning", **data}))
    batch = Batch(str(folder / FILE), f"{kind}-{name}-{ago}", "i-1", row.wall, True, (), (), (row,))
    store.save(batch)


def next_guard(folder: Path) -> list[DeliveryResult]:
    """What a guard that begins now is told."""
    return list(recall.unkept(RecallJob(str(folder), WHY, boot_clock(), history=str(folder))))


def test_what_a_guard_heard_and_could_not_write_any_more_is_told(tmp_path: Path) -> None:
    """It was killed within the second after the answer. The history is asked, so that whatever it has is not told again."""
    recorded(tmp_path, "told", "m1")
    record = begun(tmp_path)
    record.keep("team", 0, "Slack")
    record.ended()
    (told,) = next_guard(tmp_path)
    assert told.reached == {"team": "Slack"}
    assert dict(told.beside) == {"id": "m1", "kind": "warning", "incident": "b-i1"}
    assert next_guard(tmp_path) == [told], "the guard that heard so was killed, too"
    recorded(tmp_path, "delivery", "m1", begun=told.begun)
    assert next_guard(tmp_path) == []


@pytest.mark.parametrize("kind", ["outcome", "delivery"])
def test_each_try_of_a_message_is_known_by_its_moment(tmp_path: Path, kind: str) -> None:
    """That a first one is recorded says nothing of the second. An older version of costguard wrote down no moment."""
    first = begun(tmp_path)
    first.ended()
    recorded(tmp_path, kind, "m1", begun=first.begun)
    assert next_guard(tmp_path) == []
    second = begun(tmp_path, again=True)
    second.keep("mail", 0, "E-Mail")
    second.ended()
    assert [told.reached for told in next_guard(tmp_path)] == [{"mail": "E-Mail"}]
    recorded(tmp_path, kind, "m1", ago=-1.0)
    assert next_guard(tmp_path) == []


def test_a_text_that_no_process_had_begun_to_send_was_not_sent(tmp_path: Path) -> None:
    """The guard was killed between what it wrote and what it started; where no record can be kept, nobody knows."""
    recorded(tmp_path, "told", "m1", ago=5.0)
    recorded(tmp_path, "told", "m2", ago=7200.0)
    recorded(tmp_path, "told", "m3", ago=4.0)
    recorded(tmp_path, "outcome", "m3", ago=3.0)
    recorded(tmp_path, "told", "m4", ago=-60.0)  # of the guard that asks
    (told,) = recall.unkept(RecallJob(str(tmp_path / "nowhere"), WHY, boot_clock(), history=str(tmp_path)))
    assert told.error == f"{WHY}; it may have arrived"
    begun(tmp_path, Draft("m0", "finding")).ended()
    found = {told.beside["id"]: told for told in next_guard(tmp_path)}
    assert set(found) == {"m0", "m1"}
    assert (found["m1"].error, found["m1"].beside["incident"]) == (f"{WHY}; it was not sent", "b-i1")


def test_of_a_message_whose_record_may_be_gone_nobody_knows(tmp_path: Path) -> None:
    """Only so many are kept: what was told before the oldest one may have been sent."""
    recorded(tmp_path, "told", "m1", ago=60.0)
    (tmp_path / FOLDER).mkdir()
    for number in range(FILES_KEPT):
        path = tmp_path / FOLDER / f"x{number}"
        path.touch()
        os.utime(path, (time.time() - 30.0, time.time() - 30.0))
    assert [told.error for told in next_guard(tmp_path)] == [f"{WHY}; it may have arrived"]


def test_the_text_of_a_message_outlives_a_guard_that_could_not_write_it(tmp_path: Path) -> None:
    """Who asks what people were told finds it, though only they and its record have it."""
    recorded(tmp_path, "told", "m9", begun=1.0)
    DeliveryRecord(
        str(tmp_path), WARNING, again=False, channels=CHANNELS, text=("gpu-7 will be stopped", "Hold it.")
    ).ended()
    told = next(told for told in next_guard(tmp_path) if told.beside["id"] == "m1")
    assert (told.beside["title"], told.beside["body"]) == ("gpu-7 will be stopped", "Hold it.")


def test_without_a_history_what_has_ended_is_taken_for_written(tmp_path: Path) -> None:
    """Else each start would tell all of the hour again."""
    begun(tmp_path).ended()
    begun(tmp_path, Draft("m2", "finding"))
    assert [told.beside["id"] for told in next_guard(tmp_path)] == ["m2"]


def test_who_takes_a_message_after_hours_of_tries_is_known(tmp_path: Path) -> None:
    """A countdown is tried every two minutes while no channel takes it: a terminal then had it with each of them, as the end of the record was not read."""
    for _ in range(60):
        record = begun(tmp_path, again=True)
        for _ in range(20):
            record.asked("team", 0)
            record.not_taken(
                "team", 0, "Slack: hooks.slack.com could not be reached (check this machine's network and proxy)"
            )
        record.ended()
    record.keep("wall", 0, "1 terminal (pts/0)")
    assert begun(tmp_path, again=True).taken.keys() == {("wall", 0)}


OWED: dict[str, Any] = {"beside": {"digest": "b007-digest10"}, "status": "delivered"}
"""What is recorded of a message that was held back for a digest."""


def owed(folder: Path, **more: Any) -> list[dict[str, object]]:
    """The digests that a guard which begins now is told of."""
    job = RecallJob(str(folder), WHY, boot_clock(), history=str(folder), resumed=False)._replace(**more)
    return [dict(told.beside) for told in recall.owed(job)]


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dates are read in one zone, and in this machine's again afterwards."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC0")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_a_digest_that_no_guard_lived_to_send_is_owed_with_its_time(tmp_path: Path) -> None:
    """The machine stopped within the hour. Whatever became of it at a channel, it is owed once."""
    noon = time.time() - 1e6 - (time.time() - 1e6) % 86400.0 + 43200.0
    for number, name in enumerate(("held", "held", "finding")):
        recorded(tmp_path, "told", f"m{number}", ago=time.time() - noon - 60.0 * number, name=name)
        recorded(tmp_path, "outcome", f"m{number}", ago=time.time() - noon - 60.0 * number, **OWED)
    (told,) = owed(tmp_path)
    day = time.strftime("%Y-%m-%d", time.localtime(noon))
    assert told["id"] == "b007-digest10"
    assert told["digest"] == (
        f"3 messages held back from {day} 12:00 UTC to 12:02 UTC, before costguard was started again: 2 × held, 1 × finding;"
        " `costguard history` has them"
    )
    assert owed(tmp_path, digests=("b007-digest10",)) == [], "the guard that asks sends it itself"
    assert owed(tmp_path, instance="i-2") == [], "the disk is a copy of another machine's"
    assert owed(tmp_path, instance="i-1") == [told]
    recorded(tmp_path, "delivery", "b007-digest10", failed={"team": "HTTP 503"})
    assert owed(tmp_path) == []


def test_the_first_guard_of_a_boot_asks_for_no_records_of_this_boot(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """There are none: what was told in an earlier boot may have been sent, and is not said not to have been."""
    recorded(tmp_path, "told", "m1", ago=5.0)
    recorded(tmp_path, "outcome", "m2", **OWED)
    assert recall.recall(RecallJob(str(tmp_path), WHY, boot_clock(), history=str(tmp_path), resumed=False)) is None
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["beside"]["id"] == "b007-digest10"
