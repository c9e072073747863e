"""What people read."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard import engine
from costguard.config.types import KINDS as NAMED
from costguard.engine.wording import WORDINGS
from costguard.notify.compose import _KINDS, compose
from costguard.notify.job import Draft
from costguard.notify.worker import written

KINDS = tuple(_KINDS)
FACTS: dict[str, object] = {
    "machine": "box",
    "instance": "i-1",
    "incident": "b-i1",
    "mode": "live",
    "action": "shutdown",
    "reason": "idle",
    "gpus": ["GPU 0 (H100)", "GPU 1 (H100)"],
    "readings": [["GPU 0", 0.01, "62 W"], ["GPU 1", None, "driver lost"]],
    "threshold": 0.05,
    "window": 3600,
    "due_in_seconds": 600,
    "due_wall": 1_763_740_000,
    "findings": [["bill_ends", "local disks are lost", "copy them"]],
    "price_per_hour": 32.77,
    "currency": "EUR",
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("kind", ["cancelled", "failed", "came_back"])
def test_what_a_person_asked_for_is_given_up_by_name_and_with_the_command(kind: str) -> None:
    """No text promises an attempt that never comes, or a warning before it; the next step is the person's."""
    text = compose(kind, {**FACTS, "reason": "person", "owner": "ann (uid 7)", "why": "the guard was away"})
    words = f"{text.title}\n{text.body}"
    assert "ann (uid 7)" in words
    assert "`costguard stop`" in words
    assert "ext attempt" not in words
    assert "announced" not in words


def test_an_alarm_about_what_was_unreadable_does_not_say_that_it_is() -> None:
    """GPUs that come and go hold up a stop, too; who looks finds them readable. The command needs root, as it says."""
    text = compose("unknown_alarm", {**FACTS, "unknown_gpus": [], "unknown_seconds": 600.0})
    assert text.title.endswith(
        ": GPUs that could not be read have held up the shutdown for 10m; nothing is stopped meanwhile"
    )
    assert "Every GPU can be read now." in text.body
    assert "`sudo costguard stop`" in text.body
    still = compose("unknown_alarm", {**FACTS, "unknown_gpus": ["GPU 0"], "unknown_seconds": 600.0})
    assert "GPUs unreadable for 10m" in still.title
    assert "at this moment" not in still.body


def test_a_warning_says_who_why_when_and_how_to_postpone() -> None:
    """Machine, GPUs, threshold, window, last readings, due time, consequences, price, one short command."""
    text = compose("warning", FACTS)
    assert text.title == "box will be shut down at 15:46 UTC (in 10m)"
    for part in (
        "load below 5 % for 1h on GPUs 0 and 1 (H100)",
        "GPU 0 1 % (62 W) and GPU 1 unknown (driver lost)",
        "`costguard hold 2h`",
        "Local disks are lost.",
        "32.77 EUR an hour",
        "Instance i-1, incident b-i1.",
    ):
        assert part in text.body
    assert text.body.startswith("To postpone it: `costguard hold 2h` on box."), "what a phone still shows"
    assert "stop_below_load" not in text.body
    assert not text.dry_run


def test_a_warning_names_the_switch_that_counts_load_as_idle() -> None:
    """Whoever still works must learn why that does not count."""
    body = compose("warning", {**FACTS, "stop_below_load": True, "threshold": 0.7}).body
    assert "stop_below_load is set: load below 70 % counts as idle" in body


def test_a_warning_without_a_date_takes_the_grace() -> None:
    """`grace` stands in for the due time, `wall` for the date."""
    facts = {"machine": "box", "action": "stop", "mode": "live", "grace": 600, "wall": 1_763_739_400}
    assert compose("warning", facts).title == "box will be stopped at 15:46 UTC (in 10m)"
    assert compose("warning", {**facts, "wall": None}).title == "box will be stopped in 10m"


@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_a_warning_without_time_offers_no_hold(mode: str) -> None:
    """With a grace of 0 the action comes at once, and a command that would come too late is not advised."""
    text = compose("warning", {"machine": "box", "action": "end_process", "mode": mode, "grace": 0, "wall": 1.76e9})
    assert text.title.endswith("end with exit code 0 at once")
    assert "in 0 s" not in text.body
    assert "hold 2h" not in text.body
    assert "grace is 0" in text.body


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_of_a_dry_run_says_so(kind: str) -> None:
    """First thing in the title, and nothing claims that something will happen, but for what the cloud itself does."""
    text = compose(kind, {**FACTS, "mode": "dry-run"})
    assert text.title.startswith("DRY RUN: ")
    assert text.dry_run
    assert " will " not in text.title.replace(" the cloud will ", "")
    assert " is being " not in text.title


@pytest.mark.parametrize("kind", ["warning", "would_act", "acting"])
@pytest.mark.parametrize("action", sorted(WORDINGS))
def test_a_dry_run_speaks_of_would(kind: str, action: str) -> None:
    """Whatever the action."""
    assert " would " in compose(kind, {**FACTS, "mode": "dry-run", "action": action}).title


