"""Why the machine might be stopped, and what stands in the way of each reason."""

from typing import NamedTuple

from costguard.engine.rules import SHORT_GAP, Rules
from costguard.engine.state import WARNING, WATCHING, Core, State
from costguard.engine.window import NEVER, Track, clear_at, loud_seconds, never_seen, tolerates

IDLE, UNUSED, DEADLINE, UNKNOWN, PERSON = "idle", "unused", "deadline", "unknown", "person"

EPSILON = 1e-6

REST = 300.0
"""Seconds (at most a whole window) of quiet after work before a deadline that has passed begins its warning.

A pause is not the end of the work: without this people get a warning and its cancellation for every pause of a job.
"""


class Row(NamedTuple):
    """One reason, and what each obstacle does to it (the documentation is printed from here)."""

    reason: str
    title: str
    work_seen: str
    unknown: str
    reader_veto: str
    user_hold: str
    admin_hold: str


TABLE = (
    Row(IDLE, "idle after work", "cancels", "blocks", "cancels", "postpones", "blocks"),
    Row(UNUSED, "unused since boot", "cancels", "blocks", "cancels", "postpones", "blocks"),
    Row(DEADLINE, "deadline", "told; cancels unless deadline.stop_busy", "told", "told", "postpones", "blocks"),
    Row(UNKNOWN, "unknown too long", "cancels", "–", "cancels", "postpones", "blocks"),
    Row(PERSON, "a person said stop", "shown, asked", "shown", "shown", "asked", "refused"),
)
"""In order of precedence when several hold: deadline, idle, unused, unknown."""


class Standing(NamedTuple):
    """Whether a reason holds: ``yes``, ``blocked`` (unknown, or a tolerated blip), or ``no``; and why."""

    holds: str
    why: str = ""


YES = Standing("yes")


def idle_floor(core: Core, rules: Rules) -> float:
    """The earliest moment at which an idle window may begin."""
    policy = rules.policy
    armed = core.armed if policy.arm_duration is not None else -NEVER
    if armed is None:
        return NEVER
    return max(armed, core.began - policy.interval + policy.delay) if policy.delay else armed


def idle_at(state: State, rules: Rules) -> float:
    """When the idle window will be clear if nothing changes; NEVER while it cannot be."""
    core, window, tolerance = state.core, rules.policy.kill_duration, rules.tolerance
    floor = idle_floor(core, rules)
    if floor == NEVER or not core.judged or core.lacking:
        return NEVER
    some = rules.policy.aggregate == "any" and not rules.ends_machine
    if not (some or rules.judges_mean) and core.work is not None and core.work.loud:
        return NEVER  # the common case: a GPU works
    if rules.judges_mean:
        return clear_at(core.mean, floor, window, tolerance) if core.mean else NEVER
    tracks = state.tracks
    if some:
        return min([clear_at(tracks[i], floor, window, tolerance) for i in core.judged])
    together = all_together(core, rules)
    latest = clear_at(together, floor, window, tolerance) if together else -NEVER
    for i in core.judged:
        clear = clear_at(tracks[i], floor, window, tolerance)
        if clear == NEVER:
            return NEVER
        latest = max(latest, clear)
    return latest


def all_together(core: Core, rules: Rules) -> Track | None:
    """When any GPU was loud: bursts that each GPU may have must not add up to work of the machine. None if they cannot."""
    return core.shadow if rules.tolerance > 0 and len(core.judged) > 1 else None


def unused_at(state: State, rules: Rules) -> float:
    """When the machine counts as unused if nothing changes."""
    core, after = state.core, rules.policy.unused_after
    if after is None or core.armed is not None or core.work is None or rules.policy.arm_duration is None:
        return NEVER
    return clear_at(core.work, -NEVER, after, rules.tolerance)


def deadline_at(state: State, rules: Rules, wall: float, *, synced: bool | None) -> float:
    """The earliest of lifetime, lease and budget, on the boot clock; time asleep is neither running nor billed."""
    policy, core = rules.policy, state.core
    soonest = NEVER
    if policy.lifetime is not None:
        soonest = policy.lifetime - core.ran + core.suspended
    if policy.lease_until is not None and synced is not False:
        soonest = min(soonest, state.at + policy.lease_until - wall)
    if policy.budget is not None and policy.price_per_hour and wall < period_over(core, rules):
        soonest = min(soonest, (policy.budget - core.spent) / policy.price_per_hour * 3600.0 + core.suspended)
    return soonest


