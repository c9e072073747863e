"""The status for people, in states that a machine is rarely in."""

import io
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from costguard.cli.hold import described
from costguard.cli.reach import places
from costguard.cli.render import bar, clean, console, moment, show, spark
from costguard.cli.status_view import view
from costguard.engine.people import EARLIER_LASTS
from costguard.engine.policy import Policy
from costguard.host import lock

NOW = 1_700_000_000.0


def report(**changes: Any) -> dict[str, Any]:
    gpu = {"key": "0000:01:00.0", "label": "GPU 0 (NVIDIA H200)", "state": "quiet", "since": NOW - 720.0, "load": 0.0}
    return {
        "sentence": "ARMED: all is well.",
        "state": "ARMED",
        "phase": "WATCHING",
        "mode": "live",
        "action": "stop",
        "armed": True,
        "gpus": [{**gpu, "signs": [], "words": "peak 0 %", "known": True}],
        "policy": Policy(mode="live", kill_action="stop")._asdict(),
        "window": 3600.0,
        "threshold": 0.05,
        "idle_at": NOW + 2880.0,
        "unused_at": None,
        "incident": None,
        "done": "",
        "holds": [],
        "vetoes": [],
        "plans": [],
        "unknown_since": None,
        "time": NOW,
        "agent": {
            "pid": 7, "version": "1", "state_dir": "/s", "runtime_dir": "/r", "source": None, "instance": "i",
            "interval": 10.0, "reader_restarts": 0, "reader": "answers", "unreaped": 0, "troubles": {},
            "ticked": NOW, "now": NOW,
        },
        **changes,
    }  # fmt: skip


def shown(**changes: Any) -> str:
    file = io.StringIO()
    screen = console(file)
    show(screen, view(report(**changes), screen))
    return file.getvalue()


@pytest.mark.parametrize("width", [30, 40, 69, 70, 80, 200])
def test_no_screen_is_so_narrow_that_letters_are_lost(width: int) -> None:
    """A table that does not fit would be cut off at the right; below that width each GPU is a paragraph."""
    evidence = "GPU peak 0 % in 6 samples, mean 70 W, 0 compute processes, 0 MiB in use"
    gpu = {**report()["gpus"][0], "label": "GPU 0 (NVIDIA H100 80GB HBM3)", "words": evidence, "since": NOW - 86000.0}
    screen = Console(file=io.StringIO(), width=width)
    with screen.capture() as capture:
        screen.print(view(report(gpus=[gpu]), screen))
    found = capture.get()
    assert all(len(line) <= width for line in found.splitlines())
    assert Counter("".join(evidence.split())) <= Counter(found)
    for word in ("peak", "samples", "compute", "quiet", "0 %"):
        assert word in found, found


def incident(**changes: Any) -> dict[str, Any]:
    times = {"opened": NOW - 60.0, "warned": NOW - 50.0, "due": NOW + 550.0}
    return {"id": "i1", "reason": "idle", "detail": "", **times, **changes}


def test_a_quiet_machine_has_a_time() -> None:
    """Nothing keeps it up, and the moment of the warning is told with the time until then."""
    text = shown()
    assert "Keeps it up    nothing: every GPU is quiet\n" in text
    assert "(in 48m), unless work is seen before" in text


def pair(first: float, second: float, threshold: float = 0.7) -> list[dict[str, Any]]:
    """Two GPUs with these loads."""
    (gpu,) = report()["gpus"]
    loads = enumerate((first, second))
    return [
        {**gpu, "label": f"GPU {n} (H200)", "load": load, "state": "works" if load >= threshold else "quiet"}
        for n, load in loads
    ]


def rules(aggregate: str, action: str = "end_process") -> dict[str, Any]:
    policy = Policy(aggregate=aggregate, kill_threshold=0.7, kill_action=action, stop_below_load=True)
    return {"policy": policy._asdict(), "threshold": 0.7, "action": action}