@pytest.mark.parametrize("kind", KINDS)
def test_live_messages_do_not_look_like_a_dry_run(kind: str) -> None:
    """Only `would_act` exists in dry runs alone."""
    assert compose(kind, FACTS).dry_run is (kind == "would_act")


@pytest.mark.parametrize(
    ("kind", "action", "title"),
    [
        ("acting", "terminate", "box is being terminated (deleted) now"),
        ("acting", "end_process", "box: costguard is ending with exit code 0 now"),
        ("cannot", "stop", "box cannot be stopped; the bill goes on"),
        ("cannot", "command", "box: the configured command cannot be run"),
        ("failed", "reboot", "box: reboot failed (3 attempts)"),
        ("accepted", "hibernate", "box: hibernation accepted"),
        ("cancelled", "shutdown", "box: shutdown cancelled"),
    ],
)
def test_titles_fit_the_action(kind: str, action: str, title: str) -> None:
    """The bill is named only where the action was to end it."""
    assert compose(kind, {**FACTS, "action": action, "rounds": 3}).title == title


@pytest.mark.parametrize(
    ("kind", "action", "words"),
    [
        ("held", "command", "The command is not run until the hold ends."),
        ("held", "reboot", "The machine is not rebooted until the hold ends."),
        ("cancelled", "command", "A new warning comes before the command."),
        ("cancelled", "stop", "A new warning comes before any stop."),
        ("stopping", "reboot", "box has begun to reboot"),
        ("outcome_unknown", "command", "See whether the command ran, and what it did."),
        ("outcome_unknown", "stop", "Check in the cloud's console whether the machine is still billed."),
        ("unguarded", "end_process", "box: costguard was stopped before the countdown ended"),
        ("unguarded", "stop", "box: costguard has ended, so nothing is stopped; the bill goes on"),
    ],
)
def test_words_are_true_of_the_action(kind: str, action: str, words: str) -> None:
    """Not every action stops a machine, and no console of a cloud knows what a command did."""
    text = compose(kind, {**FACTS, "action": action, "machine": "box"})
    assert words in f"{text.title}\n{text.body}"


def test_accepted_is_not_confirmed() -> None:
    """Proof has grades; a message never claims the next one."""
    body = compose("accepted", {**FACTS, "proof": "exit code 0", "detail": "the init system took it"}).body
    assert "Proof: exit code 0." in body
    assert "Not confirmed yet" in body
    assert "Not confirmed yet" not in compose("accepted", {**FACTS, "action": "reboot"}).body


def test_a_refusal_says_what_to_do() -> None:
    """Hints belong where somebody has to act."""
    assert "What to do: Copy them." in compose("cannot", FACTS).body
    assert "What to do" not in compose("warning", FACTS).body
    assert "costguard status" in compose("cannot", {}).body


def test_an_alarm_names_gpus_time_and_money() -> None:
    """And says that unknown is not idle."""
    facts = {**FACTS, "unknown_gpus": ["GPU 3"], "unknown_seconds": 5400, "money": 49.155}
    text = compose("unknown_alarm", facts)
    assert text.title == "box: GPUs unreadable for 1h 30m; nothing is stopped meanwhile"
    assert "Unreadable: GPU 3." in text.body
    assert "Cost so far: about 49.16 EUR" in text.body


def test_a_hold_names_its_owner_and_its_end() -> None:
    """People see who did it."""
    facts = {"machine": "box", "owner": "alice", "hold": "demo day", "hold_seconds": 7200}
    text = compose("held", facts)
    assert text.title == "box is held by alice for 2h"
    assert "Reason given: demo day." in text.body
    assert "until 15:46 UTC" in compose("held", {**facts, "hold_until_wall": 1_763_740_000}).title
    assert (
        "until 16:26:40 UTC" in compose("held", {**facts, "hold_until_wall": 1_763_742_400, "hold_seconds": 20}).title
    )
    assert compose("hold_ended", facts).title == "box: hold by alice has ended"


def test_a_hold_that_was_released_names_who_did_it() -> None:
    """`released` is no reason for a hold."""
    text = compose("hold_ended", {"machine": "box", "owner": "bob", "hold": "released"})
    assert text.title == "box: hold released by bob"
    assert "The rules apply again" in text.body
    left = compose(
        "hold_ended", {"machine": "box", "owner": "bob", "hold": "released", "holders": ["root", "ann"]}
    ).body
    assert "still held by root and ann" in left
    assert "apply again" not in left
    warning = {**FACTS, "hold_left": 0.0}
    assert "Only root can postpone it, with" in compose("warning", warning).body
    assert "Only root" not in compose("warning", {**warning, "hold_left": 600.0}).body
    assert "because" not in text.body