def period_over(core: Core, rules: Rules) -> float:
    """The date at which the budget period ends; what was spent in it is no reason to stop from then on."""
    return core.spent_since + rules.policy.budget_period if core.spent_since else NEVER


def unknown_at(state: State, rules: Rules) -> float:
    """When *unknown too long* becomes a reason, if nothing changes (opt-in)."""
    core, after = state.core, rules.policy.unknown_stop_after
    if after is None or core.blind is None or core.host is None or core.host.loud or works_now(state):
        return NEVER
    if core.shadow is None or core.shadow.loud:
        return NEVER
    return max(core.blind, core.host.since, core.shadow.since) + after  # no work in the meantime, where it can be seen


def concerned(state: State, rules: Rules) -> tuple[int, ...]:
    """The positions of the GPUs that a reason rests on: those that are idle where `any` decides, else all judged."""
    judged = state.core.judged
    if rules.policy.aggregate != "any" or rules.ends_machine:
        return judged
    tracks = state.tracks
    return tuple(i for i in judged if i < len(tracks) and tracks[i].lost is None and not tracks[i].loud)


def works_now(state: State) -> bool:
    """Whether some judged GPU is seen working in this very tick."""
    tracks = state.tracks
    return any(tracks[i].loud and tracks[i].lost is None for i in state.core.judged)


def may_work(state: State, rules: Rules) -> bool:
    """Whether some judged GPU works, or may have when it became unknown, less than a whole window ago."""
    since = state.at - rules.policy.kill_duration
    tracks = [state.tracks[i] for i in state.core.judged]
    return any(
        track.loud if track.lost is None else track.lost > since and (track.loud or never_seen(track))
        for track in tracks
    )


def rest(rules: Rules) -> float:
    """How long work must have been over before a deadline goes by that."""
    return min(REST, rules.policy.kill_duration)


def rested_at(state: State, rules: Rules) -> float:
    """When work that was seen will have been over for so long, if nothing changes; NEVER while some is seen."""
    seen = state.core.shadow
    if seen is not None and seen.loud:
        return NEVER
    if seen is None or seen.since <= seen.known_since:
        return -NEVER  # no end of any work was seen
    return seen.since + rest(rules)


def work_seen(state: State, rules: Rules) -> bool:
    """Whether work, not a tolerated blip, lies in the window: what unlatches DONE and FAILED."""
    core, window = state.core, rules.policy.kill_duration
    if rules.judges_mean:
        relevant = [core.mean] if core.mean else []
    else:
        relevant = [state.tracks[i] for i in core.judged]
    loud = [t.lost is None and loud_seconds(t, window, state.at) > rules.tolerance for t in relevant]
    if rules.policy.aggregate == "any" and not rules.ends_machine:
        return all(loud) and bool(loud)
    together = None if rules.judges_mean else all_together(core, rules)
    return any(loud) or (together is not None and loud_seconds(together, window, state.at) > rules.tolerance)


def obstacle(core: Core, rules: Rules) -> str:
    """What keeps every own reason from acting, in words; empty when nothing does."""
    if core.notice is not None:
        return "the cloud has announced that it takes this machine away, or interrupts it"
    if words := forbidden(core, rules):
        return words
    if core.holds:
        return f"held by {max(core.holds, key=lambda hold: hold.until).owner}"  # whose hold ends last
    return ""


def forbidden(core: Core, rules: Rules) -> str:
    """What not even a person at the machine gets round, in words: the administrator's hold, or an escape hatch."""
    if rules.policy.admin_hold:
        return f"the administrator holds this machine: {rules.policy.admin_hold}"
    return next((f"{veto.source}: {veto.reason}" for veto in core.vetoes if veto.hatch), "")


def in_boot_grace(state: State, rules: Rules) -> bool:
    """Whether it is too early after boot or resume even to warn of a machine action."""
    return rules.ends_machine and state.at + EPSILON < boot_grace_over(state.core, rules)


def boot_grace_over(core: Core, rules: Rules) -> float:
    """From when on people may be warned of a machine action."""
    return core.started + rules.policy.boot_grace - rules.policy.grace


