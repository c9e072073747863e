"""Everything that happens after a time happens at its moment: not a hundredth of a second before, and in the look that falls on it."""

from collections.abc import Callable

import pytest

from costguard.engine import Known, Observation, Outcome, Policy, State, Tick, initial, step, time_limits
from costguard.engine.effects import Abandon, Check, Confirm, Go, Prepare
from tests.engine.world import BASE, BUSY, DARK, EPOCH, HEALTHY, QUIET, World

HAIR = 0.01
HOUR, DAY = 3600.0, 86400.0
IDLE = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0)
"""Warns after 300 quiet seconds, acts 60 s later."""

SIGN = Known(0.0, ("power 30 W above idle",), 60.0)
Happened = Callable[[World], bool]
Story = Callable[[], tuple[World, float, Happened]]
"""A machine, the moment of what comes next, and how that is seen."""


def answer(world: World, phase: str = "", **wishes: str) -> None:
    """Everything that waits, at once: no tenth of a second passes; up to a phase."""
    while waiting := [(i, e) for i, e in world.pending.items() if wishes.get(type(e).__name__) != "never"]:
        for identity, effect in waiting:
            if world.pending.pop(identity, None) is not None:
                status = wishes.get(type(effect).__name__, HEALTHY[type(effect)])
                world.send(Outcome(world.now, identity, status))
                if world.phase() == phase:
                    return


def look(world: World, at: float) -> None:
    """One tick, to the last bit at this moment."""
    world.wall += at - world.now
    world.now = at
    world.tick(dt=0.0)


def until(world: World, at: float, *readings: object, **wishes: str) -> World:
    """Ticks up to a moment, each answered as wished."""
    world.readings = readings or world.readings  # type: ignore[assignment]  # readings
    while world.now < at:
        look(world, min(at, world.now + world.policy.interval))
        answer(world, **wishes)
    return world


def seen(world: World, kind: type | str) -> int:
    """How often this was asked for, or told."""
    return sum(
        isinstance(e, kind) if isinstance(kind, type) else getattr(e, "kind", "") == kind for _, e in world.effects
    )


def more(world: World, kind: type | str) -> Happened:
    before = seen(world, kind)
    return lambda then: seen(then, kind) > before


def in_phase(world: World, phase: str, **wishes: str) -> World:
    """Quiet until this phase, which is just reached: what it asks for has no answer yet."""
    world.readings = (QUIET,) * len(world.keys)
    while world.phase() != phase:
        answer(world, phase, **wishes)
        if world.phase() != phase:
            look(world, world.now + world.policy.interval)
        assert world.now < 30000.0
    return world


def warned(world: World) -> float:
    incident = world.state.core.incident
    assert incident is not None
    assert incident.warned is not None
    return incident.warned


def machine(policy: Policy = IDLE, gpus: int = 1, **changes: object) -> World:
    return World(policy._replace(**changes), gpus, checked=False)  # type: ignore[arg-type]  # any fields of the policy


# ---- what the machine decides by its own windows


def arms() -> tuple[World, float, Happened]:
    return until(machine(BASE), 15.0, BUSY), 30.0, lambda world: world.state.core.signals.armed_at is not None


def arms_anew_after_a_break() -> tuple[World, float, Happened]:
    world = until(machine(BASE), 20.0, BUSY)
    until(world, 30.0, QUIET)
    return until(world, 40.0, BUSY), 60.0, lambda world: world.state.core.signals.armed_at is not None


def idle() -> tuple[World, float, Happened]:
    world = machine()
    return until(world, 200.0, QUIET), 300.0, more(world, "warning")


def idle_after_work() -> tuple[World, float, Happened]:
    world = until(machine(BASE._replace(unused_after=None)), 500.0, BUSY)
    return until(world, 600.0, QUIET), 800.0, more(world, "warning")


def unused() -> tuple[World, float, Happened]:
    world = machine(BASE)
    return until(world, 700.0, QUIET), 900.0, more(world, "warning")


def idle_after_a_delay() -> tuple[World, float, Happened]:
    world = machine(kill_action="command", delay=500.0)
    return until(world, 700.0, QUIET), 800.0, more(world, "warning")