def test_a_hold_beside_another_says_that_both_must_end() -> None:
    """Whoever reads "until 18:00" counts on the end of it."""
    facts = {"machine": "box", "owner": "bob", "hold_seconds": 3600.0}
    both = compose("held", {**facts, "holders": ["ann"]}).body
    assert "It is also held by ann. \n" in both.replace(".\n", ". \n")
    assert "until the last of these holds ends" in both
    assert "also held" not in compose("held", {**facts, "holders": []}).body


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("lifetime", "Why: its lifetime is over."), ("lease", "Why: its lease has ended."),
        ("budget", "Why: its budget is spent."), ("", "Why: the deadline (lifetime, lease or budget) has passed."),
    ],
)  # fmt: skip
def test_a_deadline_is_named(limit: str, words: str) -> None:
    """Which of the three it is decides whom to ask."""
    assert words in compose("warning", {**FACTS, "reason": "deadline", "limit": limit}).body


def test_a_deadline_ahead_says_that_the_stop_comes_after_the_time_for_people() -> None:
    """Its date is that of the warning."""
    body = compose("deadline_ahead", {**FACTS, "limit": "lifetime", "grace": 600.0, "due_in_seconds": 3600.0}).body
    assert body.startswith("A warning comes then, 10m before the shutdown. ")


@pytest.mark.parametrize("stop_busy", [True, False])
def test_a_warning_of_a_deadline_that_stops_work_says_so(stop_busy: bool) -> None:
    """Whoever reads that a GPU is at 95 % would take the warning for a mistake."""
    body = compose("warning", {**FACTS, "reason": "deadline", "limit": "lifetime", "stop_busy": stop_busy}).body
    assert ("Work does not prevent it: deadline.stop_busy is set." in body) is stop_busy


def test_a_hold_in_dry_run_says_what_it_would_keep() -> None:
    """Nothing is done there, held or not."""
    body = compose("held", {**FACTS, "mode": "dry-run", "owner": "ann", "hold_seconds": 3600.0}).body
    assert "In live mode nothing is stopped until the hold ends." in body


def test_a_stop_that_a_dry_run_ends_is_taken_back() -> None:
    """People were told of a real one."""
    text = compose(
        "cancelled", {**FACTS, "mode": "dry-run", "announced_live": True, "why": "the configuration changed"}
    )
    assert text.title.endswith("shutdown cancelled: dry run from now on")
    assert "Nothing is done while mode is dry-run" in text.body


def test_a_command_that_has_run_does_not_read_as_the_end_of_the_bill() -> None:
    """The first line alone must be enough; and work that was not saved is told with it."""
    failed = [["hook_failed", "the pre-stop hook was killed after 20 s", ""], ["disk", "the disks stay", ""]]
    text = compose("done", {**FACTS, "action": "command", "findings": failed})
    assert text.title == "box: command done; the machine is billed for as long as it is up"
    assert "killed after 20 s" in text.body
    assert "disks" not in text.body
    assert compose("done", FACTS).title == "box: shutdown done"


@pytest.mark.parametrize(("length", "lines"), [(20, 0), (400, 1)])
def test_the_first_line_of_a_note_is_the_note(length: int, lines: int) -> None:
    """As much of it as a phone shows; all of it follows where that is less."""
    note = ("a word " * length)[:length].strip()
    text = compose("notes", {"machine": "box", "text": note})
    assert text.title.startswith(f"box: {note[:15]}")
    assert len(text.title) < 160
    assert text.body.count(note) == lines


def test_a_countdown_without_its_guard_says_what_it_means_for_the_bill() -> None:
    """And which command makes it go on; what a person asked for does not go on."""
    idle = compose("unguarded", FACTS)
    assert idle.title == "box: costguard has ended, so nothing is stopped; the bill goes on"
    assert "To guard the machine again: `sudo systemctl start costguard`." in idle.body
    assert "A new countdown begins then, with its warning." in idle.body
    assert "cancelled then" in compose("unguarded", {**FACTS, "reason": "person", "owner": "ann"}).body
    assert "bill" not in compose("unguarded", {**FACTS, "action": "command"}).title


def test_a_reason_that_was_told_is_not_to_be_looked_for() -> None:
    """A third stop is refused in words, with the command that allows it: nothing more is to be seen elsewhere."""
    body = compose("cannot", {**FACTS, "findings": [], "error": "it was stopped twice: `sudo costguard release`"}).body
    assert "sudo costguard release" in body
    assert "To see why" not in body


def test_who_reads_the_first_line_knows_what_a_stop_has_saved() -> None:
    """How long it was off, and the money; no more than is known."""
    off = {"off_seconds": 28_800, "stopped_wall": 1.7e9, "started_wall": 1.7e9 + 28_800, "currency": "EUR"}
    known = compose("closed", {**FACTS, **off, "saved": 262.16})
    assert known.title == "box has started again after 8h; the shutdown is confirmed, and saved about 262.16 EUR"
    assert compose("closed", {**FACTS, **off}).title == "box has started again after 8h; the shutdown is confirmed"
    unset = {"stopped_wall": 1.7e9}
    assert compose("closed", {**FACTS, **unset}).title == "box has started again; the shutdown is confirmed"