def due_at(core: Core, rules: Rules) -> float:
    """When the action of the open incident is due; NEVER before its warning was delivered or given up."""
    now, policy = core.incident, rules.policy
    if now is not None and now.reason == PERSON:
        return now.opened
    if now is None or now.warned is None:
        return NEVER
    return max(now.warned + policy.grace, core.started + policy.boot_grace if rules.ends_machine else -NEVER)


def delayed(state: State, rules: Rules, would: float) -> bool:
    """Whether what was unknown is all that stands in the way of a stop that ``would`` have been due already."""
    core = state.core
    if not would <= state.at or core.phase not in {WATCHING, WARNING} or core.vetoes:
        return False
    if obstacle(core, rules) or in_boot_grace(state, rules):
        return False
    return min(idle_at(state, rules), unused_at(state, rules)) > state.at


def choose(state: State, rules: Rules, wall: float, *, synced: bool | None) -> str:
    """The reason that holds now, if nothing stands in its way; empty when there is none."""
    core, at, policy = state.core, state.at + EPSILON, rules.policy
    if obstacle(core, rules):
        return ""
    if in_boot_grace(state, rules):
        return ""
    if at >= deadline_at(state, rules, wall, synced=synced) and (
        policy.stop_busy or (at >= rested_at(state, rules) and not may_work(state, rules))
    ):
        return DEADLINE
    if core.vetoes:
        return ""
    if at >= idle_at(state, rules):
        return IDLE
    if at >= unused_at(state, rules):
        return UNUSED
    return UNKNOWN if at >= unknown_at(state, rules) else ""


def standing(state: State, rules: Rules, reason: str, wall: float, *, synced: bool | None) -> Standing:
    """Whether a reason that people were warned of still holds on this tick's readings (I3)."""
    core, at = state.core, state.at + EPSILON
    if reason == PERSON:
        return Standing("no", words) if (words := forbidden(core, rules)) else YES
    if words := obstacle(core, rules):
        return Standing("no", words)
    if reason == DEADLINE:
        if at < deadline_at(state, rules, wall, synced=synced):
            return Standing("no", "the deadline was moved")
        return YES if rules.policy.stop_busy or not may_work(state, rules) else Standing("no", "work was seen")
    if core.vetoes:
        return Standing("no", f"{core.vetoes[0].source}: {core.vetoes[0].reason}")
    if reason == UNKNOWN:
        return (
            YES
            if at >= unknown_at(state, rules)
            else Standing("no", "the GPUs, or the host, are no longer as they were")
        )
    return _quiet_standing(state, rules, reason)


def _quiet_standing(state: State, rules: Rules, reason: str) -> Standing:
    core, at, policy = state.core, state.at + EPSILON, rules.policy
    if at >= (idle_at(state, rules) if reason == IDLE else unused_at(state, rules)):
        return YES
    if core.blind is not None and (not works_now(state)):
        return Standing("blocked", "a GPU cannot be read")
    if reason == UNUSED:
        if core.work and core.armed is None and policy.unused_after is not None:
            held = tolerates(core.work, -NEVER, policy.unused_after, rules.tolerance, at)
            return Standing("blocked", "a short burst of load") if held else Standing("no", "work was seen")
        return Standing("no", "work was seen")
    if _idle_tolerated(state, rules):
        return Standing("blocked", "a short burst of load")
    return Standing(
        "no", "work was seen" if work_seen(state, rules) else "the idle window has a hole that nothing bridged"
    )


def _idle_tolerated(state: State, rules: Rules) -> bool:
    core, at, window = state.core, state.at + EPSILON, rules.policy.kill_duration
    floor = idle_floor(core, rules)
    if floor == NEVER or not core.judged:
        return False
    if rules.judges_mean:
        return core.mean is not None and tolerates(core.mean, floor, window, rules.tolerance, at)
    held = [tolerates(state.tracks[i], floor, window, rules.tolerance, at) for i in core.judged]
    if rules.policy.aggregate == "any" and not rules.ends_machine:
        return any(held)
    together = all_together(core, rules)
    return all(held) and (together is None or tolerates(together, floor, window, rules.tolerance, at))


def bridged(gap: float, rules: Rules, *, restarted: bool) -> bool:
    """Whether a hole in the ticks is short, and counters proved every GPU through it."""
    return gap <= max(SHORT_GAP, rules.gap) and not restarted