@pytest.mark.parametrize(
    ("aggregate", "action", "loads", "head", "keeps"),
    [
        (
            "mean",
            "end_process",
            (0.9, 0.1),
            "after the mean of the GPUs below 70 %",
            "nothing: the mean of the GPUs is",
        ),
        ("mean", "end_process", (0.9, 0.8), "after the mean of the GPUs below 70 %", "the mean of the GPUs is 85 %"),
        ("any", "end_process", (0.9, 0.1), "after any GPU below 70 %", "nothing: GPU 1 below 70 %"),
        ("any", "end_process", (0.9, 0.8), "after any GPU below 70 %", "GPUs 0 and 1 are busy"),
        ("mean", "shutdown", (0.9, 0.1), "after every GPU below 70 %", "GPU 0 is busy"),
        ("all", "shutdown", (0.1, 0.1), "after every GPU below 70 %", "nothing: every GPU is below 70 %"),
    ],
)
def test_it_names_the_load_that_decides(
    aggregate: str, action: str, loads: tuple[float, float], head: str, keeps: str
) -> None:
    """The mean, any GPU, or every one; and a machine action always asks every GPU."""
    text = shown(gpus=pair(*loads), **rules(aggregate, action))
    assert head in text
    assert f"Keeps it up    {keeps}" in text


def test_load_is_not_called_quiet() -> None:
    """*Quiet* promises almost no load and no sign of work; 60 % below a threshold of 70 % is neither."""
    text = shown(gpus=pair(0.6, 0.6), **rules("mean"))
    assert "quiet" not in text
    assert "below 70 % for 12m" in text


def test_a_report_of_another_version_is_shown() -> None:
    """Fields of the rules that are not known here, or missing, do not end the view."""
    policy = Policy()._asdict() | {"new": 1}
    del policy["aggregate"]
    assert "every GPU" in shown(policy=policy)


def test_a_machine_that_never_worked_says_so() -> None:
    """Before the first work the idle window does not count."""
    assert "no work was seen since boot" in shown(armed=False, idle_at=None, unused_at=NOW + 60.0)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"reached": "wall: 2 terminals (pts/0, ttyS0)"}, "; warned over wall: 2 terminals (pts/0, ttyS0)"),
        (
            {"unreached": True, "tries": 3},
            "; the warning reached nobody in 3 tries; the countdown goes on anyway",
        ),
        ({}, ""),
    ],
)
def test_a_countdown_tells_its_end_its_reason_and_whom_the_warning_reached(told: dict[str, Any], words: str) -> None:
    """During a warning they stand in one line; that people were warned is said only of those who were."""
    text = " ".join(shown(phase="WARNING", state="WARNING", incident=incident(**told)).split())
    assert f"(in 9m 10s), reason: idle{words} Who decides" in text
    assert "people were warned" not in text


@pytest.mark.parametrize(
    ("tries", "words"), [(1, "it is being sent"), (2, "it has reached nobody yet, try 2 of 3")],
)  # fmt: skip
def test_a_warning_that_nobody_got_yet_has_no_time(tries: int, words: str) -> None:
    """The countdown begins when it was delivered."""
    text = " ".join(shown(phase="WARNING", incident=incident(warned=None, due=None, tries=tries)).split())
    assert f"Would stop it stop, 10m after the warning; reason: idle; {words} Who" in text


def test_a_countdown_that_is_over_waits_for_its_worker() -> None:
    """A time that is past is none."""
    text = " ".join(shown(phase="WARNING", incident=incident(due=NOW - 17.0)).split())
    assert "Would stop it stop as soon as it is ready, reason: idle" in text


def test_a_warning_that_was_held_back_warned_nobody() -> None:
    """In dry run most of them are."""
    text = " ".join(shown(phase="WARNING", incident=incident(reached="held back for the summary: in dry run")).split())
    assert "the warning is held back for the summary" in text
    assert "warned over" not in text


@pytest.mark.parametrize("phase", ["DONE", "FAILED", "ACTING", "CONFIRMING"])
def test_every_phase_can_be_shown(phase: str) -> None:
    """Whatever the machine is in, the status is told and the sentence explains it."""
    text = shown(phase=phase, state=phase, incident=incident(), sentence=f"{phase}: why.")
    assert text.startswith(f"{phase}: why.\n")
    assert "stop: see above" in text


