"""`end_process`: the guard itself exits with code 0 and kills nothing. Here is only its plan."""

from costguard.actions.base import Context
from costguard.plans import Plan, PlanFinding, Result

_BILL = PlanFinding(
    "bill_goes_on",
    "costguard exits with code 0 and stops nothing itself: the bill goes on",
    "to end the bill, run your own command after it: `costguard run … && your-command`",
)


class EndProcess:
    """The guard ends; what was started after it in a script goes on."""

    name = "end_process"

    def facts(self, context: Context) -> None:
        """Nothing to look at."""

    def plan(self, facts: None) -> Plan:
        """Always possible."""
        return Plan(self.name, "go", (_BILL,), ends_bill=False, keeps_disks=True)

    def execute(self, plan: Plan, context: Context) -> Result:
        """The guard does it, never a worker."""
        return Result("refused", "the guard ends itself; no worker can do that for it")

    def confirm(self, context: Context, recorded: Result | None) -> Result:
        """A guard that asks is still running."""
        return Result("failed", "the guard still runs")
