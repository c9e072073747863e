"""What keeps every reason from acting, and from when on an open incident may act."""

from costguard.engine.rules import EPSILON, SHORT_GAP, Rules
from costguard.engine.state import Core, State
from costguard.engine.window import NEVER


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
    if now is not None and now.by_person:
        return now.opened
    if now is None or now.warned is None:
        return NEVER
    return max(now.warned + policy.grace, core.started + policy.boot_grace if rules.ends_machine else -NEVER)


def bridged(gap: float, rules: Rules, *, restarted: bool) -> bool:
    """Whether a hole in the ticks is short, and counters proved every GPU through it."""
    return gap <= max(SHORT_GAP, rules.gap) and not restarted