def warns_so_early_that_boot_grace_is_over_at_the_action() -> tuple[World, float, Happened]:
    world = machine(boot_grace=2000.0)
    return until(world, 1900.0, QUIET), 1940.0, more(world, "warning")


def a_lifetime() -> tuple[World, float, Happened]:
    world = machine(lifetime=200.0)
    return until(world, 150.0, QUIET), 200.0, more(world, "warning")


def a_lifetime_with_a_sleep() -> tuple[World, float, Happened]:
    world = until(machine(lifetime=200.0), 100.0, QUIET)
    world.suspend(1000.0)
    return until(world, 1110.0, QUIET), 1200.0, more(world, "warning")


def a_lease() -> tuple[World, float, Happened]:
    world = machine(lease_until=EPOCH + 200.0)
    return until(world, 150.0, QUIET), 200.0, more(world, "warning")


def a_budget() -> tuple[World, float, Happened]:
    world = machine(budget=0.5, price_per_hour=9.0)
    return until(world, 150.0, QUIET), 210.0, more(world, "warning")


def a_budget_that_is_new_after_a_sleep() -> tuple[World, float, Happened]:
    world = until(machine(), 50.0, QUIET)
    world.suspend(1000.0)
    until(world, 1100.0)
    world.reload(world.policy._replace(budget=0.5, price_per_hour=9.0, kill_duration=9000.0))
    return until(world, 1200.0), 1310.0, more(world, "warning")


def rest_after_a_deadline() -> tuple[World, float, Happened]:
    world = until(machine(lifetime=300.0, kill_duration=HOUR), 500.0, BUSY)
    return until(world, 600.0, QUIET), 800.0, more(world, "warning")


def a_deadline_after_what_cannot_be_seen() -> tuple[World, float, Happened]:
    world = until(machine(lifetime=300.0, kill_duration=400.0), 500.0, BUSY)
    return until(world, 600.0, DARK), 900.0, more(world, "warning")


def unknown_too_long() -> tuple[World, float, Happened]:
    world = until(machine(unknown_stop_after=500.0), 100.0, QUIET)
    return until(world, 500.0, DARK), 600.0, more(world, "warning")


# ---- countdown and attempts


def the_action_after_its_warning() -> tuple[World, float, Happened]:
    world = in_phase(machine(grace=120.0), "WARNING")
    answer(world)
    return until(world, warned(world) + 90.0), warned(world) + 120.0, more(world, Go)


def the_action_in_a_dry_run() -> tuple[World, float, Happened]:
    world = in_phase(machine(grace=120.0, mode="dry-run"), "WARNING")
    answer(world)
    return until(world, warned(world) + 90.0), warned(world) + 120.0, more(world, "would_act")


def the_action_after_boot_grace() -> tuple[World, float, Happened]:
    world = in_phase(machine(boot_grace=2000.0), "WARNING")
    answer(world)
    return until(world, 1980.0), 2000.0, more(world, Go)


def a_worker_before_the_action() -> tuple[World, float, Happened]:
    world = in_phase(machine(grace=600.0), "WARNING")
    answer(world)
    return world, warned(world) + 540.0, more(world, Prepare)


def a_worker_that_is_never_ready() -> tuple[World, float, Happened]:
    world = in_phase(machine(), "WARNING")
    answer(world, Prepare="never")
    look(world, world.now + 10.0)
    began = next(at for at, effect in world.effects if isinstance(effect, Prepare))
    return world, began + time_limits.PREPARE_LOST_SECONDS, more(world, Abandon)


def tried(failures: int, wish: str) -> World:
    """So many tries have failed just now."""
    world = in_phase(machine(grace=HOUR), "WARNING")
    while True:
        answer(world, Tell="delivered", **{wish: "failed"})
        incident = world.state.core.incident
        if incident is None or incident.attempt.failures == failures:
            return world
        look(world, world.now + 10.0)


def tries(wish: str, failures: int) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = tried(failures, wish)
        return world, world.now + 15.0 * 2.0 ** (failures - 1), more(world, Prepare)

    return story


def told_again(failures: int) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = in_phase(machine(warn_attempts=5), "WARNING")
        answer(world, Tell="failed")
        while seen(world, "warning") < failures:
            look(world, world.now + 10.0)
            answer(world, Tell="failed")
        return world, world.now + 10.0 * 2.0 ** (failures - 1), more(world, "warning")

    return story


