"""The alarm that senses keep the machine up without work of a GPU: told after a time, and bounded where the owner wants it."""

from costguard.engine.idleness import quiet_enough_at
from costguard.engine.observation import Veto
from costguard.engine.rules import DAY_SECONDS, Rules
from costguard.engine.state import WARNING, WATCHING, Alarm, Core
from costguard.engine.turn import Turn
from costguard.engine.window import NEVER, busy_seconds


def raise_kept(turn: Turn) -> None:
    """Begin, tell, repeat daily or end: what senses saw has kept the machine up since it would have been stopped.

    Work of a GPU ends it, and so does an action; that nothing is seen for a while does not.
    """
    core, rules, at, kept = turn.core, turn.rules, turn.at, turn.core.alarms.kept
    seen = [veto for veto in core.vetoes if veto.sense]
    if kept is not None and (core.phase not in {WATCHING, WARNING} or worked_meanwhile(core, rules, at)):
        kept = None
    if kept is None and seen and core.phase in {WATCHING, WARNING} and quiet_enough_at(turn.state, rules) <= at:
        kept = Alarm(at, next=at + after if (after := rules.policy.kept_told_after) is not None else NEVER)
    elif kept is not None and at >= kept.next and (active := [veto for veto in seen if not veto.unknown]):
        _tell_kept(turn, kept, active)
        kept = kept._replace(told=kept.told + 1, next=at + DAY_SECONDS)
    if kept != core.alarms.kept:
        turn.alarms = turn.alarms._replace(kept=kept)


def worked_meanwhile(core: Core, rules: Rules, at: float) -> bool:
    """Whether the GPUs that can be read show work in the window, and more than a burst."""
    work = core.signals.known_work
    return work is not None and busy_seconds(work, rules.policy.kill_duration, at) > rules.tolerance


def _tell_kept(turn: Turn, kept: Alarm, seen: list[Veto]) -> None:
    seconds = turn.at - kept.since
    turn.tell(
        "kept_up",
        "warning",
        keepers=[[veto.source, veto.reason, veto.lets_go] for veto in seen],
        kept_seconds=seconds,
        money=turn.cost(seconds),
    )