def test_a_plan_that_cannot_be_checked_says_where_to_look() -> None:
    """It may be why a machine is not stopped one day: that is no information alone."""
    body = compose(
        "finding", {**FACTS, "subjects": ["the plan for stop"], "code": "unchecked", "text": "no route"}
    ).body
    assert "`costguard doctor`" in body
    assert "For information only" not in body


def test_a_summary_says_why_nothing_may_be_stopped_and_what_wants_a_look() -> None:
    """Whoever pays for an idle week reads who holds the machine; a job that hung counts as work, and is named."""
    facts = {
        **FACTS,
        "quiet": 7 * 86400.0,
        "forbidden": "the administrator holds it: benchmarks",
        "hung": 2,
        "kept_up": 1,
    }
    body = compose("summary", facts).body
    assert "Now nothing is stopped: the administrator holds it: benchmarks." in body
    assert "A job seemed to hang: reported twice." in body
    assert "People or programs kept it up without GPU work: reported once." in body
    assert "holds it" not in compose("summary", {**facts, "forbidden": ""}).body


def test_a_reminder_says_what_it_means_for_the_bill_and_each_thing_once() -> None:
    """Of a refusal the findings say what to do; whether a stop whose outcome is unknown ended the bill nobody can say."""
    facts = {**FACTS, "error": "local disks are lost", "money": 3.0}
    text = compose("reminder", {**facts, "done": "cannot"})
    assert text.title == "box: shutdown still not possible; the bill goes on"
    assert text.body.lower().count("local disks are lost") == 1
    assert "What to do: Copy them." in text.body
    assert compose("reminder", {**facts, "done": "unknown"}).title == "box: outcome of the shutdown still unknown"
    assert "bill" not in compose("reminder", {**facts, "action": "command"}).title


def test_a_refusal_is_not_told_twice() -> None:
    """The engine sends the findings and their joined words."""
    body = compose("cannot", {**FACTS, "error": "local disks are lost"}).body
    assert body.lower().count("local disks are lost") == 1


def test_a_spot_price_is_an_estimate_and_a_limit_is_no_price() -> None:
    """Each with its date and source; a limit is marked as one, and counts for nothing."""
    found = {"amount": 1.5, "currency": "USD", "date": "2026-07-20", "source": "a table", "region": "north"}
    spot = compose("failed", {**FACTS, "price_per_hour": 1.5, "price": {**found, "kind": "spot"}}).body
    assert "(estimate): 1.50 USD an hour, Spot price of 2026-07-20 (source: a table)." in spot
    limit = {**FACTS, "price_per_hour": None, "price": {**found, "kind": "limit"}}
    text = compose("failed", limit).body
    limit_words = (
        "(estimate): at most 1.50 USD an hour, on-demand price or limit of 2026-07-20 in north (source: a table)"
    )
    assert limit_words in text
    own = compose("failed", {**limit, "price_per_hour": 1.5, "currency": "USD"}).body
    assert "(estimate): 1.50 USD an hour, as set." in own


def test_a_list_price_is_shown_with_its_date_and_source() -> None:
    """The owner's own price needs none; a figure that rests on a price names it."""
    listed = {"amount": 32.77, "currency": "USD", "date": "2026-07-20", "source": "a table"}
    own = compose("failed", {**FACTS, "price_per_hour": 9.5, "currency": "EUR", "price": listed}).body
    assert "(estimate): 9.50 EUR an hour, as set." in own
    for facts in ({"price_per_hour": 32.77}, {"price_per_hour": None}):
        text = compose("failed", {**FACTS, **facts, "price": listed}).body
        assert "(estimate): 32.77 USD an hour, list price of 2026-07-20 (source: a table)." in text
    rests = compose("reminder", {**FACTS, "done": "cannot", "money": 3, "price_per_hour": 32.77, "price": listed}).body
    assert "Cost so far: about 3.00" in rests
    assert "2026-07-20" in rests


def test_an_end_that_a_cloud_shows_is_called_confirmed() -> None:
    """The third grade of proof has its own word, and what the cloud shows stands with it."""
    text = compose("done", {**FACTS, "action": "stop", "error": "closed: the cloud shows it as off", "proof": "r-1"})
    assert text.title == "box: stop confirmed"
    assert "Closed: the cloud shows it as off." in text.body
    assert "Proof: r-1." in text.body
    assert compose("done", FACTS).title == "box: shutdown done"


def test_what_comes_after_an_attempt() -> None:
    """Unknown is never repeated, closed has a duration, a reminder has the money."""
    assert "costguard does not retry it." in compose("outcome_unknown", FACTS).body
    assert compose("closed", {**FACTS, "off_seconds": 28_800}).title.startswith("box has started again after 8h;")
    off = {
        "off_seconds": 28_800,
        "stopped_wall": 1.7e9,
        "started_wall": 1.7e9 + 28_800,
        "saved": 262.16,
        "currency": "EUR",
    }
    closed = compose("closed", {**FACTS, **off})
    assert "It was off, or starting, from 2023-11-14 22:13 UTC to 2023-11-15 06:13 UTC." in closed.body
    assert closed.title.endswith(", and saved about 262.16 EUR")
    assert "262.16" not in closed.body, "no sum is told twice"
    assert "Cost so far" in compose("reminder", {**FACTS, "done": "cannot", "money": 3}).body
    assert "went off and came back" in compose("came_back", {**FACTS, "acted": True}).body
    assert "went off and came back" not in compose("came_back", FACTS).body


