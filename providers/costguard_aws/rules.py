"""The pure decision: facts in, plan out. The rules stand in `rules_vetoes` and `rules_bill`."""

from collections.abc import Mapping

from costguard.cloud import rules
from costguard.cloud.api import Verb
from costguard.plans import Plan
from costguard_aws import rules_bill, rules_vetoes
from costguard_aws.facts import Facts


def plan(verb: Verb, facts: Facts, settings: Mapping[str, object]) -> Plan:
    """Ask every rule."""
    facts = facts._replace(verb=verb)
    ends_bill, already = rules_bill.ends_bill(facts, settings), None
    if facts.instance is not None and rules_vetoes.ends_already(facts):
        already = rules.ends_already(f"EC2 shows this machine as {facts.instance.state}", ends_bill=ends_bill)
    return rules.decide(
        rules.PlanCase(verb, facts, settings),
        rules_vetoes.this_machine,
        (*rules_vetoes.RULES, *rules_bill.RULES),
        already=already,
        ends_bill=ends_bill,
        keeps_disks=verb != "terminate",
    )
