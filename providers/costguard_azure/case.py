"""What a rule looks at, and what it answers."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from costguard.actions.base import Finding, Verdict
from costguard.actions.provider import Verb
from costguard_azure.facts import Facts, Vm

Found: TypeAlias = Iterable[tuple[Verdict, Finding]]


class Case(NamedTuple):
    """One action on one machine; the machine's own document is there."""

    verb: Verb
    vm: Vm
    facts: Facts
    settings: Mapping[str, object]