def test_a_limit_that_takes_something_from_the_savings_is_named() -> None:
    """Whoever multiplies the hours by the price finds why it is more than the message says; without a loss no word of it."""
    of_a_day = "At most 1d of each stop counts as saved (saving_limit)."
    closed = {**FACTS, "off_seconds": 62 * 3600.0, "saved": 768.0, "price_per_hour": 32.0, "currency": "USD"}
    assert of_a_day in compose("closed", closed).body
    assert "saving_limit" not in compose("closed", {**closed, "saved": 62 * 32.0}).body
    assert "saving_limit" not in compose("closed", {**closed, "saved": None}).body
    week = {**FACTS, "mode": "live", "off": 62 * 3600.0, "saved": 768.0, "saving_limit": 86400.0, "currency": "USD"}
    assert of_a_day in compose("summary", {**week, "uncounted": 38 * 3600.0}).body
    assert "saving_limit" not in compose("summary", {**week, "uncounted": 0.0}).body


def test_the_first_line_of_a_summary_has_the_money_of_a_machine_that_nobody_uses() -> None:
    """What idle hours cost where no saving stands beside them; and no limit on savings that nobody sees."""
    week = {**FACTS, "mode": "dry-run", "quiet": 7 * 86400.0, "currency": "USD", "saving_limit": 86400.0}
    idle = {**week, "idle_cost": 5376.0, "would_save": 0.0, "would_off": 7 * 86400.0, "uncounted": 7 * 86400.0}
    found = compose("summary", idle)
    assert found.title.endswith(": idle 7d; its idle hours cost about 5376.00 USD")
    assert "5376" not in found.body, "no sum is told twice"
    assert "saving_limit" not in found.body
    saved = compose("summary", {**idle, "would_save": 768.0, "uncounted": 6 * 86400.0})
    assert saved.title.endswith("; live mode would have saved about 768.00 USD")
    assert "saving_limit" in saved.body


def test_a_machine_that_is_back_without_a_clock_says_why_nothing_is_known() -> None:
    """Whoever waits for the savings of a stop learns that they cannot be told."""
    back = {**FACTS, "off_seconds": None, "stopped_wall": 1.7e9, "started_wall": None}
    assert "It is unknown how long it was off and what that saved" in compose("closed", back).body
    assert "is not known" not in compose("closed", {**back, "off_seconds": 60.0, "started_wall": 1.7e9 + 60.0}).body


@pytest.mark.parametrize(
    ("until", "made", "period"),
    [
        (1_763_715_600, 1_763_715_640, "box: worked 5h (since 2025-11-14 09:00 UTC)"),
        (1_763_714_700, 1_763_715_640, "box: worked 5h (2025-11-14 09:00 UTC to 2025-11-21 08:45 UTC)"),
        (1_763_542_800, 1_763_715_640, "box: worked 5h (2025-11-14 09:00 UTC to 2025-11-19 09:00 UTC)"),
    ],
)
def test_a_summary_that_ends_before_its_message_says_where(until: float, made: float, period: str) -> None:
    """What happened since stands in the next one: nobody looks for it here."""
    facts = {**FACTS, "works": 18000.0, "since": 1_763_110_800, "until": until, "made": made}
    assert compose("summary", facts).title == period


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_own_words(kind: str) -> None:
    """None falls back to the text of an unknown kind."""
    assert compose(kind, FACTS).title.removeprefix("DRY RUN: ") != compose("no such kind", FACTS).title


def test_whatever_the_engine_tells_has_words() -> None:
    """A kind that the engine learns has to be learnt here too."""
    sources = Path(engine.__file__).parent.glob("*.py")
    told = {kind for source in sources for kind in re.findall(r'\.tell\(\s*"(\w+)"', source.read_text())}
    assert told
    assert told <= set(KINDS), f"give {sorted(told - set(KINDS))} words in _KINDS of notify/compose.py"


def test_the_kinds_of_the_configuration_are_those_that_are_written() -> None:
    """A new kind of message can be named in `kinds`."""
    assert sorted(NAMED) == sorted(KINDS), "KINDS of config/types.py and _KINDS of notify/compose.py differ"


def test_findings_may_be_rows_or_objects() -> None:
    """The guard keeps them as rows, a plan prints objects."""
    row = compose("cannot", {"findings": [["code", "words", "do this"]]})
    assert row == compose("cannot", {"findings": [{"code": "code", "text": "words", "hint": "do this"}]})


ONE = st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["", "x", "idle", "deadline"])
ANY = ONE | st.lists(ONE, max_size=3) | st.lists(st.lists(ONE, max_size=3), max_size=2)


