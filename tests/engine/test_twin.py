"""The fast path and the full one are one rule: a life lived twice, by an engine that lets ticks pass unthought and by one that thinks about each."""

import os

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from costguard.engine import (
    AskHold,
    AskRelease,
    AskStop,
    Began,
    Device,
    Devices,
    Event,
    Known,
    Notice,
    Observation,
    Outcome,
    Policy,
    Reading,
    State,
    Tick,
    Veto,
    initial,
    step,
)
from costguard.engine.deadline import Situation, period_over, work_over_at
from costguard.engine.effects import Abandon, Effect, Go, Tell
from costguard.engine.obstacles import due_at
from costguard.engine.reasons import OWN_REASONS
from costguard.engine.rules import rules_of
from costguard.engine.saved import Commitments, commitments
from costguard.engine.window import NEVER
from costguard.process.wire import from_line, to_line
from tests.engine.world import ANSWERS, BASE, BUSY, DARK, EPOCH, HEALTHY, QUIET, reloaded, same

LEASE = BASE._replace(lease_until=EPOCH + 900.0, unused_after=None)
BUDGET = BASE._replace(budget=0.5, price_per_hour=3.6, budget_period=1200.0, unused_after=None)
OVERDUE = LEASE._replace(lease_until=EPOCH + 300.0, boot_grace=0.0, kill_duration=2000.0)
BELOW = BASE._replace(stop_below_load=True, kill_threshold=0.7, arm_threshold=0.8)
BLIND = BASE._replace(unknown_stop_after=300.0, kill_duration=100.0)
HIGH = BASE._replace(arm_threshold=0.8)
TOLD = BASE._replace(mode="dry-run", arm_duration=None, unused_after=None, boot_grace=0.0)
SIGN = Known(0.0, ("power 30 W above idle",))
UNSEEN = Veto("terminals", "cannot be seen", sense=True, unknown=True)
POLICIES = (
    BASE,
    HIGH,
    BASE._replace(unknown_alarm=30.0),
    BASE._replace(unknown_alarm=600.0, kill_duration=120.0, grace=0.0),
    BASE._replace(mode="dry-run", unused_after=200.0),
    BASE._replace(fallback=("shutdown",), kill_duration=90.0, boot_grace=0.0),
    BASE._replace(kill_action="command", fallback=("stop",), grace=0.0, boot_grace=0.0, gpu_devices=("1",)),
    BASE._replace(window_rule="unbroken", arm_duration=None, kill_duration=150.0),
    BASE._replace(kill_action="command", aggregate="any", arm_duration=0.0, gpu_devices=("0", "1")),
    BASE._replace(kill_action="command", aggregate="mean", window_rule="unbroken"),
    BASE._replace(kill_action="end_process", delay=100.0, kill_duration=60.0),
    BASE._replace(gpu_devices=("GPU-9",)),
    BASE._replace(aggregate="mean", kill_threshold=0.7, arm_threshold=0.8),
    BELOW,
    BASE._replace(lifetime=700.0, unused_after=None),
    BASE._replace(lifetime=400.0, stop_busy=True, boot_grace=0.0),
    BLIND,
    BASE._replace(window_share=0.1, interval=5.0),
    LEASE,
    OVERDUE,
    BUDGET,
    BUDGET._replace(lease_until=EPOCH + 2000.0, budget_period=400.0),
    BASE._replace(admin_hold="until Monday", price_per_hour=2.0),
)
READINGS: st.SearchStrategy[Reading] = st.sampled_from(
    [
        *(QUIET,) * 4,
        *(BUSY,) * 2,
        *(DARK,) * 2,
        Known(0.04),
        Known(0.05),
        Known(0.06),
        Known(0.6),
        Known(float("nan")),
        Known(-1.0),
        Known(0.0, ("power 30 W above idle",)),
        Known(0.0, ("PCIe in 9 MiB/s",)),
        Known(0.9, ("power 90 W above idle",)),
        Known(0.0, (), 60.0),
        Known(0.0, (), 400.0),
    ]
)
BOTH = st.tuples(READINGS, READINGS)
NEAR = st.sampled_from([0.0, -1e-11, 1e-11, -5e-7, 5e-7, -1e-6, 1e-6, -2e-6, -1e-3, -0.05, 0.05, -0.15, -0.4, -1.0])
"""How far from the moment of a decision a tick comes, in seconds."""

