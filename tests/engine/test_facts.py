"""What each message carries beside what all of them do: facts from which its words are made, each with its value."""

from collections.abc import Callable
from typing import Any

import pytest

from costguard.engine import AskExtend, Finding, Known, Notice, Policy, Veto
from costguard.engine.effects import Check, Confirm, Go, Prepare, Tell
from costguard.engine.events import Leaving
from tests.engine.test_acting import IDLE, until
from tests.engine.world import BUSY, DARK, EPOCH, QUIET, World

HOUR = 3600.0
PRICED = IDLE._replace(price_per_hour=36.0)
MISSING = (("right", "the right is missing", "costguard permissions"),)
COMMON = {
    "mode", "instance", "phase", "action", "gpus", "threshold", "window", "grace", "wall", "stop_below_load",
    "price_per_hour", "currency", "hold_left", "incident", "reason", "owner", "findings",
}  # fmt: skip
PROVEN = Known(0.0, (), 60.0)  # through the restart too
SIGN = Known(0.0, ("power 30 W above idle",), 60.0)


def machine(policy: Policy = PRICED, **changes: Any) -> World:
    return World(policy._replace(**changes), 1, checked=False)


def say(world: World, kind: type, status: str, **more: Any) -> World:
    """Of everything that waits the effects of one kind get this answer; the others a good one."""
    for identity, effect in list(world.pending.items()):
        if isinstance(effect, kind):
            world.answer(identity, status, after=0.0, **more)
    return world


def ran(world: World, seconds: float, *readings: Any) -> World:
    world.run(seconds, *readings)
    return world


def once(world: World, kind: type, status: str, **more: Any) -> World:
    """Ticks until something of this kind waits, and its answer."""
    while not any(isinstance(effect, kind) for effect in world.pending.values()):
        world.tick(QUIET)
        for identity, effect in list(world.pending.items()):
            if not isinstance(effect, kind) and identity in world.pending:
                world.answer(identity, {Prepare: "ready", Go: "accepted", Tell: "delivered", Check: "go"}[type(effect)])
    return say(world, kind, status, **more)


def refused() -> World:
    return once(machine(), Prepare, "refuse", detail="no right", findings=MISSING)


def confirming() -> World:
    return once(machine(fallback=("terminate",)), Go, "accepted", proof="req-7", receipt="r-1")


def failing(world: World) -> World:
    while world.phase() != "FAILED":
        once(world, Prepare, "failed", detail="no room")
    return world


def asleep() -> World:
    world = until(machine(), "WARNING")
    world.suspend(5000.0)
    return ran(world, 10.0, QUIET)


def booted(world: World, off: float) -> World:
    world.boot(off=off)
    return ran(world, 10.0, QUIET)


def moved() -> World:
    world = ran(machine(lifetime=4 * HOUR, unused_after=None), 50.0, QUIET)
    world.send(AskExtend(world.now, HOUR, "ann", "a run", 1, world.wall, 1001))
    return world


def held_over_a_boot() -> World:
    world = ran(machine(), 50.0, QUIET)
    world.hold(600.0)
    return booted(world, 2000.0)


def without_state() -> World:
    world = until(machine(), "WARNING")
    world.lose_state()
    return ran(world, 10.0, QUIET)


def vetoed() -> World:
    world = until(machine(), "WARNING")
    world.vetoes = (Veto("host", "ann typed"),)
    return ran(world, 10.0)


def nobody_heard(at_a_terminal: str = "") -> World:
    world = until(machine(warn_attempts=2), "WARNING")
    while not (world.state.core.incident and world.state.core.incident.warned):
        say(world, Tell, "failed", proof=at_a_terminal)
        world.settle()
        world.tick(QUIET)
    return until(world, "ACTING")


def checked(*words: str) -> World:
    world = ran(machine(), 10.0, BUSY)
    for word in words:
        world.state = world.state._replace(
            core=world.state.core._replace(unchanged_until=0.0, plans=world.state.core.plans._replace(check_at=0.0))
        )
        world.tick(BUSY)
        say(world, Check, word, findings=MISSING if word == "refuse" else ())
    return world


def warned(**changes: Any) -> World:
    """In a countdown of which people know."""
    return say(until(machine(**changes), "WARNING"), Tell, "delivered")


def left(world: World) -> World:
    """Its guard is told to end."""
    world.send(Leaving(world.now))
    return world


