"""What is known of who has taken a message: of its own tries alone, and never so much that somebody is not told."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from costguard.clocks import boot_clock
from costguard.notify.delivery_record import FILES_KEPT, FOLDER, SHOW_AGAIN_SECONDS, TRIES_SECONDS, DeliveryRecord
from costguard.notify.job import Draft

WARNING = Draft("m1", "warning", facts={"incident": "b-i1", "due_in_seconds": 900.0})


def file_of(folder: Path) -> Path:
    """The only record."""
    (found,) = (folder / FOLDER).iterdir()
    return found


def test_a_further_try_knows_who_has_it(tmp_path: Path) -> None:
    """Under another id, by its incident; each address by itself."""
    first = DeliveryRecord(str(tmp_path), WARNING, again=False)
    first.keep("team", 1, "Slack")
    again = DeliveryRecord(str(tmp_path), WARNING._replace(id="m2"), again=True)
    assert [(key, taken.whom) for key, taken in again.taken.items()] == [(("team", 1), "Slack")]
    assert os.stat(file_of(tmp_path)).st_mode & 0o077 == 0


def test_a_new_warning_goes_to_all(tmp_path: Path) -> None:
    """Of the same incident too: people are warned anew."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("team", 0, "Slack")
    assert DeliveryRecord(str(tmp_path), WARNING, again=False).taken == {}
    assert DeliveryRecord(str(tmp_path), WARNING, again=True).taken == {}


@pytest.mark.parametrize(
    "other",
    [
        WARNING._replace(facts={"incident": "b-i2"}),
        WARNING._replace(kind="acting"),
        WARNING._replace(kind="countdown"),
        Draft("m9", "unknown_alarm"),
    ],
)
def test_another_message_is_another_matter(tmp_path: Path, other: Draft) -> None:
    """A reminder is news, an end even more."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("team", 0, "Slack")
    assert DeliveryRecord(str(tmp_path), other, again=True).taken == {}


def test_a_reminder_of_what_nobody_has_heard_is_a_further_try(tmp_path: Path) -> None:
    """It is the warning for those who have not got it."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("wall", 0, "1 terminal")
    unheard = WARNING._replace(kind="countdown", facts={**WARNING.facts, "unreached_tries": 3})
    assert ("wall", 0) in DeliveryRecord(str(tmp_path), unheard, again=True).taken


@pytest.mark.parametrize("age", [-60.0, TRIES_SECONDS, 86400.0])
def test_what_is_old_or_from_the_future_does_not_count(tmp_path: Path, age: float) -> None:
    """After a loss of its state an agent gives the same names to other stories; rather twice than never."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("team", 0, "Slack")
    file_of(tmp_path).write_text(json.dumps(["team", 0, "Slack", time.time() - age]) + "\n")
    assert DeliveryRecord(str(tmp_path), WARNING, again=True).taken == {}


@pytest.mark.parametrize("shift", [3600.0, -86400.0])
@pytest.mark.parametrize(("age", "counts"), [(60.0, True), (TRIES_SECONDS, False)])
def test_a_date_that_is_set_meanwhile_tells_nobody_twice(
    tmp_path: Path, shift: float, age: float, counts: bool
) -> None:
    """By the clock of the boot: an hour forward does not forget who has it, a day back keeps nothing for a day."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("team", 0, "Slack")
    row = ["team", 0, "Slack", time.time() - age - shift, boot_clock() - age]
    file_of(tmp_path).write_text(json.dumps(row) + "\n")
    assert (("team", 0) in DeliveryRecord(str(tmp_path), WARNING, again=True).taken) is counts