@given(st.sampled_from([*KINDS, "other"]), st.dictionaries(st.sampled_from([*FACTS, "owner", "notes", "money"]), ANY))
def test_any_facts_make_a_text(kind: str, facts: dict[str, object]) -> None:
    """Missing and odd facts shorten a message; a message that is not sent could cost a machine."""
    text = compose(kind, facts)
    assert text.title
    assert "None" not in text.title


def test_the_worker_names_the_machine_and_takes_ready_text() -> None:
    """The host name is filled in; a title that is given is used as it is."""
    assert written(Draft("m1", "held", facts={"machine": "box"})).title == "box is held"
    assert "this machine" not in written(Draft("m1", "held")).title
    ready = written(Draft("m1", "test", "critical", title="t", body="b", dry_run=True))
    assert (ready.id, ready.level, ready.text, ready.dry_run) == ("m1", "critical", "t\n\nb", True)


@pytest.mark.parametrize(
    ("action", "title"),
    [
        ("end_process", "box: costguard has ended; the machine is"),
        ("command", "box: command done; the machine is"),
        ("stop", "box: stop done"),
    ],
)
def test_what_is_done_is_a_sentence(action: str, title: str) -> None:
    """Also of the action that ends costguard itself."""
    assert compose("done", {**FACTS, "action": action}).title.startswith(title)


def test_a_finding_names_the_gpu_and_that_nothing_is_done() -> None:
    """People learn what is strange, and that no decision hangs on it."""
    found = {"machine": "box", "subjects": ["GPU 1 (H100)"], "code": "ghost", "text": "stuck at 100 %"}
    text = compose("finding", found)
    assert text.title == "box: GPU 1 (H100) reports load with no process behind it"
    assert "Stuck at 100 %." in text.body
    assert "costguard takes no other action" in text.body
    every = compose("finding", {**found, "subjects": [f"GPU {number} (H100)" for number in range(8)]})
    assert every.title == "box: GPUs 0 to 7 (H100) report load with no process behind it"


@pytest.mark.parametrize(
    ("change", "title", "advice"),
    [
        ("stop", "box: the cloud will stop it", "Save your work."),
        ("terminate", "box: the cloud will delete it", "Save your work: local data is lost."),
        ("hibernate", "box: the cloud will hibernate it", "Save your work"),
        ("reboot", "box: the cloud will reboot it", "running programs end"),
        ("freeze", "box: the cloud will pause it", "continues afterwards"),
    ],
)
def test_an_announcement_says_what_the_cloud_does(change: str, title: str, advice: str) -> None:
    """A pause takes nothing away, and without a date nobody says one."""
    facts = {"machine": "box", "why": "Example announces: words", "change": change, "wall": 1e9, "grace": 600.0}
    undated, dated = compose("notice", facts), compose("notice", {**facts, "due_in_seconds": 300.0})
    assert undated.title == f"{title} soon"
    assert dated.title.startswith(f"{title} at ")
    assert "(in 5m)" in dated.title
    assert advice in undated.body


@pytest.mark.parametrize(
    ("kind", "action", "shown"),
    [("accepted", "stop", True), ("accepted", "terminate", False), ("acting", "hibernate", True)],
)
def test_who_finds_it_stopped_reads_how_to_start_it(kind: str, action: str, shown: bool) -> None:
    """Where it can be started again, and the cloud has a command for that."""
    facts = {**FACTS, "action": action, "start": "aws ec2 start-instances --instance-ids i-1"}
    assert ("To start it again: `aws ec2 start-instances --instance-ids i-1`." in compose(kind, facts).body) is shown
    assert "start it again" not in compose(kind, {**facts, "start": None}).body


@pytest.mark.parametrize(("action", "command"), [("stop", "cloud start m"), ("hibernate", "cloud resume m")])
def test_what_hibernates_may_need_another_command(action: str, command: str) -> None:
    """Google Cloud resumes a suspended machine, and starts a stopped one."""
    facts = {**FACTS, "action": action, "start": "cloud start m", "resume": "cloud resume m"}
    assert f"To start it again: `{command}`." in compose("accepted", facts).body


def test_who_keeps_a_machine_up_is_named_with_what_would_end_it() -> None:
    """In the title who, in the body since when; and what it costs."""
    facts: dict[str, object] = {
        "machine": "box", "kept_seconds": 172800.0, "money": 96.0, "currency": "USD",
        "keepers": [["terminals", "ann on pts/3 typed", "30 min without input"]],
        "keeps": ["ann on pts/3 typed 4 min ago, for 3 days; counts until 30 min without input"],
    }  # fmt: skip
    text = compose("kept_up", facts)
    assert text.title == "box has been kept up without GPU work for 2d: ann on pts/3 typed"
    assert "- ann on pts/3 typed 4 min ago, for 3 days; counts until 30 min without input." in text.body
    assert "96" in text.body
    text = compose("kept_up", {**facts, "keeps": []})
    assert "- ann on pts/3 typed; counts until 30 min without input." in text.body