def becomes_dry(world: World) -> World:
    """Its owner takes it out of live mode while people count on a stop."""
    world.reload(world.policy._replace(mode="dry-run"))
    return world


def becomes_live(world: World) -> World:
    """Its owner takes it out of a dry run while one counts down."""
    world.reload(world.policy._replace(mode="live"))
    return world


def restarted(world: World) -> World:
    world.restart()
    return world


def noticed(*, dated: bool = True) -> World:
    world = ran(machine(), 50.0, BUSY)
    world.send(Notice(world.now, world.now + 120.0, "spot interruption", "terminate", dated))
    return world


def found() -> World:
    world = ran(machine(), 50.0, BUSY)
    world.devices()
    world.send(Finding(world.now, (world.keys[0],), "xid", "Xid 79"))
    return world


def held() -> World:
    world = ran(machine(), 50.0, QUIET)
    world.hold(7200.0, "ann", 1000)
    return world


def held_by_two() -> World:
    world = held()
    world.hold(3600.0, "bob", 1001)
    return world


def released() -> World:
    world = held_by_two()
    world.release(1000, everything=False)
    return world


def recovered() -> World:
    world = ran(machine(unknown_alarm=100.0), 50.0, QUIET)
    ran(world, 200.0, DARK)
    return ran(world, 20.0, BUSY)


def given_up() -> World:
    world = ran(machine(), 50.0, BUSY)
    world.ask_stop()
    world.readings = (BUSY,)
    while not world.times("failed"):
        world.tick()
        world.settle(Prepare="never")
        say(world, Prepare, "failed", detail="no room")
    return world


def reminded() -> World:
    world = refused()
    world.settle(Check="failed")
    ended = world.now
    world.tick(QUIET, dt=24 * HOUR)
    assert world.now == ended + 24 * HOUR
    return world


def never_known() -> World:
    world = once(machine(), Go, "unknown", detail="broken pipe")
    while world.phase() == "CONFIRMING":
        once(world, Confirm, "unknown", detail="no answer")
        world.tick(QUIET)
    return world


def unanswered(word: str) -> World:
    """A request that was accepted, and of which this is all that is seen so long after it."""
    world = until(machine(), "ACTING")
    released = world.now
    say(world, Go, "accepted")
    while not any(isinstance(effect, Confirm) for effect in world.pending.values()):
        world.tick(QUIET)
    (question,) = [effect.id for effect in world.pending.values() if isinstance(effect, Confirm)]
    world.answer(question, word, after=released + {"accepted": 300.0, "pending": 1800.0}[word] - world.now)
    return world


def known(verdict: str, findings: Any, **changes: Any) -> World:
    """What the check of the start said stays as it is."""
    world = machine(**changes)
    world.tick(QUIET)
    say(world, Check, verdict, findings=findings)
    return ran(world, 400.0, QUIET)


def dry(verdict: str, findings: Any) -> World:
    return known(verdict, findings, mode="dry-run")


def third() -> World:
    world = machine()
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=(EPOCH - 7200.0, EPOCH - 60.0)))
    )
    return ran(world, 400.0, QUIET)


def nothing_after_a_hole() -> World:
    """Whether the first warning reached anybody is not said of the one that follows."""
    world = confirming()
    world.tick(QUIET, dt=200.0)
    return once(world, Confirm, "failed", detail="nothing")


def hole() -> World:
    world = until(machine(), "WARNING")
    world.tick(QUIET, dt=100.0)
    return world