def test_vetoes_troubles_and_silence_are_told() -> None:
    """What is wrong with the agent itself is never left out."""
    agent = {
        **report()["agent"],
        "troubles": {"disk": "it is full"}, "ticked": NOW - 300.0, "reader": "killed", "unreaped": 2,
    }  # fmt: skip
    text = shown(agent=agent, vetoes=[{"source": "login", "reason": "alice is here"}])
    for words in ("login: alice is here", "disk: it is full", "last looked 5m ago", "reader: killed", "2 readers hang"):
        assert words in text


def test_what_the_machine_costs_is_shown_as_messages_say_it() -> None:
    """An estimate with its date and source; a limit is marked as one; nothing where nobody knows."""
    known = {"amount": 4.0, "currency": "USD", "date": "2031-01-31", "source": "a table", "region": "north"}
    for kind, words in (("list", "list price"), ("spot", "Spot price"), ("limit", "at most 4.00 USD")):
        agent = {**report()["agent"], "cloud": {"price": {**known, "kind": kind}}}
        text = " ".join(shown(agent=agent, price_per_hour=None if kind == "limit" else 4.0).split())
        assert words in text
        assert "2031-01-31" in text
    assert "price (estimate): 9.00 EUR an hour" in shown(price_per_hour=9.0, currency="EUR")
    assert "price" not in shown()


def test_a_reason_to_stop_that_passed_is_not_in_the_past() -> None:
    """A window that is over while something stands in the way is told as such."""
    assert "warning as soon as nothing else keeps it up" in shown(idle_at=NOW - 60.0)


def test_no_gpu_yet() -> None:
    """Before the first reading nothing is invented."""
    text = shown(gpus=[], idle_at=None)
    assert "no GPU has been read yet" in text


def test_unknown_is_no_empty_bar() -> None:
    """A load that is not known looks different from a load of nothing, in bars and in history."""
    assert bar(None, 4).plain == "····"
    assert bar(0.0, 4).plain == "    "
    assert bar(1.0, 4).plain == "████"
    assert bar(0.5, 4, unicode=False).plain == "##--"
    assert spark([None, 0.0, 1.0], 4).plain == " ·▁█"


def test_words_of_others_cannot_move_the_cursor() -> None:
    """Control characters, also the C1 ones, become blanks."""
    assert clean("a\x1b[2Jb\r\n\x9bc") == "a [2Jb   c"


def test_moments_far_away_carry_their_date() -> None:
    """A time of day alone would mislead."""
    assert moment(NOW + 86400.0, NOW).startswith("2023-11-1")
    assert moment(NOW + 60.0, NOW).endswith("(in 1m)")
    assert moment(NOW - 60.0, NOW).endswith("(1m ago)")


def test_users_reach_the_agent_of_the_machine() -> None:
    """A user without an agent talks to root's; root and a named folder mean exactly one."""
    assert places(None, {}, 1000) == ["/dev/shm/costguard-1000", "/run/costguard"]
    assert len(places(None, {}, 0)) == 1
    own, machines = places("/data/state", {}, 1000)
    assert own.startswith("/dev/shm/costguard-1000-")
    assert machines == own.replace("/dev/shm/costguard-1000", "/run/costguard")


def test_the_agent_of_another_user_is_found_by_its_folder(tmp_path: Path) -> None:
    """Its runtime folder is named after that user; what it signed in the state folder says where it is."""
    os.close(lock.acquire(str(tmp_path), str(tmp_path), private=False, runtime="/dev/shm/costguard-4711-abc"))
    assert "/dev/shm/costguard-4711-abc" in places(str(tmp_path), {}, 0)
    assert "/dev/shm/costguard-4711-abc" in places(str(tmp_path), {}, 1000)
    (tmp_path / lock.SIGN).write_text("1\n/x\ntoday\n")
    assert len(places(str(tmp_path), {}, 0)) == 1


def hold(owner: str, hours: float) -> dict[str, Any]:
    return {"owner": owner, "reason": "", "until": NOW + hours * 3600.0}


def test_of_several_holds_the_last_to_end_counts() -> None:
    """A shorter hold ends nothing early: whoever asks is told of the one that lasts longer, with its day."""
    lines = described(report(holds=[hold("bob", 24.0), hold("ada", 2.0)]), 7200.0)
    assert lines[0].startswith("Held by ada until ")
    assert re.search(r"The hold of bob lasts longer, until 20\d\d-\d\d-\d\d \d\d:\d\d \S+ \(in 1d\)", lines[1])
    assert "lasts longer" not in str(described(report(holds=[hold("bob", 1.0), hold("ada", 2.0)]), 7200.0))