def test_a_sense_that_cannot_see_is_told_in_its_own_words() -> None:
    """Not as GPUs that cannot be read; beside those the GPUs are the news."""
    facts: dict[str, object] = {
        "machine": "box", "unknown_seconds": 900.0, "unknown_gpus": [], "lacking": "",
        "unknown_senses": [["jupyter", "cannot be seen: it answers 403"]],
    }  # fmt: skip
    text = compose("unknown_alarm", facts)
    assert text.title == "box: unknown for 15m whether anybody is working; nothing is stopped meanwhile"
    assert "Jupyter cannot be seen: it answers 403." in text.body
    assert "GPUs unreadable" in compose("unknown_alarm", {**facts, "unknown_gpus": ["GPU 0"]}).title


def test_a_warning_names_who_worked_lately() -> None:
    """The last three: people know each other by that."""
    lately = [f"user{number} on pts/{number} typed 31 min ago" for number in range(5)]
    body = compose("warning", {"machine": "box", "mode": "live", "action": "stop", "lately": lately}).body
    assert "User0 on pts/0 typed 31 min ago; user1 on pts/1 typed 31 min ago; user2" in body
    assert "user3" not in body


def test_the_first_message_that_people_get_is_no_reminder() -> None:
    """Nobody has read the one that it would remind of."""
    assert compose("countdown", FACTS).title.startswith("Reminder: box")
    assert compose("countdown", {**FACTS, "unreached_tries": 3}).title.startswith("box")


def test_of_a_long_cause_the_first_line_has_the_first_clause() -> None:
    """*Cancelled* alone says too little; the whole of it follows."""
    why = "the guard saw nothing for a while; a new countdown begins unless work is seen"
    text = compose("cancelled", {**FACTS, "why": why})
    assert text.title == "box: shutdown cancelled: the guard saw nothing for a while"
    assert text.body.startswith("The guard saw nothing for a while; a new countdown begins unless work is seen.")
    assert compose("cancelled", {**FACTS, "why": "w" * 90}).title == "box: shutdown cancelled"


def test_a_countdown_that_ends_later_than_people_were_told_says_both_moments() -> None:
    """The first line is enough; what to do stands first below it."""
    facts = {**FACTS, "due_in_seconds": 570.0, "due_wall": 1_763_740_000.0, "was_wall": 1_763_739_880.0}
    text = compose("countdown", facts)
    assert text.title == "box: shutdown postponed, now at 15:46:40 UTC at the earliest (in 9m 30s)"
    assert text.body.splitlines()[:2] == [
        "To postpone it: `costguard hold 2h` on box.",
        "A warning said 15:44:40 UTC. costguard has restarted since, and gives people time to react.",
    ]


@pytest.mark.parametrize(
    ("seconds", "when"),
    [(600, "at 15:46 UTC (in 10m)"), (90, "at 15:46:40 UTC at the earliest (in 1m 30s)"), (0.4, "at once")],
)
def test_a_short_countdown_is_told_to_the_second(seconds: float, when: str) -> None:
    """It begins once everybody has answered, so what is told is never too late; minutes are cut off, which says the same."""
    assert compose("warning", {**FACTS, "due_in_seconds": seconds}).title == f"box will be shut down {when}"
    notice = compose("notice", {**FACTS, "due_in_seconds": seconds, "change": "stop"}).title
    assert notice == f"box: the cloud will stop it {when.replace(' at the earliest', '')}"


def test_a_warning_says_for_how_long_it_is_idle_and_not_how_long_the_window_is() -> None:
    """A window of three seconds said of a night that the load was low for 3s."""
    text = compose("acting", {**FACTS, "window": 3.0, "idle_seconds": 7260.0})
    assert "load below 5 % for 2h 1m on" in text.body
    assert "for 1h on" in compose("acting", {**FACTS, "idle_seconds": 60.0}).body, "a blip that the window tolerates"
    unused = compose("acting", {**FACTS, "reason": "unused", "idle_seconds": 7260.0})
    assert "no work since boot for 1h" in unused.body


def test_a_deadline_names_the_same_command_in_each_message() -> None:
    """A hold postpones a stop that is near; what moves the deadline stands beside it, as it stood in the message before."""
    facts = {**FACTS, "reason": "deadline", "limit": "lifetime", "movable": 86400.0}
    moves = "To move the deadline by 2h: `costguard hold --past-deadline 2h` on box."
    assert all(moves in compose(kind, facts).body for kind in ("deadline_ahead", "warning"))
    assert "--past-deadline" not in compose("warning", FACTS).body
    moved = {**FACTS, "owner": "ann", "due_wall": 1_763_740_000, "was_wall": 1_763_732_800}
    assert (
        compose("deadline_extended", moved).title == "box: deadline moved from 13:46 UTC to 2025-11-21 15:46 UTC by ann"
    )