TOLD: dict[str, tuple[Callable[[], World], str, str, str, dict[str, Any]]] = {
    "warning": (lambda: until(machine(), "WARNING"), "warning", "warning", "WARNING stop idle", {
        "due_in_seconds": 60.0, "due_wall": EPOCH + 360.0, "rounds": 0}),
    "warning, again": (lambda: ran(say(until(machine(grace=90.0), "WARNING"), Tell, "failed"), 10.0, QUIET), "warning", "warning", "WARNING stop idle", {
        "due_in_seconds": 90.0, "due_wall": EPOCH + 400.0, "attempts": 2}),
    "warning, after a failure": (lambda: until(ran(failing(machine()), 3600.0, QUIET), "WARNING"), "warning", "warning", "WARNING stop idle", {
        "due_in_seconds": 60.0, "due_wall": EPOCH + 4080.0, "rounds": 1}),
    "acting": (lambda: until(machine(), "ACTING"), "acting", "warning", "WARNING stop idle", {"attempt": "boot-001-a4"}),
    "acting, nobody heard": (nobody_heard, "acting", "warning", "WARNING stop idle", {"attempt": "boot-001-a5", "unreached_tries": 2}),
    "acting, a terminal heard": (lambda: nobody_heard("wall: 1 terminal"), "acting", "warning", "WARNING stop idle", {
        "attempt": "boot-001-a5", "unreached_tries": 2, "unreached_only": "wall: 1 terminal"}),
    "acting, end_process": (lambda: ran(machine(kill_action="end_process"), 400.0, QUIET), "acting", "info", "WARNING end_process idle", {}),
    "accepted": (confirming, "accepted", "warning", "CONFIRMING stop idle", {"proof": "req-7", "receipt": "r-1"}),
    "stopping": (lambda: once(confirming(), Confirm, "pending", detail="stopping"), "stopping", "warning", "CONFIRMING stop idle", {
        "error": "stopping", "proof": "req-7", "receipt": "r-1"}),
    "done": (lambda: once(confirming(), Confirm, "done", detail="gone"), "done", "info", "DONE stop idle", {
        "error": "gone", "proof": "req-7", "receipt": "r-1"}),
    "next_action": (lambda: once(confirming(), Confirm, "failed", detail="nothing"), "next_action", "warning", "WARNING terminate idle", {
        "error": "nothing", "receipt": "r-1"}),
    "next_action, after a hole": (nothing_after_a_hole, "next_action", "warning", "WARNING terminate idle", {
        "error": "nothing", "receipt": "r-1"}),
    "asking": (lambda: once(machine(), Go, "unknown", detail="broken pipe"), "asking", "warning", "CONFIRMING stop idle", {"error": "broken pipe"}),
    "outcome_unknown": (never_known, "outcome_unknown", "critical", "DONE stop idle", {"error": "no answer", "proof": ""}),
    "cannot": (refused, "cannot", "critical", "DONE stop idle", {"error": "no right", "proof": ""}),
    "cannot, in a dry run": (lambda: dry("refuse", MISSING), "cannot", "critical", "DONE stop idle", {
        "error": "the right is missing", "proof": ""}),
    "cannot, in a dry run, without words": (lambda: dry("another", ()), "cannot", "critical", "DONE stop idle", {
        "error": "the plan for stop was refused", "proof": ""}),
    "cannot, as was known": (lambda: known("refuse", MISSING), "cannot", "critical", "DONE stop idle", {
        "error": "the right is missing", "proof": ""}),
    "cannot, a third stop": (third, "cannot", "critical", "DONE stop idle", {"proof": "", "error": "it was stopped twice "
        "within a day with no work in between; to allow a third stop: `sudo costguard release`"}),
    "failed": (lambda: failing(machine()), "failed", "critical", "FAILED stop idle", {"error": "no room", "rounds": 1, "retry_in_seconds": HOUR}),
    "failed, nothing happened": (lambda: unanswered("accepted"), "failed", "critical", "FAILED stop idle", {
        "error": "the request was accepted, and nothing has happened after 5 min", "rounds": 1, "retry_in_seconds": HOUR}),
    "failed, it never stopped": (lambda: unanswered("pending"), "failed", "critical", "FAILED stop idle", {
        "error": "the machine began to stop but has not stopped after 30 min", "rounds": 1, "retry_in_seconds": HOUR}),
    "failed, for a person": (given_up, "failed", "critical", "FAILED stop person ann", {"error": "no room", "rounds": 0}),
    "would_act": (lambda: ran(machine(mode="dry-run"), 400.0, QUIET), "would_act", "info", "DONE stop idle", {"error": "", "proof": ""}),
    "cancelled": (vetoed, "cancelled", "info", "WARNING stop idle", {"why": "host: ann typed", "takes_back": "warning"}),
    "cancelled, work": (lambda: ran(until(machine(), "WARNING"), 10.0, BUSY), "cancelled", "info", "WARNING stop idle", {
        "why": "work was seen", "takes_back": "warning"}),
    "cancelled, a hole": (hole, "cancelled", "info", "WARNING stop idle", {
        "why": "the guard saw nothing for a while; a new countdown begins unless work is seen",
        "takes_back": "warning"}),
    "cancelled, a boot": (lambda: booted(until(machine(), "WARNING"), 60.0), "cancelled", "info", "WATCHING stop idle", {
        "why": "the machine restarted in the meantime", "takes_back": "warning"}),
    "cancelled, no state": (without_state, "cancelled", "warning", "WATCHING stop idle", {"why": "costguard lost its state for this boot"}),
    "cancelled, work after a failure": (lambda: ran(failing(machine()), 40.0, BUSY), "cancelled", "info", "FAILED stop idle", {
        "why": "work was seen", "takes_back": "critical"}),
    "cancelled, dry run from now on": (lambda: becomes_dry(warned()), "cancelled", "info", "WARNING stop idle", {
        "why": "the configuration has changed", "announced_live": True, "takes_back": "warning"}),
    "cancelled, live from now on": (lambda: becomes_live(warned(mode="dry-run")), "cancelled", "info", "WARNING stop idle", {
        "why": "the configuration has changed", "announced_dry": True, "takes_back": "warning"}),
    "unguarded, the warning on its way": (lambda: left(until(machine(), "WARNING")), "unguarded", "warning", "WARNING stop idle", {}),
    "unguarded, dry run, and guarded again": (
        lambda: ran(restarted(left(warned(mode="dry-run"))), 10.0, PROVEN), "warning", "warning", "WARNING stop idle", {
        "due_in_seconds": 60.0, "due_wall": EPOCH + 370.0, "rounds": 0}),
    "unguarded": (lambda: left(warned()), "unguarded", "warning", "WARNING stop idle", {}),
    "unguarded, and guarded again": (lambda: ran(restarted(left(warned())), 10.0, PROVEN), "warning", "warning", "WARNING stop idle", {
        "due_in_seconds": 60.0, "due_wall": EPOCH + 370.0, "rounds": 0}),
    "state_lost": (without_state, "state_lost", "warning", "WATCHING stop", {}),
    "came_back": (asleep, "came_back", "info", "WARNING stop idle", {"acted": False}),
    "closed": (lambda: booted(confirming(), 7190.0), "closed", "info", "WATCHING stop idle", {
        "proof": "req-7", "receipt": "r-1", "saved": 72.0,
        "off_seconds": 7200.0, "stopped_wall": EPOCH + 370.0, "started_wall": EPOCH + 7570.0}),
    "preflight_refused": (lambda: checked("refuse"), "preflight_refused", "critical", "WATCHING stop", {}),
    "preflight_passed": (lambda: checked("refuse", "go"), "preflight_passed", "info", "WATCHING stop", {"takes_back": "critical"}),
    "notice": (noticed, "notice", "critical", "WATCHING stop", {"why": "spot interruption", "change": "terminate", "due_in_seconds": 120.0}),
    "notice, undated": (lambda: noticed(dated=False), "notice", "critical", "WATCHING stop", {"why": "spot interruption", "change": "terminate"}),
    "finding": (found, "finding", "warning", "WATCHING stop", {"subjects": ["GPU 0 (A100)"], "code": "xid", "text": "Xid 79"}),
    "held": (held, "held", "info", "WATCHING stop ann", {"hold": "why", "hold_seconds": 7200.0, "hold_until_wall": EPOCH + 50.0 + 7200.0, "holders": []}),
    "held by two": (held_by_two, "held", "info", "WATCHING stop bob", {
        "hold": "why", "hold_seconds": 3600.0, "hold_until_wall": EPOCH + 50.0 + 3600.0, "holders": ["ann"]}),
    "released": (released, "hold_ended", "info", "WATCHING stop ann", {"hold": "released", "holders": ["bob"], "ended": ["ann"]}),
    "hold_ended": (lambda: ran(held(), 7200.0, QUIET), "hold_ended", "info", "WATCHING stop ann", {"hold": "why"}),
    "hold_ended, while it was off": (held_over_a_boot, "hold_ended", "info", "WATCHING stop ann", {"hold": "why"}),
    "unknown_alarm": (lambda: ran(ran(machine(unknown_alarm=100.0), 50.0, QUIET), 100.0, DARK), "unknown_alarm", "critical", "WATCHING stop", {
        "unknown_seconds": 100.0, "unknown_gpus": ["0000:00:00.0"], "lacking": "", "money": 1.0}),
    "unknown_alarm, a name": (lambda: ran(machine(unknown_alarm=100.0, gpu_devices=("9",)), 110.0, QUIET), "unknown_alarm", "critical", "WATCHING stop", {
        "unknown_seconds": 100.0, "unknown_gpus": [], "money": 1.0,
        "lacking": "no GPU matches 9 in gpu_devices; there is 0000:00:00.0"}),
    "unknown_recovered": (recovered, "unknown_recovered", "info", "WATCHING stop", {"unknown_seconds": 210.0, "takes_back": "critical"}),
    "weak_sign": (lambda: ran(ran(machine(), 50.0, BUSY), 320.0, SIGN), "weak_sign", "warning", "WATCHING stop", {
        "gpu": "0000:00:00.0", "sign": "power 30 W above idle", "weak_seconds": 300.0, "money": 3.0}),
    "deadline_passed": (lambda: ran(machine(lifetime=100.0), 120.0, BUSY), "deadline_passed", "warning", "WATCHING stop deadline", {"limit": "lifetime"}),
    "deadline_ahead": (lambda: ran(machine(lifetime=4 * HOUR, unused_after=None), 3 * HOUR, BUSY), "deadline_ahead", "warning",
        "WATCHING stop", {"limit": "lifetime", "due_in_seconds": HOUR, "due_wall": EPOCH + 4 * HOUR, "stop_busy": False, "movable": 24 * HOUR}),
    "deadline_extended": (moved, "deadline_extended", "info", "WATCHING stop ann", {
        "hold": "a run", "due_wall": EPOCH + 5 * HOUR, "was_wall": EPOCH + 4 * HOUR, "takes_back": "warning"}),
    "countdown": (lambda: ran(until(machine(grace=2 * HOUR), "WARNING"), HOUR + 30.0, QUIET), "countdown", "warning", "WARNING stop idle", {
        "due_in_seconds": pytest.approx(3590.1), "due_wall": pytest.approx(EPOCH + 310.1 + 2 * HOUR - 10.0)}),
    "armed": (lambda: ran(machine(tell_armed=True, arm_duration=30.0), 60.0, BUSY), "armed", "info", "WATCHING stop", {}),
    "reminder": (reminded, "reminder", "critical", "DONE stop idle", {"done": "cannot", "error": "no right", "money": 24 * 36.0}),
}  # fmt: skip
"""How it comes about, its kind, how loud it is, what it is about (phase, action, reason, owner), and what it carries."""


