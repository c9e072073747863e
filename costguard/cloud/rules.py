"""A plan is a list of small rules, each of which looks at one circumstance. The same runner for every cloud; pure.

A rule takes a `Case` and yields what it finds, each finding with its verdict; nothing where it has nothing to say.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from costguard.cloud import hints
from costguard.cloud.api import Verb
from costguard.plans import VERDICTS, Plan, PlanFinding, Verdict, without_promises, worst

F = TypeVar("F")

Row = tuple[Verdict, PlanFinding]
Found = Iterable[Row]


class Case(NamedTuple, Generic[F]):
    """What a rule looks at: an action on a machine, what is known of it, and the settings (``[cloud]``, ``[cloud.NAME]``)."""

    verb: Verb
    facts: F
    settings: Mapping[str, object]


C = TypeVar("C", bound="Case[Any]")  # a plug-in's own kind of it


def decide(
    case: C,
    same: Callable[[C], Found],
    rules: Iterable[Callable[[C], Found]],
    *,
    already: Row | None,
    ends_bill: bool | None,
    keeps_disks: bool | None,
) -> Plan:
    """Every rule says what it finds; the gravest verdict counts, and the gravest findings come first, each of them once.

    ``same`` asks whether this is the machine at all. ``already`` is the finding about a machine that ends without this
    action: then nothing else is asked, and what becomes of its disks is not known.
    """
    found = list(same(case))
    found += [already] if already else [row for rule in rules for row in rule(case)]
    found.sort(key=lambda row: VERDICTS.index(row[0]), reverse=True)
    made = Plan(
        action=case.verb,
        verdict=worst(*(verdict for verdict, _ in found)),
        findings=tuple(dict.fromkeys(finding for _, finding in found)),
        ends_bill=ends_bill,
        keeps_disks=None if already else keeps_disks,
    )
    return without_promises(made)


def ends_already(shows: str, *, ends_bill: bool | None) -> Row:
    """Of a machine that somebody else, or an earlier attempt, has ended; ``shows`` is a clause."""
    bill = "the bill for it ends with that" if ends_bill else "something else may be billed on, or take its place"
    return "go", PlanFinding("ends_already", f"{shows} already: it is not ended a second time, and {bill}")


def rights_late(text: str, needed: str) -> Row:
    """Of a right that is missing while the machine is young."""
    words = f"{text}; rights take some minutes to arrive at a new machine"
    return "consequences", PlanFinding("rights_may_be_late", words, f"needed: {needed}; {hints.RIGHTS_ARRIVE}")
