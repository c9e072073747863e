"""`shutdown`: the guest powers the machine off. Whether the bill ends depends on the cloud."""

from costguard.actions import guest
from costguard.cloud.api import Consequence
from costguard.plans import Plan, PlanFinding, Verdict, worst


class Shutdown(guest.GuestAction):
    """Power the machine off through its init system, at most once."""

    name = "shutdown"
    verb = "poweroff"

    def plan(self, facts: guest.GuestFacts) -> Plan:
        """Refuse what may not be done; name what goes on being billed and what may be lost."""
        refused = guest.refusals(facts)
        verdict, found = _bill(facts)
        consequence = facts.consequence
        return Plan(
            action=facts.action,
            verdict="refuse" if refused else verdict,
            findings=(*refused, *found),
            ends_bill=consequence.ends_bill if consequence else None,
            keeps_disks=consequence.keeps_disks if consequence else None,
            command=() if refused else facts.permission.command,
        )


def _bill(facts: guest.GuestFacts) -> tuple[Verdict, list[PlanFinding]]:
    """What powering off does to the bill and to the disks."""
    found: list[tuple[Verdict, PlanFinding]] = [("consequences", finding) for finding in guest.told(facts)]
    if facts.plugin_failures:
        text = "a cloud plug-in failed to load, so costguard may not know this cloud: "
        hint = "reinstall the plug-in, then run `costguard doctor`"
        found.append(("consequences", PlanFinding("plugin_failed", text + "; ".join(facts.plugin_failures), hint)))
    if len(facts.clouds) > 1:
        text = f"several plug-ins claim this machine ({', '.join(facts.clouds)}), so it is unknown whether a shutdown ends the bill"
        found.append(("consequences", PlanFinding("cloud_ambiguous", text, "uninstall the wrong one")))
    elif facts.consequence is None:
        found.append(("go", _no_cloud(facts)))
    else:
        found += _consequences(facts, facts.consequence)
    return worst(*(verdict for verdict, _ in found)), [finding for _, finding in found]


def _no_cloud(facts: guest.GuestFacts) -> PlanFinding:
    machine = f" ({facts.machine})" if facts.machine else ""
    text = f"no plug-in knows this machine{machine}: unknown whether a shutdown ends its bill"
    return PlanFinding("no_cloud", text, "ask the provider whether it bills a machine that is powered off")


def _consequences(facts: guest.GuestFacts, known: Consequence) -> list[tuple[Verdict, PlanFinding]]:
    found: list[tuple[Verdict, PlanFinding]] = []
    if known.ends_bill is False:
        verdict: Verdict = "consequences" if facts.accept_bill else "another"
        hint = known.hint or "use another kill_action, or set actions.shutdown.accept_bill = true"
        found.append((verdict, PlanFinding("bill_goes_on", known.text, hint)))
    elif known.ends_bill is None:
        found.append(("consequences", PlanFinding("bill_unknown", known.text, known.hint)))
    if facts.fallback and known.ends_bill is not False and not (known.ends_bill and known.keeps_disks):
        text = f"no plan since boot has shown that a shutdown ends the bill and keeps the disks, so it is not used as a fallback: {known.text}"
        found.append(("refuse", PlanFinding("shutdown_unproven", text, known.hint)))
    elif known.keeps_disks is None:
        found.append(("consequences", PlanFinding("may_terminate", known.text, known.hint)))
    elif known.keeps_disks is False:
        found.append(("consequences", PlanFinding("loses_disks", known.text, known.hint)))
    return found or [("go", PlanFinding("bill_ends", known.text, known.hint))]