@pytest.mark.parametrize("name", TOLD)
def test_each_message_carries_its_facts(name: str) -> None:
    """Values and all: a fact that is missing or wrong makes a sentence that is missing or wrong."""
    story, kind, level, about, expected = TOLD[name]
    last = [effect for _, effect in story().effects if isinstance(effect, Tell) and effect.kind == kind][-1]
    own = {fact: value for fact, value in last.facts.items() if fact not in COMMON}
    assert (last.level, own) == (level, expected)
    named = [str(last.facts.get(fact, "")) for fact in ("phase", "action", "reason", "owner")]
    assert " ".join(filter(None, named)) == about
    assert ("incident" in last.facts) is (last.facts.get("reason") in {"idle", "person"}), "it belongs to one"
    if "incident" in last.facts or kind == "preflight_refused":
        assert last.facts["findings"] == ([list(MISSING[0])] if name in FOUND else [])


FOUND = {"cannot", "cannot, in a dry run", "cannot, as was known", "reminder", "preflight_refused"}
"""The stories in which the plan was refused."""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"window": 300.0, "threshold": 0.05, "stop_below_load": False, "hold_left": 259200.0, "price_per_hour": 36.0}),
        ({"arm_duration": 60.0, "unused_after": 400.0}, {"window": 400.0, "reason": "unused"}),
        ({"kill_threshold": 0.7}, {"threshold": 0.2, "stop_below_load": False}),
        ({"kill_threshold": 0.7, "stop_below_load": True}, {"threshold": 0.7, "stop_below_load": True}),
        ({"kill_threshold": 0.7, "stop_below_load": True, "kill_action": "command"}, {"threshold": 0.7, "stop_below_load": False}),
        ({"unused_after": 9000.0, "lifetime": 100.0, "grace": 90.0}, {"window": 300.0, "reason": "deadline", "grace": 90.0}),
        ({"price_per_hour": None, "currency": "EUR"}, {"price_per_hour": None, "currency": "EUR"}),
        ({"hold_total": 100.0}, {"hold_left": 100.0}),
    ],
)  # fmt: skip
def test_a_warning_says_by_which_rules_it_came(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """The window of the reason that it names, the threshold that really counts, and what is left for holds."""
    facts = next(
        e.facts for _, e in until(machine(**changes), "WARNING").effects if isinstance(e, Tell) and e.kind == "warning"
    )
    assert {fact: facts[fact] for fact in expected} == expected