def a_warning_of_which_nobody_hears() -> tuple[World, float, Happened]:
    world = in_phase(machine(), "WARNING")
    incident = world.state.core.incident
    assert incident is not None
    return world, world.now + 300.0, lambda then: then.state.core.incident.announcement.again_at < 1e9


def a_request_of_which_nobody_hears() -> tuple[World, float, Happened]:
    world = in_phase(machine(), "ACTING")
    return world, world.now + time_limits.ACT_LOST_SECONDS, more(world, "asking")


def the_first_question() -> tuple[World, float, Happened]:
    world = in_phase(machine(), "CONFIRMING")
    return world, world.now + 5.0, more(world, Confirm)


def the_next_question(asked: float, pause: float) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = in_phase(machine(), "ACTING")
        released = world.now
        answer(world, Confirm="never")
        while world.now < released + asked:
            look(world, min(world.now + 5.0, released + asked))
        answer(world)
        return world, released + asked + pause, more(world, Confirm)

    return story


def a_question_without_an_answer() -> tuple[World, float, Happened]:
    world = in_phase(machine(), "CONFIRMING")
    look(world, world.now + 5.0)
    assert world.pending
    return (
        world,
        world.now + 300.0,
        lambda then: then.state.core.incident.attempt.confirm_effect == "" or seen(then, Confirm) > 1,
    )


# ---- after the end


def fails(rounds: int) -> World:
    """FAILED for so many times in a row, just now."""
    world = in_phase(machine(), "FAILED", Prepare="failed")
    for _ in range(rounds - 1):
        while world.phase() == "FAILED":
            answer(world)
            look(world, max(world.now + 10.0, world.state.core.ending.retry_at))
        in_phase(world, "FAILED", Prepare="failed")
    return world


def the_next_round(rounds: int, pause: float) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = fails(rounds)
        answer(world)
        return world, world.now + pause, lambda then: then.phase() != "FAILED"

    return story


def the_reminder(which: int) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = in_phase(machine(), "DONE", Prepare="refuse")
        ended = world.now
        for number in range(1, which):
            answer(world, Check="failed")
            look(world, ended + number * DAY)
        answer(world, Check="failed")
        look(world, ended + which * DAY - 100.0)
        return world, ended + which * DAY, more(world, "reminder")

    return story


def the_end_told_again(failures: int) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = in_phase(machine(warn_attempts=5), "DONE", Prepare="refuse")
        answer(world, Tell="failed")
        while seen(world, "cannot") < failures:
            look(world, world.now + 10.0)
            answer(world, Tell="failed")
        return world, world.now + 10.0 * 2.0 ** (failures - 1), more(world, "cannot")

    return story


def refused_unheard(seen: Known, window: float) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = until(machine(kill_duration=window), 50.0, seen)
        world.ask_stop()
        while world.phase() != "DONE":
            look(world, world.now + 10.0)
            answer(world, Prepare="refuse", Tell="never")
        return world, world.now + HOUR, lambda then: then.phase() == "WATCHING"

    return story


def later_work_ended_after_a_stop_beside_work() -> tuple[World, float, Happened]:
    world = until(machine(BASE, lifetime=200.0, stop_busy=True, kill_action="command"), 250.0, BUSY)
    until(world, 400.0, BUSY, Go="done")
    assert world.phase() == "DONE"
    until(world, 500.0, QUIET)
    until(world, 550.0, BUSY)
    return until(world, 600.0, QUIET), 850.0, lambda then: then.phase() == "WARNING"


# ---- holds, notices, money, messages


def a_hold() -> tuple[World, float, Happened]:
    world = until(machine(), 50.0, BUSY)
    world.hold(1000.0)
    return until(world, 1000.0), 1050.0, more(world, "hold_ended")


def a_notice_that_did_not_come_true() -> tuple[World, float, Happened]:
    world = until(machine(), 50.0, BUSY)
    world.notice(200.0)
    return until(world, 800.0), 250.0 + 600.0 + HAIR, lambda then: then.state.core.notice.due is None


def a_notice_on_an_idle_machine() -> tuple[World, float, Happened]:
    world = until(machine(), 50.0, QUIET)
    world.notice(500.0)
    return until(world, 1000.0), 550.0 + 600.0 + HAIR, more(world, "warning")


