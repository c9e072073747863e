"""One session about this instance; see `costguard.cloud.api.Machine`."""

from collections.abc import Mapping

from costguard.cloud.api import CloudError, Identity, Site, Ticket, Verb
from costguard.cloud.send import unsent
from costguard.plans import Plan, Result

from . import act
from .facts import Facts, gather
from .rules import plan
from .session import Session


class LambdaMachine:
    """The key is read; each call has a connection of its own."""

    def __init__(self, site: Site, identity: Identity) -> None:
        self._site = site
        self._identity = identity
        self._session = Session(site)

    def facts(self, verb: Verb) -> Facts:
        """One question."""
        del verb
        return gather(self._session, self._identity)

    def plan(self, verb: Verb, facts: Facts) -> Plan:
        """See `rules.plan`."""
        return plan(verb, facts, self._site.settings)

    def execute(self, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
        """What the plan allows, and nothing else."""
        settled = unsent(self.plan(verb, facts), act.seen(facts.status) if facts.status else None)
        return settled or act.execute(self._session, self._identity.instance, ticket)

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """See `act.confirm`."""
        del verb
        return act.confirm(self._session, self._identity.instance, recorded, ticket.deadline)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """The core does not ask for it: see `capabilities`."""
        del tags, within, dry
        raise CloudError("refused", "machines of Lambda Cloud have no tags that they can write", code="no_tags")