def test_one_restart_is_no_plural() -> None:
    """Once, then times."""
    agent = report()["agent"]
    assert "GPU reader restarted once" in shown(agent={**agent, "reader_restarts": 1})
    assert "GPU reader restarted 2 times" in shown(agent={**agent, "reader_restarts": 2})


@pytest.mark.parametrize(
    ("fate", "words"),
    [("", "under way"), ("failed", "given up (503); to retry: `costguard stop`"), ("withdrawn", "cancelled")],
)
def test_what_became_of_a_stop_by_hand_stays_in_sight_for_a_day(fate: str, words: str) -> None:
    """Who asked, when, and how it ended; a day later it is history."""
    wish = {"owner": "ann (uid 7)", "asked": NOW - 60.0, "fate": fate, "words": "503" if fate == "failed" else ""}
    text = " ".join(shown(wish={**wish, "ended": NOW - 30.0 if fate else None}).split())
    assert re.search(r"Requested ann \(uid 7\) requested a stop at \d\d:\d\d.*: ", text)
    assert words in text
    assert "Requested" not in shown(wish={**wish, "fate": "failed", "ended": NOW - 90000.0})


def test_who_may_release_and_that_no_hold_is_left() -> None:
    """A hold is its owner's and root's to end; what would be refused is not advised."""
    hold = {"owner": "ann (uid 7)", "reason": "", "until": NOW + 600.0, "uid": 7}
    assert "the owner of a hold, or root: `costguard release` ends it" in shown(holds=[hold], state="HELD")
    words = " ".join(shown(hold_left=0.0).split())
    assert "root: `costguard hold 2h`; users' hold time (hold.total) is used up" in words
    assert "any user of this machine: `costguard hold 2h" in shown(hold_left=600.0)
    assert "root: `costguard release` makes it watch again" in shown(phase="DONE", done="cannot", state="DONE")


def test_hold_shows_the_hold_of_whoever_asked() -> None:
    """Somebody else's hold may be the newest one."""
    holds = [
        {"owner": "me", "reason": "", "until": NOW + 7200.0, "uid": os.geteuid()},
        {"owner": "bob", "reason": "", "until": NOW + 600.0, "uid": os.geteuid() + 1},
    ]
    assert described(report(holds=holds), 7200.0)[0].startswith("Held by me until")


def test_a_hold_under_a_longer_one_of_the_own_says_which_counts() -> None:
    """Else *until 22:00* looks like the answer to *for an hour*."""
    mine = [{"owner": "me", "reason": "", "until": NOW + 7 * 3600.0, "uid": os.geteuid()}]
    lines = described(report(holds=mine), 3600.0, f"held for 7h: {EARLIER_LASTS}")
    assert lines[1] == "Your earlier hold lasts longer than the 1h you asked for, so it counts."
    assert "earlier" not in str(described(report(holds=mine), 7 * 3600.0))


def test_the_only_hold_of_a_user_is_no_earlier_one() -> None:
    """The report is as old as the last look, ten seconds by default: seen from there the hold is longer than what was asked for."""
    mine = [{"owner": "me", "reason": "", "until": NOW + 9.0 + 3600.0, "uid": os.geteuid()}]
    assert "earlier" not in str(described(report(holds=mine), 3600.0, "held for 1h"))


def test_a_hold_is_said_from_now_on() -> None:
    """Not from the last look on: a hold of 6 s was answered with "in 8s"."""
    mine = [{"owner": "me", "reason": "", "until": NOW + 15.0, "uid": os.geteuid()}]
    agent = {**report()["agent"], "now": NOW + 9.0}
    assert "(in 6s)" in described(report(holds=mine, agent=agent), 6.0)[0]


