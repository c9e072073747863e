"""`reboot`: the guest restarts the machine. It frees hung GPUs; it never ends a bill."""

from costguard.actions import guest
from costguard.plans import Plan, PlanFinding

_BILL = PlanFinding(
    "bill_goes_on",
    "a reboot does not end the bill: the machine comes back at the same price",
    'to end the bill: kill_action = "stop" or "shutdown"',
)


class Reboot(guest.GuestAction):
    """Restart the machine through its init system, at most once."""

    name = "reboot"
    verb = "reboot"

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
