"""A session about one machine, as the core sees it."""

from collections.abc import Mapping

from costguard.cloud.api import Identity, Site, Ticket, Verb
from costguard.cloud.send import unsent
from costguard.plans import Plan, Result
from costguard_gcp import act
from costguard_gcp import facts as looks
from costguard_gcp.facts import Facts
from costguard_gcp.mark import mark
from costguard_gcp.rules import plan
from costguard_gcp.session import Api, connect


class GcpMachine:
    """The machine that costguard runs on, through the API."""

    def __init__(self, site: Site, identity: Identity, api: Api) -> None:
        self.site = site
        self.identity = identity
        self.api = api

    @classmethod
    def open(cls, site: Site, identity: Identity) -> "GcpMachine":
        """Load the SDK and sign in. Raises CloudError."""
        return cls(site, identity, connect(site, identity))

    def facts(self, verb: Verb) -> Facts:
        """See `costguard_gcp.facts.gather`."""
        return looks.gather(self.api, self.site, self.identity, verb)

    def plan(self, verb: Verb, facts: Facts) -> Plan:
        """See `costguard_gcp.rules.plan`."""
        return plan(verb, facts, self.site.settings)

    def execute(self, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
        """Act on what the plan allows, and on nothing else. The facts may be as old as the countdown."""
        facts = looks.refresh(facts, self.site)
        decided = self.plan(verb, facts)
        settled = unsent(decided, act.seen(facts.vm.status) if facts.vm else None)
        if settled is not None:
            return settled
        return act.execute(self.api, verb, facts, ticket, discard=_may_discard(decided))

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """See `costguard_gcp.act.confirm`."""
        since = act.moment(recorded.receipt.get("accepted", "")) if recorded else 0.0
        return act.confirm(self.api, verb, self.identity.instance, recorded, since, ticket.deadline)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """See `costguard_gcp.mark`."""
        mark(self.api, self.site, self.identity, tags, within, dry=dry)


def _may_discard(decided: Plan) -> bool:
    """Whether the plan told that local data is lost; anything else would have been refused."""
    return any(finding.code == "local_data_lost" for finding in decided.findings)
