"""One EC2 instance that costguard runs on: the session behind `costguard.cloud.api.Machine`."""

from collections.abc import Mapping

from costguard.cloud.api import Identity, Site, Ticket, Verb
from costguard.plans import Plan, Result
from costguard_aws import act
from costguard_aws.facts import Facts, gather, refresh
from costguard_aws.mark import mark
from costguard_aws.rules import plan
from costguard_aws.session import Session


class Ec2:
    """The SDK is loaded, authenticated and, after `facts`, connected."""

    def __init__(self, site: Site, identity: Identity) -> None:
        self._site = site
        self._identity = identity
        self._session = Session(site, identity.region)

    def facts(self, verb: Verb) -> Facts:
        """See `facts.gather`."""
        return gather(self._session, self._site, self._identity, verb)

    def plan(self, verb: Verb, facts: Facts) -> Plan:
        """See `plan.plan`."""
        price = facts.spot_price
        return plan(verb, facts, self._site.settings)._replace(price=price._asdict() if price else {})

    def execute(self, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
        """See `act.execute`. The facts may be as old as the countdown; what may be lost with local disks is looked at again."""
        return act.execute(self._session, verb, refresh(facts, self._site), self._site.settings, ticket)

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """See `act.confirm`."""
        self._session.stamp(ticket)
        return act.confirm(self._session, self._identity.instance, verb, recorded, ticket.deadline)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """See `mark.mark`."""
        mark(self._session, self._identity.instance, tags, within, dry=dry)

    def close(self) -> None:
        """Close the connections; a worker just ends."""
        self._session.close()
