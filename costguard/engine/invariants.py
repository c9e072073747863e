"""What must be true of every step, checked in every step that does more than let time pass.

A violation is a bug. The step is refused, so nothing that it asked for happens; the agent says so and
begins afresh, which can only make a stop come later.
"""

from collections.abc import Sequence

from costguard.engine.effects import Effect, Go, Leave
from costguard.engine.obstacles import countdown, forbidden, heeded, may_act_at
from costguard.engine.phases import ALLOWED
from costguard.engine.reasons import reason_of
from costguard.engine.rules import Rules, reached
from costguard.engine.state import State


class InvariantError(Exception):
    """The engine was about to break one of its own rules; its message names it."""


def check(before: State, after: State, effects: Sequence[Effect], rules: Rules) -> None:
    """Raise InvariantError when a step may not be taken."""
    old, new = before.core.phase, after.core.phase
    if old != new and (old, new) not in ALLOWED:
        raise InvariantError(f"no transition from {old} to {new}")
    for effect in effects:
        if isinstance(effect, Go | Leave):
            _check_act(after, rules)


def _check_act(after: State, rules: Rules) -> None:
    core, policy, incident = after.core, rules.policy, after.core.incident
    if policy.mode != "live":
        raise InvariantError("dry run: nothing may act")
    if incident is None:
        raise InvariantError("I4: nothing acts outside an incident")
    if message := forbidden(core, rules):
        raise InvariantError(message)
    if incident.by_person:
        return
    warned = incident.warned
    if warned is None or not reached(after.at, max(warned + countdown(incident, policy), incident.answers_until)):
        raise InvariantError("I2: no action before people were warned for as long as `grace`, and could ask somebody")
    if not reached(after.at, may_act_at(core, rules)):
        raise InvariantError("I9: no own stop within boot_grace")
    if policy.ends_task and (policy.scope != "task" or policy.ends_machine):
        raise InvariantError("a task is ended by a guard of its own GPUs alone, which ends no machine")
    if core.people.holds or core.notice.due is not None:
        raise InvariantError("no action against a hold or a notice")
    if reason_of(incident).heeds_vetoes and heeded(after, rules):
        raise InvariantError("no action against what a sense sees, or cannot see")
    if not reason_of(incident).needs_quiet:
        return
    judged = [after.tracks[i] for i in core.selection.judged]
    judged_by_mean = [core.signals.mean] if rules.judges_mean and core.signals.mean is not None else judged
    quiet = [track.unknown_since is None and not track.busy for track in judged_by_mean]
    if not quiet or not (any(quiet) if rules.judges_any else all(quiet)):
        raise InvariantError("I1, I3: no action unless what was judged is known and quiet in this very tick")
