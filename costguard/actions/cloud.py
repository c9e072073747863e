"""Cloud actions before a plug-in takes them over: planned honestly, never executed."""

# ruff: noqa: ARG002 - the protocol offers more than this action needs

from costguard.actions.base import Context, Finding, Outcome, Plan

_TEXT = {
    "stop": "no plug-in can stop this machine through its cloud",
    "terminate": "no plug-in can terminate this machine through its cloud",
    "hibernate": "no plug-in can hibernate this machine through its cloud",
}


class CloudAction:
    """The place of an action that only a cloud plug-in can do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def facts(self, context: Context) -> None:
        """Nothing to look at."""

    def plan(self, facts: None) -> Plan:
        """Refused, with what can be used instead."""
        hint = 'use kill_action = "shutdown" or "command"'
        return Plan(self.name, "refuse", (Finding("no_provider", f"{_TEXT[self.name]}; the bill would go on", hint),))

    def execute(self, plan: Plan, context: Context) -> Outcome:
        """Nothing can be done."""
        return Outcome("refused", _TEXT[self.name])

    def confirm(self, context: Context, recorded: Outcome | None) -> Outcome:
        """Nothing was done."""
        return recorded or Outcome("unknown", _TEXT[self.name])
