"""`reboot`: the guest restarts the machine. It frees hung GPUs; it never ends a bill."""

from costguard.actions import guest
from costguard.actions.base import Context
from costguard.plans import Plan, PlanFinding, Result

_BILL = PlanFinding(
    "bill_goes_on",
    "a reboot does not end the bill: the machine comes back and costs what it cost before",
    'use `kill_action = "stop"` or `"shutdown"` to end the bill',
)


class Reboot:
    """Restart the machine through its init system, at most once."""

    name = "reboot"

    def facts(self, context: Context) -> guest.GuestFacts:
        """See `guest.facts`."""
        return guest.facts(context, "reboot")

    def plan(self, facts: guest.GuestFacts) -> Plan:
        """Refuse what may not be done; a reboot always has a consequence."""
        refused = guest.refusals(facts)
        return Plan(
            action=facts.action,
            verdict="refuse" if refused else "consequences",
            findings=(*refused, *guest.told(facts), _BILL),
            ends_bill=False,
            keeps_disks=True,
            command=() if refused else facts.permission.command,
        )

    def execute(self, plan: Plan, context: Context) -> Result:
        """Ask the init system to restart."""
        return guest.execute(context, plan.command)

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """See `guest.confirm`."""
        return guest.confirm(context, recorded)