def test_a_hold_under_the_administrators_own_ends_nothing() -> None:
    """What follows it is no rule of the owner's."""
    mine = [{"owner": "me", "reason": "", "until": NOW + 3600.0, "uid": os.geteuid()}]
    assert "rules apply again" in described(report(holds=mine, admin_hold=""), 3600.0)[-1]
    last = described(report(holds=mine, admin_hold="an audit\x1b[2J"), 3600.0)[-1]
    assert last.startswith("Then the administrator still holds this machine: an audit")
    assert "\x1b" not in last


def test_a_hold_of_seconds_is_shown_to_the_second() -> None:
    """Of 20 s the minute says nothing."""
    mine = [{"owner": "me", "reason": "", "until": NOW + 20.0, "uid": os.geteuid()}]
    assert re.search(r"until \d\d:\d\d:\d\d \S+ \(in 20s\)", described(report(holds=mine), 20.0)[0])
    assert re.search(
        r"until \d\d:\d\d \S+ \(in 20m\)", described(report(holds=[{**mine[0], "until": NOW + 1200.0}]), 1200.0)[0]
    )


@pytest.mark.parametrize("moved", [None, {"owner": "uid 7", "uid": 7, "reason": "a [bold]run", "until": NOW + 9000.0}])
def test_the_limit_and_who_moved_it_stand_beside_the_deadline(moved: dict[str, Any] | None) -> None:
    """Which limit ends the time, who moved it and why; and how to move it, where users may."""
    limit = {"limit": "budget", "at": NOW + 1800.0, "extended": moved}
    text = " ".join(shown(deadline=limit, deadline_at=NOW + 1800.0).split())
    assert (": a [bold]run" in text and "moved by uid 7" in text) is (moved is not None)
    assert "the deadline (budget" in text
    assert "costguard hold --past-deadline 2h" in text
    policy = Policy(mode="live", extend_max=0.0)._asdict()
    assert "--past-deadline" not in shown(deadline=limit, deadline_at=NOW + 1800.0, policy=policy)


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (0.0, "by 3h at most"),
        (2.0, "by 1h at most"),
        (3.0, "root: `costguard hold --past-deadline 2h` moves the deadline further"),
    ],
)
def test_how_far_a_deadline_can_still_be_moved(moved: float, words: str) -> None:
    """By what is left of the limit, not by all of it again."""
    extended = {"owner": "ann", "uid": 7, "reason": "", "until": NOW + 1800.0 + moved * 3600.0} if moved else None
    policy = Policy(mode="live", extend_max=10800.0)._asdict()
    deadline = {"limit": "lease", "at": NOW + 1800.0, "extended": extended}
    assert words in " ".join(shown(deadline=deadline, deadline_at=NOW + 1800.0, policy=policy).split())


@pytest.mark.parametrize("phase", ["ACTING", "CONFIRMING"])
def test_nobody_is_offered_what_would_be_refused(phase: str) -> None:
    """The request is out."""
    text = " ".join(shown(phase=phase, state=phase, incident=incident()).split())
    assert "nobody: it has already been requested" in text
    assert "costguard hold 2h" not in text


ANN = {
    "who": "ann on pts/3", "what": "typed", "since": NOW - 7200.0, "last": NOW - 240.0, "lets_go": "30 min without input", "user": "ann",
    "words": "ann on pts/3 typed 4 min ago, for 2 h; counts until 30 min without input",
}  # fmt: skip


def test_who_keeps_it_up_is_named_with_what_would_end_it() -> None:
    """How long ago, for how long; what each other sense sees, and what it cannot."""
    senses = [
        {"name": "terminals", "required": True, "hatch": False, "unknown": "", "seen": "", "active": [ANN]},
        {"name": "traffic", "required": False, "hatch": False, "unknown": "", "seen": "no traffic", "active": []},
        {"name": "jupyter", "required": True, "hatch": False, "unknown": "it answers 403", "seen": "", "active": []},
    ]
    vetoes = [
        {"source": "terminals", "reason": "ann on pts/3 typed", "hatch": False, "lets_go": "30 min without input"},
        {"source": "jupyter", "reason": "cannot be seen: it answers 403", "hatch": False, "unknown": True},
    ]
    text = " ".join(
        shown(agent={**report()["agent"], "senses": senses}, vetoes=vetoes, kept_since=NOW - 3600.0).split()
    )
    assert f"Keeps it up {ANN['words']}" in text
    assert "jupyter: cannot be seen: it answers 403, and unknown is never idle" in text
    assert "without that, its warning would have come 1h ago" in text
    assert "Senses terminals: ann on pts/3 typed" in text
    assert "traffic: no traffic" in text
    assert "jupyter: cannot see everything: it answers 403" in text