SHORT = st.sampled_from([0.001, 0.04, 0.09, 0.11, 0.5, 0.9, 1.0, 1.001, 1.5, 1.999, 2.0, 3.0])
LIVES = {"thorough": 400}.get(os.environ.get("COSTGUARD_HYPOTHESIS", ""), settings().max_examples)
"""Paths that part do so in one life of a thousand: before a merge there are more than elsewhere."""

CROWD = 40
"""At most so many ticks on the way to one moment."""


class Twins:
    """``quick`` is the engine as it is, ``full`` one that takes every tick for a moment of decision."""

    def __init__(self, policy: Policy, now: float) -> None:
        self.policy, self.boots = policy, 1
        self.now, self.wall, self.suspended = now, EPOCH, 0.0
        self.synced: bool | None = True
        self.keys = ("0000:00:00.0", "0000:01:00.0")
        self.readings: tuple[Reading, ...] = (QUIET, QUIET)
        self.vetoes: tuple[Veto, ...] = ()
        self.quiet_host: bool | None = True
        self.answering = True
        self.quick = self.full = initial("boot-001-x", "i-1", None, now)
        self.pending: dict[str, Effect] = {}
        self.effects: list[Effect] = []

    # what happens

    def send(self, event: Event) -> None:
        full = self.full
        if isinstance(event, Tick):
            full = full._replace(core=full.core._replace(unchanged_until=-NEVER))
        quick, slow = step(self.quick, event, self.policy), step(full, event, self.policy)
        assert quick.effects == slow.effects
        self.quick, self.full = quick.state, slow.state
        assert same(self.quick) == same(self.full)
        assert str(quick.sentence) == str(slow.sentence)
        self.effects += quick.effects
        for effect in quick.effects:
            if isinstance(effect, Abandon):
                self.pending.pop(effect.id, None)
            elif type(effect) in ANSWERS:
                self.pending[str(getattr(effect, "id"))] = effect  # noqa: B009  # the union has members without an id

    def passed(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def tick(self, seconds: float) -> None:
        self.passed(seconds)
        seen = Observation(self.keys, self.readings[: len(self.keys)], self.vetoes, self.quiet_host)
        self.send(Tick(self.now, seen, self.wall, self.suspended, self.synced))
        if self.answering:
            self.settle()

    def settle(self) -> None:
        for effect_id, effect in list(self.pending.items()):
            if self.pending.pop(effect_id, None) is not None:
                self.send(Outcome(self.now + 0.1, effect_id, HEALTHY[type(effect)]))

    def stay(self, readings: tuple[Reading, ...], times: int, seconds: float | None) -> None:
        self.readings = readings
        for _ in range(times):
            self.tick(self.policy.interval if seconds is None else seconds)

    def flapping(self, reading: Reading, every: int, times: int) -> None:
        """Quiet but for one tick in so many."""
        for _ in range(times):
            self.stay((QUIET, QUIET), every, None)
            self.stay((QUIET, reading), 1, None)

    def work_ends(self, ticks: int) -> None:
        """Armed; then quiet until a decision is near."""
        self.stay((BUSY, QUIET), 6, None)
        self.stay((QUIET, QUIET), ticks, None)
        self.near(0, 1e-11)

    def near(self, which: int, off: float) -> None:
        """Ticks up to one of the moments at which something may be decided, the last one ``off`` seconds from it."""
        moments = coming(self.quick, self.policy, self.wall)
        if not moments:
            return
        at = moments[which % len(moments)] + off
        for _ in range(CROWD):
            if at - self.now <= self.policy.interval:
                break
            self.tick(self.policy.interval)
        if 0 < at - self.now <= self.policy.interval:
            self.wall += at - self.now
            self.now = at  # to the last bit
            self.tick(0.0)

    def nap(self, seconds: float) -> None:
        self.passed(seconds)
        self.suspended += seconds

    def naps(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.nap(seconds)
            self.tick(9.0)

    def set_clock(self, seconds: float) -> None:
        self.wall += seconds

    def answer(self, which: int, how: int) -> None:
        if self.pending:
            effect_id = sorted(self.pending)[which % len(self.pending)]
            words = ANSWERS[type(self.pending.pop(effect_id))]
            self.send(Outcome(self.now + 0.2, effect_id, words[how % len(words)], "why"))

    def answer_again(self, which: int, how: int) -> None:
        """What nobody waits for any more, or said twice."""
        old = [effect for effect in self.effects if type(effect) in ANSWERS]
        if old:
            effect = old[-1 - which % len(old)]
            words = ANSWERS[type(effect)]
            self.send(Outcome(self.now, str(getattr(effect, "id")), words[how % len(words)]))  # noqa: B009  # as above

    def learn(self) -> None:
        listed = tuple(Device(key, i, f"GPU-{i}", "A100") for i, key in enumerate(self.keys))
        self.send(Devices(self.now, listed))

    def reload(self, policy: Policy, why: str) -> None:
        self.policy = policy
        self.send(Began(self.now, why))

    def restart(self, down: float, policy: Policy | None) -> None:
        self.passed(down)
        self.quick, self.full = reloaded(self.quick), reloaded(self.full)
        self.pending = {i: e for i, e in self.pending.items() if isinstance(e, Go)}
        self.send(Began(self.now, "restart"))
        if policy is not None:
            self.reload(policy, "reload")

    def boot(self, off: float) -> None:
        kept, slow = self.kept()
        assert kept == slow
        self.boots += 1
        self.wall += off
        self.now, self.suspended, self.pending = 20.0, 0.0, {}
        self.quick = self.full = initial(f"boot-{self.boots:03}-x", "i-1", kept, self.now)

    def kept(self) -> list[Commitments]:
        return [
            from_line(Commitments, to_line(commitments(state, self.now, self.wall, self.policy.price_per_hour)))
            for state in (self.quick, self.full)
        ]

    def set(self, name: str, value: object) -> None:
        setattr(self, name, value)


def coming(state: State, policy: Policy, wall: float) -> list[float]:
    """Moments to come, not the one just met, at which something may be decided by all that is known."""
    core, rules = state.core, rules_of(policy)
    moments = [
        core.unchanged_until,
        core.plans.check_at,
        core.ending.remind_at,
        core.ending.retry_at,
        core.ending.since + 3600.0,
        core.ending.since + 86400.0,
    ]
    moments += [hold.until for hold in core.people.holds]
    moments += [core.notice.due + 600.0] if core.notice.due is not None else []
    moments += [alarm.next for alarm in (core.alarms.unknown, core.alarms.weak_sign) if alarm is not None]
    moments += (
        [core.signals.above_arm_since + policy.arm_duration]
        if core.signals.above_arm_since and policy.arm_duration
        else []
    )
    moments += [core.clocks.started + policy.boot_grace - policy.grace, core.clocks.started + policy.boot_grace]
    if core.incident is not None:
        moments += [
            due_at(core, rules),
            core.incident.outcome_deadline,
            core.incident.attempt.confirm_at,
            core.incident.announcement.again_at,
        ]
    moments.append(state.at + period_over(core, rules) - wall)
    now = Situation(state, rules, wall, True)
    moments += [when(now) for reason in OWN_REASONS for when in (reason.at, reason.not_before)]
    moments.append(work_over_at(state, rules))
    return sorted({moment for moment in moments if state.at + 0.5 < moment < state.at + 2 * 86400.0})


Deed = tuple[object, ...]
"""A method of `Twins` by its name (or ``ask``), and what it is given."""


def deed(name: str, *arguments: st.SearchStrategy[object]) -> st.SearchStrategy[Deed]:
    return st.tuples(st.just(name), *arguments)


DEEDS = st.one_of(
    deed("stay", BOTH, st.integers(1, 30), st.sampled_from([None, None, None, 9.0, 12.0, 14.9, 16.0])),
    deed("stay", st.just((QUIET, QUIET)), st.integers(5, 60), st.none()),
    deed("stay", st.just((BUSY, QUIET)), st.integers(3, 10), st.none()),
    deed("near", st.integers(0, 6), NEAR),
    deed("near", st.just(0), NEAR),
    deed("near", st.just(0), st.sampled_from([-1e-11, 1e-11])),
    deed("naps", SHORT, st.integers(2, 6)),
    deed("flapping", READINGS, st.integers(2, 5), st.integers(2, 12)),
    deed("work_ends", st.integers(1, 12)),
    deed("tick", st.sampled_from([0.5, 14.999, 15.0, 15.001, 100.0, 3700.0])),
    deed("nap", SHORT),
    deed("nap", st.sampled_from([60.0, 5000.0])),
    deed("set_clock", SHORT),
    deed("set_clock", SHORT.map(lambda seconds: -seconds)),
    deed("set_clock", st.sampled_from([-86400.0, -3600.0, -250.0, 250.0, 600.0, 3600.0, 86400.0])),
    deed("set", st.just("synced"), st.sampled_from([True, None, False])),
    deed("set", st.just("quiet_host"), st.sampled_from([True, None, False])),
    deed(
        "set",
        st.just("vetoes"),
        st.sampled_from([(), (Veto("ssh", "ann typed", sense=True),), (UNSEEN,), (Veto("tag", "off", hatch=True),)]),
    ),
    deed("set", st.just("keys"), st.sampled_from([("0000:00:00.0",), ("0000:00:00.0", "0000:01:00.0")])),
    deed("set", st.just("answering"), st.booleans()),
    deed("settle"),
    deed("answer", st.integers(0, 3), st.integers(0, 4)),
    deed("answer_again", st.integers(0, 5), st.integers(0, 4)),
    deed("learn"),
    deed("reload", st.sampled_from(POLICIES), st.sampled_from(["reload", "reload", "tags"])),
    deed("restart", st.sampled_from([0.0, 3.0, 40.0, 500.0]), st.one_of(st.none(), st.sampled_from(POLICIES))),
    deed("boot", st.sampled_from([30.0, 5000.0, 100000.0])),
    deed("ask", st.sampled_from(["hold", "hold", "long hold", "root", "release", "stop", "notice"])),
)


def ask(twins: Twins, what: str) -> None:
    at, wall = twins.now, twins.wall
    events: dict[str, Event] = {
        "hold": AskHold(at, 95.0, "ann", "why", 1, wall, 1),
        "long hold": AskHold(at, 4000.0, "bob", "why", 1, wall, 2),
        "root": AskHold(at, 333.3, "root", "why", 1, wall, 0),
        "release": AskRelease(at, "root", 1, 0),
        "stop": AskStop(at, "ann", 1),
        "notice": Notice(at, at + 120.0, "spot interruption"),
    }
    twins.send(events[what])


def live(policy: Policy, now: float, deeds: list[Deed]) -> Twins:
    """A whole life; it fails at the first step in which the twins part."""
    twins = Twins(policy, now)
    twins.learn()
    for name, *arguments in deeds:
        if name == "ask":
            ask(twins, str(arguments[0]))
        else:
            getattr(twins, str(name))(*arguments)
    kept, slow = twins.kept()
    assert kept == slow
    return twins


QUIETLY: Deed = ("stay", (QUIET, QUIET), 4, None)
WORKED: list[Deed] = [("stay", (BUSY, QUIET), 6, None), QUIETLY]
NOISE: list[Deed] = [
    deed
    for off in (0.04, -0.08, 0.1, -0.02, -0.1, 0.06, 0.3, -0.3)
    for deed in (("set", "suspended", 5.0 + off), ("tick", 9.0), ("set_clock", off), ("tick", 9.0))
]
"""Clocks that part by less than anybody can tell, in both directions, and by a little more."""

HALF, FULL = (Known(0.3), Known(0.3)), (Known(0.9), Known(0.9))


@example(BASE, 0.0, [*WORKED, *[("nap", 1.0), ("tick", 9.0)] * 3])
@example(BASE, 0.0, [*WORKED, *[("near", 0, -1e-11)] * 9])
@example(BASE, 0.0, [*WORKED, *[("nap", 0.04), ("tick", 9.0)] * 9])
@example(BASE, 0.0, [("set", "suspended", 5.0), *WORKED, *NOISE])
@example(TOLD, 0.0, [("stay", (QUIET, QUIET), 40, None), ("stay", (SIGN, QUIET), 60, None)])
@example(LEASE, 0.0, [*WORKED, ("set_clock", 2000.0), ("tick", 10.0)])
@example(BASE, 0.0, [*WORKED, ("set_clock", 2000.0), ("tick", 10.0), ("ask", "notice")])
@example(
    OVERDUE,
    0.0,
    [("set", "synced", False), *WORKED, ("stay", (QUIET, QUIET), 40, None), ("set", "synced", None), ("tick", 9.0)],
)
@example(BASE, 0.0, [*WORKED, ("set", "quiet_host", False), ("tick", 10.0)])
@example(HIGH, 0.0, [("stay", loads, times, None) for loads, times in ((HALF, 2), (FULL, 1), (HALF, 2), (FULL, 9))])
@example(
    BASE,
    0.0,
    [
        QUIETLY,
        ("set", "answering", False),
        ("ask", "stop"),
        ("tick", 10.0),
        ("answer", 0, 2),
        ("stay", (QUIET, QUIET), 400, None),
    ],
)
@given(st.sampled_from(POLICIES), st.sampled_from([0.0, 30.0, 5000.0, 1e7]), st.lists(DEEDS, min_size=8, max_size=40))
@settings(max_examples=LIVES)
def test_a_tick_that_is_let_pass_would_have_changed_nothing(policy: Policy, now: float, deeds: list[Deed]) -> None:
    """Same effects, same state, same sentence, at every step of every life, also a hair from the moment of a decision."""
    live(policy, now, deeds)


@given(st.sampled_from(POLICIES), st.lists(DEEDS, max_size=25), BOTH, st.integers(1, 9))
@settings(max_examples=LIVES // 4)
def test_a_tick_that_stood_is_one_that_was_let_pass(
    policy: Policy, deeds: list[Deed], both: tuple[Reading, Reading], last: int
) -> None:
    """Where nothing is to be decided in between, two ticks that saw the same are one that says so: same state, effects, sentence."""
    twins = live(policy, 0.0, deeds)
    twins.stay(both, last, None)
    state, rules = twins.quick, rules_of(policy := twins.policy)
    first, second = twins.now + policy.interval, twins.now + 2 * policy.interval
    seen = Observation(twins.keys, twins.readings[: len(twins.keys)], twins.vetoes, twins.quiet_host)
    if state.core.unchanged_until <= second or policy.interval > rules.gap:
        return
    then = Tick(first, seen, twins.wall + policy.interval, twins.suspended, twins.synced)
    now = Tick(second, seen, twins.wall + 2 * policy.interval, twins.suspended, twins.synced)
    twice, once = (
        step(step(state, then, policy).state, now, policy),
        step(state, now._replace(skipped_at=first), policy),
    )
    assert (same(once.state), once.effects, str(once.sentence)) == (
        same(twice.state),
        twice.effects,
        str(twice.sentence),
    )


@pytest.mark.parametrize("stood", [-5.0, 0.0, 9.99, 10.0, 14.9, 15.1, 3600.0])
def test_what_stood_bridges_no_hole(stood: float) -> None:
    """A momentary value stands for one and a half intervals, whoever says so; and no time goes backwards."""
    twins = live(BASE, 0.0, WORKED)
    before, at = twins.quick.at, twins.now + 20.0
    seen = Observation(twins.keys, (QUIET, QUIET))
    tick = Tick(at, seen, twins.wall + 20.0, twins.suspended, True, before + stood)
    found, hole = step(twins.quick, tick, BASE), step(twins.quick, tick._replace(skipped_at=None), BASE)
    bridges = 5.0 <= stood <= 15.0
    assert (same(found.state) == same(hole.state)) is not bridges
    assert found.state.tracks == twins.quick.tracks if bridges else found.state.tracks == hole.state.tracks


LEADS_TO: dict[str, tuple[Policy, list[Deed]]] = {
    "deadline": (LEASE, [("stay", (BUSY, QUIET), 100, None), ("stay", (QUIET, QUIET), 60, None)]),
    "idle": (BASE, [*WORKED, ("stay", (QUIET, QUIET), 40, None)]),
    "unused": (BASE, [("stay", (QUIET, QUIET), 100, None)]),
    "unknown": (BLIND, [*WORKED, ("set", "quiet_host", True), ("stay", (DARK, DARK), 60, None)]),
}
"""For each of the machine's own reasons a policy and a life in which people are warned of it."""


def test_every_reason_of_the_machine_is_lived_through() -> None:
    """A reason that is added gets a life here, and a policy among those that the lives above draw from."""
    own = {reason.name for reason in OWN_REASONS}
    assert set(LEADS_TO) == own, f"give {sorted(own ^ LEADS_TO.keys())} a life in LEADS_TO of tests/engine/test_twin.py"
    for name, (policy, deeds) in LEADS_TO.items():
        assert policy in POLICIES, f"add the policy of {name} to POLICIES"
        twins = live(policy, 0.0, deeds)
        warned = [effect.facts for effect in twins.effects if isinstance(effect, Tell) and effect.kind == "warning"]
        assert [facts["reason"] for facts in warned][:1] == [name]
        assert all(facts["window"] is not None for facts in warned)
