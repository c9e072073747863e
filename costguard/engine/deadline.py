"""The deadline (lifetime, lease or budget), and the end of the work that it waits for."""

from typing import NamedTuple

from costguard.engine.rules import Rules, reached
from costguard.engine.state import Core, State
from costguard.engine.window import NEVER, never_known

WORK_OVER_SECONDS = 300.0
"""Seconds (at most a whole window) of quiet after work before a deadline that has passed begins its warning.

A pause is not the end of the work: without this people get a warning and its cancellation for every pause of a job.
"""


class Situation(NamedTuple):
    """What a deadline, and any other reason, is judged by: the state, and the date with whether it can be trusted."""

    state: State
    rules: Rules
    wall: float
    synced: bool | None


class Limit(NamedTuple):
    """What ends the machine's time: its name, its moment on the boot clock, and the seconds that it gives in all."""

    name: str  # lifetime | lease | budget
    at: float
    whole: float | None  # None: the rules name no beginning


def limits(situation: Situation) -> list[Limit]:
    """Lifetime, lease and budget as far as they are set and known; time asleep is neither running nor billed."""
    state, rules, wall, synced = situation
    policy, core = rules.policy, state.core
    found = []
    if policy.lifetime is not None:
        found.append(Limit("lifetime", policy.lifetime - core.ledger.ran + core.clocks.suspended, policy.lifetime))
    if policy.lease_until is not None and synced is not False:
        found.append(Limit("lease", state.at + policy.lease_until - wall, None))
    if policy.budget is not None and policy.price_per_hour and wall < period_over(core, rules):
        left = (policy.budget - core.ledger.spent) / policy.price_per_hour * 3600.0
        found.append(Limit("budget", left + core.clocks.suspended, policy.budget / policy.price_per_hour * 3600.0))
    return found


def first(situation: Situation) -> Limit:
    """The earliest limit, before anybody extended it; without a name, and NEVER, where there is none."""
    return min(limits(situation), key=lambda limit: limit.at, default=Limit("", NEVER, None))


def why_none(rules: Rules, *, synced: bool | None) -> str:
    """Why there is no limit now, in words."""
    if rules.policy.lease_until is not None and synced is False:
        return "the lease does not count while this machine's clock is not synchronised"
    if rules.policy.budget is not None and not rules.policy.price_per_hour:
        return "the budget does not count while the price is unknown (price_per_hour)"
    return "this machine has no deadline"


def deadline_at(situation: Situation) -> float:
    """When the deadline is, on the boot clock: the earliest limit, or the end of its extension; NEVER where there is none."""
    limit, extension = first(situation).at, situation.state.core.deadline.extension
    return limit if extension is None or limit == NEVER else max(limit, extension.until)


def movable_seconds(situation: Situation, at: float) -> float:
    """By how much users may still move the deadline, from where it is, or from ``at`` where it has passed."""
    most = situation.rules.policy.extend_max
    return max(0.0, first(situation).at + most - max(deadline_at(situation), at))


def period_over(core: Core, rules: Rules) -> float:
    """The date at which the budget period ends; what was spent in it is no reason to stop from then on."""
    return core.ledger.spent_since + rules.policy.budget_period if core.ledger.spent_since else NEVER


def work_over_seconds(rules: Rules) -> float:
    """How long work must have been over before a deadline goes by that."""
    return min(WORK_OVER_SECONDS, rules.policy.kill_duration)


def work_over_at(state: State, rules: Rules) -> float:
    """When work that was seen will have been over for so long, if nothing changes; NEVER while some is seen."""
    seen = state.core.signals.known_work
    if seen is not None and seen.busy:
        return NEVER
    if seen is None or seen.since <= seen.known_since:
        return -NEVER  # no end of any work was seen
    return seen.since + work_over_seconds(rules)


def no_work_from(state: State, rules: Rules) -> float:
    """From when on no judged GPU works, nor may: one that became unknown at work counts for a window. NEVER while one is seen."""
    # none was ever seen
    until = -NEVER if state.core.selection.judged else state.core.clocks.began + rules.policy.kill_duration
    for track in [state.tracks[i] for i in state.core.selection.judged]:
        if track.unknown_since is None:
            if track.busy:
                return NEVER
        elif track.busy or never_known(track):
            until = max(until, track.unknown_since + rules.policy.kill_duration)
    return until


def may_work(state: State, rules: Rules) -> bool:
    """Whether some judged GPU works, or may have when it became unknown, less than a whole window ago."""
    return not reached(state.at, no_work_from(state, rules))


def waits_for_work(situation: Situation) -> bool:
    """Whether a deadline has passed, and work that goes on, or may, keeps it from acting."""
    state, rules = situation.state, situation.rules
    passed = state.at >= deadline_at(situation)
    return passed and not rules.policy.stop_busy and may_work(state, rules)
