"""The pure decision: facts in, plan out. The rules stand in `vetoes` and `consequences`."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from costguard.actions.base import Finding, Plan, Verdict, without_promises, worst
from costguard.actions.provider import Verb
from costguard_aws import consequences, vetoes
from costguard_aws.facts import Facts

Rule = Callable[[Facts, Mapping[str, object]], Iterable[tuple[Verdict, Finding]]]

_ORDER: tuple[Verdict, ...] = ("refuse", "failed", "another", "consequences", "go")


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Every rule says what it finds; the gravest verdict counts, and the gravest findings come first."""
    rules: tuple[Rule, ...] = (*vetoes.RULES, *consequences.RULES)
    if vetoes.ends_already(facts):
        rules = (vetoes.this_machine, consequences.already)
    found = [finding for rule in rules for finding in rule(facts._replace(verb=verb), settings)]
    found.sort(key=lambda item: _ORDER.index(item[0]))
    made = Plan(
        action=verb,
        verdict=worst(*(verdict for verdict, _ in found)),
        findings=tuple(_once(finding for _, finding in found)),
        ends_bill=consequences.ends_bill(facts._replace(verb=verb), settings),
        keeps_disks=consequences.keeps_disks(verb, facts),
    )
    return without_promises(made)


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen = set()
    for finding in findings:
        if finding not in seen:
            seen.add(finding)
            yield finding