def a_budget_period() -> tuple[World, float, Happened]:
    world = until(machine(budget=1e6, price_per_hour=1.0, budget_period=600.0), 10.0, BUSY)
    return until(world, 500.0), 610.0, lambda then: then.state.core.ledger.spent_since == EPOCH + 610.0


def unknown_is_told(which: int) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = until(machine(unknown_alarm=600.0), 50.0, QUIET)
        at = 50.0 + 600.0 * 2.0 ** (which - 1)
        return until(world, at - 100.0, DARK), at, more(world, "unknown_alarm")

    return story


def scattered_unknown_is_told() -> tuple[World, float, Happened]:
    world = until(machine(unknown_alarm=200.0, kill_duration=100.0), 50.0, QUIET)
    while world.now < 250.0:
        until(world, world.now + 10.0, DARK)
        until(world, world.now + 40.0, QUIET)
    return until(world, 290.0, DARK), 300.0, more(world, "unknown_alarm")


def unknown_that_delays_when_the_window_would_be_clear() -> tuple[World, float, Happened]:
    world = until(machine(), 200.0, QUIET)
    until(world, 210.0, DARK)
    return until(world, 250.0, QUIET), 300.0, lambda then: then.state.core.alarms.unknown is not None


def a_weak_sign_that_is_over() -> tuple[World, float, Happened]:
    world = until(machine(BASE._replace(unused_after=None)), 100.0, BUSY)
    until(world, 200.0, SIGN)
    return until(world, 250.0, QUIET), 500.0, lambda then: then.state.core.alarms.weak_sign is None


def unknown_that_goes_on_to_delay_after_a_sleep() -> tuple[World, float, Happened]:
    world = until(machine(unknown_alarm=100.0), 50.0, QUIET)
    until(world, 400.0, DARK)
    world.suspend(1000.0)
    woke = world.now + 10.0
    until(world, woke + 100.0, QUIET)
    until(world, woke + 130.0, DARK)
    until(world, woke + 200.0, QUIET)
    assert world.state.core.alarms.unknown is not None
    return world, woke + 290.0, lambda then: then.state.core.alarms.unknown.next < 1e9


def unknown_that_delays_when_boot_grace_is_over() -> tuple[World, float, Happened]:
    world = until(machine(unknown_alarm=100.0, boot_grace=1000.0), 780.0, QUIET)
    until(world, 800.0, DARK)
    return until(world, 900.0, QUIET), 940.0, lambda then: then.state.core.alarms.unknown is not None


def a_weak_sign_when_boot_grace_is_over() -> tuple[World, float, Happened]:
    world = until(machine(BASE, boot_grace=2000.0, unused_after=None), 100.0, BUSY)
    return until(world, 1900.0, SIGN), 1940.0, more(world, "weak_sign")


def recovered_when_the_window_is_clear() -> tuple[World, float, Happened]:
    world = until(machine(unknown_alarm=100.0, admin_hold=""), 50.0, QUIET)
    until(world, 400.0, DARK)
    return until(world, 600.0, QUIET), 700.0, more(world, "unknown_recovered")


def a_weak_sign() -> tuple[World, float, Happened]:
    world = until(machine(BASE._replace(unused_after=None)), 100.0, BUSY)
    return until(world, 300.0, SIGN), 410.0, more(world, "weak_sign")


def a_deadline_that_passed_is_told_daily() -> tuple[World, float, Happened]:
    world = until(machine(lifetime=300.0), 300.0, BUSY)
    assert seen(world, "deadline_passed") == 1
    look(world, 300.0 + DAY - 100.0)
    return world, 300.0 + DAY, more(world, "deadline_passed")


def checks(failed: int, pause: float) -> Story:
    def story() -> tuple[World, float, Happened]:
        world = until(machine(), 10.0, BUSY, Check="never")
        while seen(world, Check) < failed:
            answer(world, Check="failed")
            look(world, world.now + 10.0)
        answer(world, Check="failed" if failed else "go")
        if not failed:
            look(world, world.now + pause - 100.0)
            return world, 10.0 + pause, more(world, Check)
        return world, world.now + pause, more(world, Check)

    return story


