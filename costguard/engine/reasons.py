"""Why the machine might be stopped: one row for each reason, with all that depends on which one it is.

The engine chooses, forecasts and judges by these rows; `status`, messages, `replay` and docs/engine.md read them too.
"""

from collections.abc import Callable
from typing import NamedTuple

from costguard.engine import deadline
from costguard.engine.deadline import Situation
from costguard.engine.idleness import (
    idle_at,
    idle_tolerated,
    unknown_at,
    unused_at,
    unused_tolerated,
    work_seen,
    works_now,
)
from costguard.engine.observation import Veto
from costguard.engine.obstacles import forbidden, heeded, in_boot_grace, obstacle
from costguard.engine.policy import Policy
from costguard.engine.rules import reached
from costguard.engine.state import PERSON as BY_PERSON
from costguard.engine.state import Incident, State
from costguard.engine.window import NEVER
from costguard.engine.words import duration


class Standing(NamedTuple):
    """Whether a reason holds: ``yes``, ``blocked`` (unknown, or a tolerated blip), or ``no``; and why."""

    state: str
    why: str = ""


YES = Standing("yes")


class Reason(NamedTuple):
    """One reason. Every moment is on the boot clock; NEVER is one that does not come if nothing changes."""

    name: str
    title: str
    why: str  # as messages say it, of ``below``, ``during``, ``gpus``, ``owner`` and ``limit``
    applies: Callable[[Policy], bool]  # whether the policy has it at all
    at: Callable[[Situation], float]  # when it begins to hold, if nothing changes
    stands: Callable[[Situation], Standing]  # once people were warned of it
    outlook: Callable[[Policy], str] = lambda _policy: ""  # what will have been by then
    window: Callable[[Policy], float | None] = lambda policy: policy.kill_duration
    not_before: Callable[[Situation], float] = lambda _: -NEVER  # until when something else keeps it from beginning
    heeds_vetoes: bool = True
    needs_quiet: bool = True  # in the very tick that acts (I1, I3)
    by_date: bool = False  # it comes although work goes on, so what ends its latch is work that is seen now
    # what each obstacle does to it, for the documentation
    work_seen: str = "cancels"
    unknown: str = "blocks"
    reader_veto: str = "cancels"
    user_hold: str = "postpones"
    admin_hold: str = "blocks"

    @property
    def cells(self) -> tuple[str, ...]:
        """Its line in the documentation."""
        return (self.title, self.work_seen, self.unknown, self.reader_veto, self.user_hold, self.admin_hold)


def _deadline_stands(situation: Situation) -> Standing:
    state, rules = situation.state, situation.rules
    if not reached(state.at, deadline.deadline_at(situation)):
        return Standing("no", "the deadline was moved")
    return YES if rules.policy.stop_busy or not deadline.may_work(state, rules) else Standing("no", "work was seen")


def _deadline_not_before(situation: Situation) -> float:
    state, rules = situation.state, situation.rules
    if rules.policy.stop_busy:
        return -NEVER
    return max(deadline.work_over_at(state, rules), deadline.no_work_from(state, rules))


def _idle_stands(situation: Situation) -> Standing:
    state, rules = situation.state, situation.rules
    quiet = _quiet_stands(state, idle_at(state, rules), tolerated=idle_tolerated(state, rules))
    missing = quiet.state == "no" and not work_seen(state, rules)
    return Standing("no", "readings are missing from the idle window") if missing else quiet


def _unused_stands(situation: Situation) -> Standing:
    state, rules = situation.state, situation.rules
    return _quiet_stands(state, unused_at(state, rules), tolerated=unused_tolerated(state, rules))


def _quiet_stands(state: State, at: float, *, tolerated: bool) -> Standing:
    """A reason that begins at this moment if nothing works; ``tolerated``: what works now changes nothing."""
    if reached(state.at, at):
        return YES
    if state.core.signals.unknown_since is not None and not works_now(state):
        return Standing("blocked", "a GPU cannot be read")
    return Standing("blocked", "a short burst of load") if tolerated else Standing("no", "work was seen")


def _unknown_stands(situation: Situation) -> Standing:
    holds = reached(situation.state.at, unknown_at(situation.state, situation.rules))
    return YES if holds else Standing("no", "the GPUs or the host changed")


