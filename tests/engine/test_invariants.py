"""The last line of defence: a step that acts against a rule is refused, whatever made it, and one that does not is taken."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from costguard.engine import Policy, State, Veto
from costguard.engine.effects import Effect, Go, Leave
from costguard.engine.invariants import InvariantError, check
from costguard.engine.reasons import DEADLINE, IDLE, PERSON, UNKNOWN, UNUSED, Reason
from costguard.engine.rules import rules_of
from costguard.engine.saved import CORE
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, Hold
from costguard.engine.window import Track
from tests.engine.world import BASE, QUIET, World

STOP = BASE._replace(arm_duration=None, unused_after=None)
"""Warns after 300 quiet seconds, acts 60 s later, and not within 120 s of boot."""

TASK = STOP._replace(kill_action="command")
QUIETLY, LOUDLY = Track(False, 0.0, 0.0), Track(True, 0.0, 0.0)
UNSEEN = QUIETLY._replace(unknown_since=300.0)


@cache
def acted(policy: Policy) -> tuple[State, tuple[Effect, ...]]:
    world = World(policy, 2, checked=False)
    world.run(340.0, QUIET, QUIET)
    while not world.stops():
        world.settle()
        done = world.tick()
    return done.state, done.effects


def released(policy: Policy = STOP, reason: Reason = IDLE) -> tuple[State, tuple[Effect, ...]]:
    """A state in which an action was released, and what was asked for."""
    state, effects = acted(policy)
    return of(state, reason=reason.name), effects


def refused(after: State, effects: Sequence[Effect], policy: Policy, before: str = WARNING) -> str:
    """The words with which it is refused; none where it may be taken."""
    try:
        check(after._replace(core=after.core._replace(phase=before)), after, effects, rules_of(policy))
    except InvariantError as error:
        return str(error)
    return ""


def changed(state: State, **changes: Any) -> State:
    """With other values, by the keys under which they are saved."""
    core = state.core
    for key, value in changes.items():
        part, _, name = CORE.get(key, key).rpartition(".")
        core = core._replace(**{part or name: getattr(core, part)._replace(**{name: value}) if part else value})
    return state._replace(core=core)


def of(state: State, **changes: Any) -> State:
    incident = state.core.incident
    assert incident is not None
    return changed(state, incident=incident._replace(**changes))


def test_what_breaks_no_rule_is_taken() -> None:
    """Every action of every kind for every reason, to the very second; and what only tells may do so always."""
    for policy in (STOP, TASK, TASK._replace(kill_action="end_process")):
        for reason in (IDLE, UNUSED, DEADLINE, UNKNOWN, PERSON):
            state, effects = released(policy, reason)
            assert refused(state, effects, policy) == ""
            incident = state.core.incident
            assert incident is not None
            assert refused(of(state, warned=state.at - policy.grace), effects, policy) == ""
            assert refused(changed(state, started=state.at - policy.boot_grace), effects, policy) == ""
            tells = [effect for effect in effects if not isinstance(effect, Go | Leave)]
            broken = changed(state, incident=None, holds=(Hold("ann", "", 9e9, 9e9),), judged=())
            assert refused(broken, tells, policy) == ""


@pytest.mark.parametrize("reason", [IDLE, UNUSED, DEADLINE, UNKNOWN])
@pytest.mark.parametrize("policy", [STOP, TASK, TASK._replace(kill_action="end_process")])
def test_what_would_break_a_rule_is_refused_by_its_name(policy: Policy, reason: Reason) -> None:
    """Each rule alone, to the second, for a worker's action as for the guard's own end."""
    state, effects = released(policy, reason)
    assert [effect for effect in effects if isinstance(effect, Go | Leave)]
    assert "dry run" in refused(state, effects, policy._replace(mode="dry-run"))
    assert "I4" in refused(changed(state, incident=None), effects, policy)
    assert "exam" in refused(state, effects, policy._replace(admin_hold="exam"))
    assert "tag: off" in refused(changed(state, vetoes=(Veto("tag", "off", hatch=True),)), effects, policy)
    assert "I2" in refused(of(state, warned=None), effects, policy)
    assert "I2" in refused(of(state, warned=state.at - policy.grace + 0.01), effects, policy)
    young = changed(state, started=state.at - policy.boot_grace + 0.01)
    assert ("I9" in refused(young, effects, policy)) is policy.ends_machine
    assert "hold" in refused(changed(state, holds=(Hold("ann", "", 9e9, 9e9),)), effects, policy)
    assert "notice" in refused(changed(state, notice=9e9), effects, policy)


def test_a_persons_stop_needs_no_warning_and_no_quiet_but_nothing_may_forbid_it() -> None:
    """Whoever asked was shown the work and the holds; the administrator and an escape hatch refuse it."""
    state, effects = released(reason=PERSON)
    for broken in (
        of(state, warned=None), changed(state, started=state.at), changed(state, holds=(Hold("ann", "", 9e9, 9e9),)),
        changed(state, notice=9e9), state._replace(tracks=(LOUDLY, UNSEEN)), changed(state, judged=()),
    ):  # fmt: skip
        assert refused(broken, effects, STOP) == ""
    assert "exam" in refused(state, effects, STOP._replace(admin_hold="exam"))
    assert "tag: off" in refused(changed(state, vetoes=(Veto("tag", "off", hatch=True),)), effects, STOP)


@pytest.mark.parametrize("reason", [IDLE, UNUSED])
@pytest.mark.parametrize(
    ("aggregate", "tracks", "of_all", "of_any"),
    [
        ("all", (QUIETLY, QUIETLY), True, True), ("any", (QUIETLY, LOUDLY), False, True),
        ("any", (LOUDLY, QUIETLY), False, True), ("any", (UNSEEN, QUIETLY), False, True),
        ("any", (UNSEEN, LOUDLY), False, False), ("any", (LOUDLY, LOUDLY), False, False),
    ],
)  # fmt: skip
def test_what_is_judged_must_be_known_and_quiet_in_this_very_tick(
    reason: Reason, aggregate: str, tracks: tuple[Track, ...], of_all: bool, of_any: bool
) -> None:
    """I1, I3: all of it, and where any GPU decides and the machine goes on, one of it; nothing judged is no proof."""
    for policy, good in (
        (TASK, of_all), (TASK._replace(aggregate="any"), of_any), (STOP._replace(aggregate="any"), of_all),
    ):  # fmt: skip
        state, effects = released(TASK if policy.kill_action == "command" else STOP, reason=reason)
        assert ("I1, I3" in refused(state._replace(tracks=tracks), effects, policy)) is not good
        assert "I1, I3" in refused(changed(state, judged=()), effects, policy)
    for other in (DEADLINE, UNKNOWN):
        state, effects = released(reason=other)
        assert refused(state._replace(tracks=tracks), effects, STOP) == "", "these do not rest on it"


@pytest.mark.parametrize("mean", [QUIETLY, LOUDLY, UNSEEN, None])
@pytest.mark.parametrize("tracks", [(QUIETLY, QUIETLY), (LOUDLY, QUIETLY)])
def test_a_mean_is_judged_as_a_whole(mean: Track | None, tracks: tuple[Track, ...]) -> None:
    """What single GPUs do counts only where there is no mean, or where the machine ends."""
    policy = TASK._replace(aggregate="mean")
    state, effects = released(policy)
    state = changed(state, mean=mean)._replace(tracks=tracks)
    each = tracks == (QUIETLY, QUIETLY)
    assert (refused(state, effects, policy) == "") is (mean is QUIETLY if mean is not None else each)
    assert (refused(state, effects, STOP._replace(aggregate="mean")) == "") is each


@pytest.mark.parametrize("after", [WARNING, ACTING, CONFIRMING, DONE, FAILED])
def test_a_phase_may_stay_as_it_is(after: str) -> None:
    """Only another one needs a way that is listed."""
    state, _ = released()
    assert refused(changed(state, phase=after), (), STOP, before=after) == ""
    assert "no transition" in refused(changed(state, phase=after), (), STOP, before="WATCHING") or after in {
        WARNING,
        DONE,
    }