def test_a_deadline_that_is_moved_within_the_day_is_told_by_the_time_of_day() -> None:
    """Both ends of the move are spoken of alike: with a day where that is not today's."""
    moved = {**FACTS, "owner": "ann", "due_wall": 1_763_740_000, "was_wall": 1_763_732_800}
    today, later = {**moved, "wall": 1_763_731_000}, {**moved, "wall": 1_763_640_000}
    assert compose("deadline_extended", today).title == "box: deadline moved from 13:46 UTC to 15:46 UTC by ann"
    assert (
        compose("deadline_extended", later).title
        == "box: deadline moved from 2025-11-21 13:46 UTC to 2025-11-21 15:46 UTC by ann"
    )
    back = {**FACTS, "wall": 1_763_731_000, "owner": "root", "ended": ["ann"], "due_wall": 1_763_743_000.0}
    assert compose("deadline_extended", back).title == "box: deadline moved back to 16:36 UTC by root"


@pytest.mark.parametrize(
    ("instance", "last"),
    [
        ("aws:i-1", "Instance aws:i-1, incident b-i1."), ("dmi:4c4c-1", "Machine 4c4c-1, incident b-i1."),
        ("machine:0f3a", "Machine 0f3a, incident b-i1."), ("host:box", "Incident b-i1."),
    ],
)  # fmt: skip
def test_a_machine_of_no_cloud_is_no_instance(instance: str, last: str) -> None:
    """Its id is that of its firmware or system; its name stands in the first line."""
    assert compose("held", {**FACTS, "instance": instance}).body.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("only", "whom"), [("", "nobody"), ("wall: 1 terminal (pts/0)", "only wall: 1 terminal (pts/0)")]
)
def test_who_reads_it_at_a_terminal_is_not_told_that_nobody_did(only: str, whom: str) -> None:
    """Whoever sits there has read the warning, though the team has not."""
    facts = {**FACTS, "unreached_tries": 3, **({"unreached_only": only} if only else {})}
    assert f"The warning reached {whom} in 3 tries." in compose("countdown", facts).body


@pytest.mark.parametrize(("action", "saves"), [("stop", True), ("shutdown", True), ("end_process", False)])
def test_a_dry_run_says_what_live_mode_is_worth(action: str, saves: bool) -> None:
    """Only of what ends a bill."""
    body = compose("would_act", {**FACTS, "action": action, "mode": "dry-run"}).body
    assert (
        "Until somebody needs the machine again, live mode would save (an estimate): 32.77 EUR an hour" in body
    ) is saves
    assert "32.77 EUR an hour" in body


def test_a_dry_run_that_did_nothing_does_not_say_done() -> None:
    """The agent's sentence begins with its phase, which is DONE: below *Nothing was done* that reads as the opposite."""
    done = (
        "DONE: all 4 GPUs quiet for 1h; DRY RUN: stop would have been carried out; watching resumes when work is seen."
    )
    text = compose("would_act", {**FACTS, "mode": "dry-run", "sentence": done})
    assert "Nothing was done: mode is dry-run." in text.body
    assert "DONE" not in text.body
    assert done in compose("done", {**FACTS, "sentence": done}).body


def test_an_extension_that_was_taken_back_tells_the_deadline_that_counts_again() -> None:
    """And whose it was, where somebody else ended it."""
    text = compose(
        "deadline_extended",
        {**FACTS, "owner": "root", "ended": ["ann"], "due_wall": 1_763_743_000.0, "movable": 7200.0},
    )
    assert text.title == "box: deadline moved back to 2025-11-21 16:36 UTC by root"
    assert "This ends the extension of ann. A warning comes before anything is done." in text.body
    assert "To move the deadline by 2h: `costguard hold --past-deadline 2h` on box." in text.body


@pytest.mark.parametrize(
    ("movable", "words"),
    [
        (86400.0, "To move the deadline by 2h: `costguard hold --past-deadline 2h`"),
        (3600.0, "To move the deadline by 1h: `costguard hold --past-deadline 1h`"),
        (0.0, "Only root can move the deadline: `sudo costguard hold --past-deadline 2h`"),
    ],
)
def test_the_command_that_moves_a_deadline_is_one_that_works(movable: float, words: str) -> None:
    """By so much as the administrator allows."""
    assert words in compose("deadline_ahead", {**FACTS, "limit": "lease", "movable": movable}).body


def test_a_job_that_hangs_is_no_information_only() -> None:
    """It costs money until somebody looks."""
    body = compose("finding", {**FACTS, "code": "suspect_hung", "subjects": ["GPU 0"]}).body
    assert "stays up and billed" in body
    assert "32.77 EUR an hour" in body
    assert "For information only" not in body


@pytest.mark.parametrize(
    ("why", "title", "first"),
    [
        ("work was seen", "box: shutdown cancelled: work was seen", "For now nothing is stopped."),
        ("ann typed on pts/0 " + "and so on " * 9, "box: shutdown cancelled", "Ann typed on pts/0"),
        ("", "box: shutdown cancelled", "For now nothing is stopped."),
    ],
)
def test_why_a_stop_does_not_come_stands_in_the_first_line(why: str, title: str, first: str) -> None:
    """As far as a phone shows it, and once."""
    found = compose("cancelled", {**FACTS, "why": why})
    assert found.title.removeprefix("DRY RUN: ") == title
    assert found.body.startswith(first)