def work_that_forgives_stops() -> tuple[World, float, Happened]:
    world = until(machine(), 50.0, QUIET)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=(EPOCH - 20.0, EPOCH - 10.0)))
    )
    return until(world, 90.0, BUSY), 110.0, lambda then: not then.state.core.ledger.stops


STORIES: dict[str, Story] = {
    story.__name__: story
    for story in (
        arms, arms_anew_after_a_break, idle, idle_after_work, unused, idle_after_a_delay,
        warns_so_early_that_boot_grace_is_over_at_the_action, a_lifetime, a_lifetime_with_a_sleep, a_lease, a_budget, a_budget_that_is_new_after_a_sleep,
        rest_after_a_deadline, a_deadline_after_what_cannot_be_seen, unknown_too_long, the_action_after_its_warning,
        the_action_in_a_dry_run, the_action_after_boot_grace, a_worker_before_the_action, a_worker_that_is_never_ready,
        a_warning_of_which_nobody_hears, a_request_of_which_nobody_hears, the_first_question, a_question_without_an_answer,
        a_hold, a_notice_that_did_not_come_true, a_notice_on_an_idle_machine, a_budget_period,
        later_work_ended_after_a_stop_beside_work, unknown_that_goes_on_to_delay_after_a_sleep,
        unknown_that_delays_when_the_window_would_be_clear,
        a_weak_sign_that_is_over,
        unknown_that_delays_when_boot_grace_is_over, a_weak_sign_when_boot_grace_is_over, recovered_when_the_window_is_clear,
        scattered_unknown_is_told, a_weak_sign, a_deadline_that_passed_is_told_daily, work_that_forgives_stops,
    )
}  # fmt: skip
STORIES["refused beside work, and nobody hears"] = refused_unheard(BUSY, 300.0)
STORIES["refused, and nobody hears"] = refused_unheard(QUIET, 9000.0)
STORIES |= {f"{wish} is tried again, {n}": tries(wish, n) for wish in ("Prepare", "Go") for n in (1, 2, 3)}
STORIES |= {f"a warning is told again, {n}": told_again(n) for n in (1, 2, 3)}
STORIES |= {f"an end is told again, {n}": the_end_told_again(n) for n in (1, 2)}
STORIES |= {
    f"asked again {at:.0f} s after": the_next_question(at, pause)
    for at, pause in ((5.0, 5.0), (20.0, 20.0), (100.0, 30.0))
}
STORIES |= {f"round {n}": the_next_round(n, pause) for n, pause in ((1, HOUR), (2, 2 * HOUR), (3, 4 * HOUR))}
STORIES |= {f"reminder {n}": the_reminder(n) for n in (1, 2)}
STORIES |= {f"unknown is told, {n}": unknown_is_told(n) for n in (1, 2, 3)}
STORIES |= {
    f"checked again after {n} failures": checks(n, pause)
    for n, pause in ((0, DAY), (1, 300.0), (2, 600.0), (4, 1800.0))
}


@pytest.mark.parametrize("name", STORIES)
def test_each_moment_is_met(name: str) -> None:
    """The look before it decides nothing, and no later one is needed."""
    world, moment, happened = STORIES[name]()
    assert world.now < moment - HAIR
    while moment - world.now > world.policy.interval:
        look(world, world.now + world.policy.interval)
    world.checked = True
    look(world, moment - HAIR)
    assert not happened(world), "too soon"
    look(world, moment)
    assert happened(world), "too late"


def test_the_first_plan_for_a_task_waits_until_its_gpus_are_known() -> None:
    """The scheduler's word is compared with them; where they stay unknown the rest of the plan is known a minute later."""
    policy = Policy(kill_action="end_task", scope="task", boot_grace=0.0)

    def planned(at: float, state: State, *gpus: str) -> tuple[bool, State]:
        seen = Observation(gpus, tuple(Known(0.9) for _ in gpus))
        found = step(state, Tick(at, seen, 1.7e9 + at), policy)
        return any(isinstance(effect, Check) for effect in found.effects), found.state

    first, state = planned(100.0, initial("b", "task:x:1", None, 100.0))
    assert not first
    assert planned(101.0, state, "0000:01:00.0")[0]
    assert not planned(159.0, state)[0]
    assert planned(160.0, state)[0]
