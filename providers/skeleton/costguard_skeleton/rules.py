"""What may be done and what follows from it: a list of small rules, each of which sees one circumstance. No I/O.

Codes of findings stand in docs/actions.md; use one of them before you invent one.
"""

from collections.abc import Mapping

from costguard.cloud import rules
from costguard.cloud.age import is_young
from costguard.cloud.api import Verb
from costguard.cloud.rules import Found, PlanCase
from costguard.plans import Plan, PlanFinding

from .facts import Facts, seen
from .permissions import right

SkeletonCase = PlanCase[Facts]


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule."""
    shows, already = seen(facts.status), None
    if shows.ends:
        already = rules.ends_already(shows.words, ends_bill=True)
    return rules.decide(
        PlanCase(verb, facts, settings), _same, (_rights, _protected, _scratch, _bill),
        already=already, ends_bill=True, keeps_disks=verb != "terminate",
    )  # fmt: skip


def _same(case: SkeletonCase) -> Found:
    """Whether the API speaks of this machine; here its address is the machine's own id, which is given once."""
    del case
    return ()


def _rights(case: SkeletonCase) -> Found:
    needed = right(case.verb)
    if needed in case.facts.rights:
        return
    if is_young(case.facts.uptime):
        yield rules.rights_late(f"the right {needed} is missing", needed)
    else:
        text = f"the right {needed} is missing: the machine would stay up and be billed"
        yield "refuse", PlanFinding("not_permitted", text, "run `costguard permissions skeleton`")


def _protected(case: SkeletonCase) -> Found:
    """A flag that a person set is never removed."""
    if case.facts.protected:
        yield (
            "refuse",
            PlanFinding(
                "protected", "the machine is protected, and stays up and billed", "ask the person who protected it"
            ),
        )


def _scratch(case: SkeletonCase) -> Found:
    """What may be in use is not thrown away, unless the owner said so."""
    if case.facts.scratch == "none":
        return
    text = "the data of its local disk would be lost for good"
    if case.facts.scratch in {"unused", "empty"} or case.settings.get("local_data") == "discard":
        yield "consequences", PlanFinding("local_data_lost", text)
    else:
        yield "refuse", PlanFinding("local_data_kept", text, 'copy what matters, or set cloud.local_data = "discard"')


def _bill(case: SkeletonCase) -> Found:
    yield "go", PlanFinding("bill_ends", "computing is no longer billed; disks and addresses are")
    if case.verb == "terminate":
        yield (
            "consequences",
            PlanFinding("loses_disks", "its disks are deleted with it", 'set kill_action = "stop" to keep them'),
        )
