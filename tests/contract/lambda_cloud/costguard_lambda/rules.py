"""What follows from the facts. Sources: the package's docstring."""

from collections.abc import Mapping

from costguard.cloud import rules
from costguard.cloud.api import Verb
from costguard.cloud.rules import Found, PlanCase
from costguard.plans import Plan, PlanFinding

from .facts import ENDS, Facts

LambdaCase = PlanCase[Facts]


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule."""
    ends_bill, already = None if not facts.status else facts.identity.market != "reserved", None
    if facts.status in ENDS:
        already = rules.ends_already(f"Lambda Cloud says that this instance is {facts.status}", ends_bill=ends_bill)
    every = (_state, _available, _prepaid, _disks, _bill)
    made = rules.decide(
        PlanCase(verb, facts, settings), _same, every, already=already, ends_bill=ends_bill, keeps_disks=False
    )
    return made._replace(price=facts.price._asdict() if facts.price else {})


def _same(case: LambdaCase) -> Found:
    """An id is given once; the account of the key must have it."""
    if not case.facts.status:
        text = f"the account of the key has no instance {case.facts.identity.instance}"
        yield (
            "refuse",
            PlanFinding("not_this_machine", text, "is the key of this machine's account? run `costguard doctor`"),
        )


def _state(case: LambdaCase) -> Found:
    """One that boots is not this one, which runs."""
    status = case.facts.status
    if status and status not in {"active", "unhealthy"}:
        text = f"Lambda Cloud says that this instance is {status}, not active: nothing is sent"
        yield "refuse", PlanFinding("not_running", text, "wait for it, or look at https://cloud.lambda.ai/instances")


def _available(case: LambdaCase) -> Found:
    """The API says beforehand what it would refuse."""
    if case.facts.obstacle:
        text = f"Lambda Cloud would not terminate this instance now ({case.facts.obstacle}), and the bill goes on"
        yield "refuse", PlanFinding("protected", text, "look at https://cloud.lambda.ai/instances")


def _prepaid(case: LambdaCase) -> Found:
    """A reservation is billed whether it is used or not."""
    if case.facts.identity.market != "reserved":
        return
    text = "this instance is reserved: its bill goes on until the reservation ends"
    act = case.settings.get("prepaid") == "act"
    yield (
        ("consequences" if act else "refuse"),
        PlanFinding("prepaid", text, 'set cloud.prepaid = "act" to end it anyway'),
    )


def _disks(case: LambdaCase) -> Found:
    """Everything but file systems goes with the machine."""
    if not case.facts.status:
        return
    text = "the instance's own disk is deleted with it, for good"
    yield "consequences", PlanFinding("loses_disks", text, "keep what matters on a file system of Lambda Cloud")
    if case.facts.file_systems:
        text = f"these file systems stay, and are billed on: {', '.join(case.facts.file_systems)}"
        yield (
            "go",
            PlanFinding(
                "disks_go_on", text, "delete them at https://cloud.lambda.ai/file-systems when nobody needs them"
            ),
        )


def _bill(case: LambdaCase) -> Found:
    if case.facts.status and case.facts.identity.market != "reserved":
        yield "go", PlanFinding("bill_ends", "the instance is billed until it is terminated, and never comes back")
