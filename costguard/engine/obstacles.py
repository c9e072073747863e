"""What keeps every reason from acting, and from when on an open incident may act."""

from costguard.engine.observation import Veto
from costguard.engine.policy import Policy
from costguard.engine.rules import SHORT_GAP_SECONDS, Rules, reached
from costguard.engine.standstill import FORBIDS, standstills
from costguard.engine.state import Core, Incident, State
from costguard.engine.window import NEVER
from costguard.engine.words import several


def obstacle(core: Core, rules: Rules) -> str:
    """What keeps every own reason from acting, in words; empty when nothing does."""
    if core.notice.due is not None:
        return "the cloud has announced that it will reclaim or interrupt this machine"
    if message := forbidden(core, rules):
        return message
    if core.people.holds:
        last = max(core.people.holds, key=lambda hold: hold.until).owner  # whose hold ends last
        others = len(core.people.holds) - 1
        return f"held by {last}" + (f" and {several(others, 'other')}" if others else "")
    return ""


def forbidden(core: Core, rules: Rules) -> str:
    """Why not even a person may have it stopped, in words: the administrator's hold, or an escape hatch; empty when they may."""
    if not rules.policy.admin_hold and not core.vetoes:
        return ""
    return next((cause.words for cause in standstills(core, (), rules) if cause.code in FORBIDS), "")


def heeded(state: State, rules: Rules) -> tuple[Veto, ...]:
    """The vetoes that count, those of activity before those of what cannot be seen.

    Senses keep a machine up without work of a GPU for as long as the owner wants at most.
    """
    core = state.core
    if not core.vetoes:
        return ()
    over = reached(state.at, powerless_at(core, rules))
    counting = [veto for veto in core.vetoes if not (over and veto.sense)]
    return tuple(sorted(counting, key=lambda veto: veto.unknown))


def powerless_at(core: Core, rules: Rules) -> float:
    """From when on what senses see keeps the machine up no longer, unless a GPU works meanwhile."""
    kept, most = core.alarms.kept, rules.policy.kept_at_most
    return NEVER if kept is None or most is None else kept.since + most


def in_boot_grace(state: State, rules: Rules) -> bool:
    """Whether it is too early after boot or resume even to warn of a machine action."""
    return not reached(state.at, may_warn_at(state.core, rules))


def may_act_at(core: Core, rules: Rules) -> float:
    """From when on the machine may be ended; any other action may come at any time."""
    return core.clocks.started + rules.policy.boot_grace if rules.ends_machine else -NEVER


def may_warn_at(core: Core, rules: Rules) -> float:
    """From when on people may be warned of the action."""
    return may_act_at(core, rules) - rules.policy.grace


def due_at(core: Core, rules: Rules) -> float:
    """When the action of the open incident is due; NEVER before its warning was delivered or given up."""
    incident = core.incident
    if incident is not None and incident.by_person:
        return incident.opened
    if incident is None or incident.warned is None:
        return NEVER
    return max(incident.warned + countdown(incident, rules.policy), may_act_at(core, rules), incident.answers_until)


def countdown(incident: Incident, policy: Policy) -> float:
    """Seconds from the warning to the action: longer where nobody got it and somebody should have."""
    alone = incident.announcement.exhausted and policy.unreached_wait > 0.0
    return policy.grace + max(policy.grace, policy.unreached_wait) if alone and policy.grace > 0.0 else policy.grace


def bridged(gap: float, rules: Rules, *, restarted: bool) -> bool:
    """Whether a hole in the ticks is short, and counters proved every GPU through it."""
    return gap <= max(SHORT_GAP_SECONDS, rules.gap) and not restarted