DEADLINE = Reason(
    name="deadline",
    title="deadline",
    why="{limit}",
    work_seen="told; cancels unless deadline.stop_busy",
    unknown="told",
    reader_veto="told",
    applies=lambda policy: (policy.lifetime, policy.lease_until, policy.budget) != (None, None, None),
    at=deadline.deadline_at,
    not_before=_deadline_not_before,
    stands=_deadline_stands,
    outlook=lambda _policy: "the deadline",
    heeds_vetoes=False,
    needs_quiet=False,
    by_date=True,
)
IDLE = Reason(
    name="idle",
    title="idle",
    why="idle; load{below}{during} on {gpus}",
    applies=lambda _policy: True,
    at=lambda s: idle_at(s.state, s.rules),
    stands=_idle_stands,
    outlook=lambda policy: f"idle for {duration(policy.kill_duration)}",
)
UNUSED = Reason(
    name="unused",
    title="unused since boot",
    why="no work since boot{during} on {gpus}",
    applies=lambda policy: policy.unused_after is not None and policy.arm_duration is not None,
    at=lambda s: unused_at(s.state, s.rules),
    stands=_unused_stands,
    outlook=lambda policy: f"unused for {duration(policy.unused_after or 0.0)}",
    window=lambda policy: policy.unused_after,
)
UNKNOWN = Reason(
    name="unknown",
    title="unknown too long",
    why="the GPUs could not be read for too long, while nobody seemed to use the machine",
    unknown="–",
    applies=lambda policy: policy.unknown_stop_after is not None,
    at=lambda s: unknown_at(s.state, s.rules),
    stands=_unknown_stands,
    outlook=lambda policy: f"unreadable for {duration(policy.unknown_stop_after or 0.0)}",
    needs_quiet=False,
)
PERSON = Reason(
    name=BY_PERSON,
    title="requested by a person",
    why="{owner} asked for it",
    work_seen="shown, asked",
    unknown="shown",
    reader_veto="shown",
    user_hold="asked",
    admin_hold="refused",
    applies=lambda _policy: True,
    at=lambda _situation: NEVER,
    stands=lambda m: Standing("no", words) if (words := forbidden(m.state.core, m.rules)) else YES,
    heeds_vetoes=False,
    needs_quiet=False,
)

OWN_REASONS = (DEADLINE, IDLE, UNUSED, UNKNOWN)
"""The machine's own reasons, in order of precedence when several hold."""

REASONS = (*OWN_REASONS, PERSON)
_BY_NAME = {reason.name: reason for reason in REASONS}


def reason_of(incident: Incident) -> Reason:
    """The row of the reason of an incident."""
    return _BY_NAME[incident.reason]


def choose(situation: Situation) -> str:
    """The name of the reason that holds now, if nothing stands in its way; empty when there is none."""
    state, rules = situation.state, situation.rules
    core = state.core
    if obstacle(core, rules) or in_boot_grace(state, rules):
        return ""
    for reason in OWN_REASONS:
        if reason.heeds_vetoes and heeded(state, rules):
            continue
        if reached(state.at, reason.at(situation)) and reached(state.at, reason.not_before(situation)):
            return reason.name
    return ""


def earliest(reason: Reason, situation: Situation) -> float:
    """When a reason could be chosen, as far as it alone is concerned; NEVER while work, or a veto, keeps it from that."""
    at = reason.at(situation)
    if at <= situation.state.at and reason.heeds_vetoes and heeded(situation.state, situation.rules):
        return NEVER
    return at if at > situation.state.at else max(at, reason.not_before(situation))


def standing(incident: Incident, situation: Situation) -> Standing:
    """Whether a reason that people were warned of still holds on this tick's readings (I3)."""
    core, reason = situation.state.core, reason_of(incident)
    if reason is PERSON:
        return reason.stands(situation)
    if words := obstacle(core, situation.rules):
        return Standing("no", words)
    vetoes = heeded(situation.state, situation.rules) if reason.heeds_vetoes else ()
    if vetoes and not vetoes[0].unknown:
        return Standing("no", veto_words(vetoes[0]))
    stands = reason.stands(situation)
    return Standing("blocked", veto_words(vetoes[0])) if vetoes and stands is YES else stands


def veto_words(veto: Veto) -> str:
    """What a veto says; what a sense saw needs no name of the sense."""
    return veto.reason if veto.sense and not veto.unknown else f"{veto.source}: {veto.reason}"