@pytest.mark.parametrize("text", ["", "{", "[]", '["team"]', '["team","x","y","z"]', "null", "[" * 9000])
def test_a_record_that_was_cut_off_is_nothing(tmp_path: Path, text: str) -> None:
    """A worker may be killed while it writes; the lines before count."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("team", 0, "Slack")
    with file_of(tmp_path).open("a") as file:
        file.write(text)
    assert list(DeliveryRecord(str(tmp_path), WARNING, again=True).taken) == [("team", 0)]


def test_a_terminal_is_left_in_peace_for_a_while(tmp_path: Path) -> None:
    """Not in the last minutes, and not for ever."""
    DeliveryRecord(str(tmp_path), WARNING, again=False).keep("wall", 0, "1 terminal")
    again, now = DeliveryRecord(str(tmp_path), WARNING, again=True), boot_clock()
    assert again.shown_recently("wall", now + 5.0) == "1 terminal"
    assert again.shown_recently("wall", now + SHOW_AGAIN_SECONDS + 5.0) == ""
    assert again.shown_recently("terminal", now) == ""
    soon = WARNING._replace(facts={**WARNING.facts, "due_in_seconds": 100.0})
    assert DeliveryRecord(str(tmp_path), soon, again=True).shown_recently("wall", now + 5.0) == ""


def test_few_files_are_kept(tmp_path: Path) -> None:
    """The oldest go; names that a file cannot have make one."""
    for number in range(FILES_KEPT + 5):
        DeliveryRecord(str(tmp_path), Draft(f"../{number}/x", "held"), again=False).keep("team", 0, "Slack")
    assert len(list((tmp_path / FOLDER).iterdir())) == FILES_KEPT


@pytest.mark.parametrize("runtime", ["", "/proc/nowhere"])
def test_without_a_place_everybody_is_told(runtime: str) -> None:
    """Nothing is known, and nothing breaks."""
    record = DeliveryRecord(runtime, WARNING, again=False)
    record.keep("team", 0, "Slack")
    assert DeliveryRecord(runtime, WARNING, again=True).taken == {}


def test_a_further_try_has_the_id_of_the_first_one(tmp_path: Path) -> None:
    """By which a service knows it; a new warning of the same incident is news, and has its own."""
    assert DeliveryRecord(str(tmp_path), WARNING, again=False).first_id == "m1"
    for number in ("m2", "m3"):
        assert DeliveryRecord(str(tmp_path), WARNING._replace(id=number), again=True).first_id == "m1"
    assert DeliveryRecord(str(tmp_path), WARNING._replace(id="m4"), again=False).first_id == "m4"
    assert DeliveryRecord(str(tmp_path / "none"), WARNING._replace(id="m5"), again=True).first_id == "m5"
    assert DeliveryRecord("", WARNING, again=True).first_id == "m1"


def test_who_takes_the_beginning_while_the_next_step_waits_is_spared(tmp_path: Path) -> None:
    """A service that answers late: the record counts at the moment in which the message leaves."""
    acting, accepted = WARNING._replace(kind="acting"), WARNING._replace(id="m2", kind="accepted")
    first = DeliveryRecord(str(tmp_path), acting, again=False)
    then = DeliveryRecord(str(tmp_path), accepted, again=False)
    assert then.spared == set()
    first.keep("team", 0, "Slack")
    assert then.spared == {("team", 0)}


def test_a_step_in_between_waits_for_the_answer_to_what_it_goes_on_with(tmp_path: Path) -> None:
    """A request is accepted within a second, and a mail server greets late. No other address waits for that one."""
    acting, accepted = WARNING._replace(kind="acting"), WARNING._replace(id="m2", kind="accepted")
    first = DeliveryRecord(str(tmp_path), acting, again=False)
    first.keep("team", 0, "Slack")
    then = DeliveryRecord(str(tmp_path), accepted, again=False, after={name: [acting] for name in ("mail", "team")})
    began = time.monotonic()
    then.await_turn("team", 0, boot_clock())
    assert time.monotonic() - began < 0.4
    late = threading.Timer(0.5, first.keep, ("mail", 0, "E-Mail"))
    late.start()
    then.await_turn("mail", 0, boot_clock())
    assert then.spared == {("mail", 0), ("team", 0)}
    late.join()


def no_more(record: DeliveryRecord, step: str) -> None:
    """The first address of the team gets nothing more of it."""
    if step == "taken":
        record.keep("team", 0, "Slack")
    elif step == "given up":
        record.done("team", 0)
    elif step == "no address":
        record.done("team")
    else:
        record.ended()


@pytest.mark.parametrize("step", ["taken", "given up", "no address", "ended"])
def test_an_address_waits_for_nothing_that_will_not_come(tmp_path: Path, step: str) -> None:
    """It has all that is before, or the attempt is over there; who still lacks it waits. Another delivery of the same name is no proof."""
    earlier, later = WARNING._replace(id="m7"), WARNING._replace(id="m2", kind="cancelled")
    no_more(DeliveryRecord(str(tmp_path), WARNING, again=False), step)
    record = DeliveryRecord(str(tmp_path), later, again=False, after={"team": [earlier]})
    waiting = threading.Thread(target=record.await_turn, args=("team", 0, boot_clock()), daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    no_more(DeliveryRecord(str(tmp_path), earlier, again=True), step)
    waiting.join(2.0)
    assert not waiting.is_alive()
    assert record.longest_wait > 0.0 == DeliveryRecord(str(tmp_path), later, again=False).longest_wait


def test_of_a_summary_every_taker_counts(tmp_path: Path) -> None:
    """Its next try is an hour later, and its name is given once."""
    summary = Draft("summary-1", "summary")
    DeliveryRecord(str(tmp_path), summary, again=False).keep("team", 0, "Slack")
    path = file_of(tmp_path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps([*row[:3], time.time() - 3 * TRIES_SECONDS]) + "\n" for row in rows))
    assert ("team", 0) in DeliveryRecord(str(tmp_path), summary, again=True).taken