def test_what_no_longer_keeps_it_up_is_not_said_to() -> None:
    """Its warning is out, or the owner's limit for what senses see is over; the sense is still shown."""
    senses = [{"name": "terminals", "required": True, "hatch": False, "unknown": "", "seen": "", "active": [ANN]}]
    ann = {"source": "terminals", "reason": "ann on pts/3 typed", "hatch": False, "lets_go": "30 min without input"}
    blind = {"source": "terminals", "reason": "cannot be seen", "hatch": False, "unknown": True}
    agent, kept = {**report()["agent"], "senses": senses}, NOW - 3600.0
    warned = {"phase": "WARNING", "state": "WARNING", "incident": incident()}
    policy = Policy(mode="live", kill_action="stop", kept_at_most=3600.0)._asdict()
    for changes in ({**warned}, {"policy": policy, "vetoes": [ann]}, {**warned, "policy": policy, "vetoes": [ann]}):
        text = shown(agent=agent, kept_since=kept, **changes)
        assert "Keeps it up    nothing: every GPU is quiet\n" in text
        assert "without that" not in text
        assert "terminals: ann on pts/3 typed" in text
    assert "without that" not in shown(agent=agent, kept_since=kept, vetoes=[blind], **warned)
    tag = {"source": "instance tag", "reason": "costguard = off", "hatch": True}
    assert "Keeps it up    instance tag: costguard = off\n" in shown(agent=agent, kept_since=kept, vetoes=[ann, tag], policy=policy)  # fmt: skip


@pytest.mark.parametrize(
    ("due", "unknown", "words"),
    [
        (-17.0, None, "stop once ssh can be seen, reason: idle"),
        (-17.0, NOW, "stop once every GPU can be read and ssh can be seen, reason: idle"),
        (60.0, None, "(in 1m), if ssh can be seen by then, reason: idle"),
    ],
)
def test_a_countdown_that_waits_to_see_says_for_what(due: float, unknown: float | None, words: str) -> None:
    """As the sentence does."""
    blind = {"source": "ssh", "reason": "cannot be seen", "hatch": False, "unknown": True}
    text = shown(phase="WARNING", incident=incident(due=NOW + due), vetoes=[blind], unknown_since=unknown)
    assert words in " ".join(text.split())


def test_a_date_is_the_earliest_while_a_sense_keeps_it_up() -> None:
    """Of what heeds it; a hold may end later still."""
    veto = {"source": "login", "reason": "alice is here", "hatch": False}
    free = "warning as soon as nothing else keeps it up"
    text = " ".join(shown(vetoes=[veto], deadline_at=NOW + 60.0).split())
    assert f"idle for 1h: {free}, at {moment(NOW + 2880.0, NOW)} at the earliest, unless work is seen before" in text
    assert f"the deadline: warning at {moment(NOW + 60.0, NOW)}, but not" in text
    hold = {"owner": "ada", "reason": "", "until": NOW + 7200.0, "uid": 7}
    text = " ".join(shown(vetoes=[veto], holds=[hold], state="HELD").split())
    assert f"{free}, at {moment(NOW + 7200.0, NOW)} at the earliest" in text
    text = " ".join(shown(vetoes=[{**veto, "hatch": True}], deadline_at=NOW + 60.0, state="HELD").split())
    assert f"the deadline: {free}, at {moment(NOW + 60.0, NOW)} at the earliest" in text


def test_no_warning_is_promised_while_somebody_holds_the_machine() -> None:
    """The hold's end is the earliest moment; a warning after it is its own."""
    hold = {"owner": "ada", "reason": "", "until": NOW + 7200.0, "uid": 7}
    assert "warning when the hold ends, at" in shown(holds=[hold], state="HELD")
    assert "when the hold ends" not in shown(holds=[{**hold, "until": NOW + 60.0}], state="HELD")
    assert "when the hold ends" not in shown()
