"""One session about one machine, as the core sees it."""

import time
from collections.abc import Mapping

from costguard.cloud.api import Identity, Site, Ticket, Verb
from costguard.cloud.send import unsent
from costguard.plans import Plan, Result
from costguard_azure import act, mark, rules
from costguard_azure.facts import Facts, gather, refresh
from costguard_azure.session import open_session


class AzureMachine:
    """See `costguard.cloud.api.Machine`."""

    def __init__(self, site: Site, who: Identity) -> None:
        self._site = site
        self._identity = who
        self._session = open_session(site, who)
        interval = site.settings.get("confirm_interval")
        self._poll = float(interval) if isinstance(interval, int | float) else act.POLL_SECONDS

    def facts(self, verb: Verb) -> Facts:
        """See `costguard_azure.facts.gather`."""
        return gather(self._session, self._site, self._identity)

    def plan(self, verb: Verb, facts: Facts) -> Plan:
        """See `costguard_azure.rules.plan`."""
        limit = facts.vm.limit if facts.vm else None
        return rules.plan(verb, facts, self._site.settings)._replace(price=limit._asdict() if limit else {})

    def execute(self, verb: Verb, facts: Facts, ticket: Ticket) -> Result:
        """Act, when the plan allows it and the cloud has said that this is the machine.

        The facts may be as old as the countdown; what may be lost with the local disk is looked at again.
        """
        begun = time.monotonic()
        facts = refresh(facts, self._site, self._identity)
        while facts.vm is None and facts.young and time.monotonic() - begun + self._poll < ticket.deadline:
            time.sleep(self._poll)
            left = ticket.deadline - (time.monotonic() - begun)
            facts = gather(self._session, self._site, self._identity, left)
        settled = unsent(self.plan(verb, facts), act.seen(facts.vm.power) if facts.vm else None)
        if settled is not None:
            return settled
        left = ticket.deadline - (time.monotonic() - begun)
        return act.execute(self._session, verb, facts, ticket._replace(deadline=left))

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """See `costguard_azure.act.confirm`."""
        return act.confirm(self._session, verb, ticket, recorded)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """See `costguard_azure.mark.mark`."""
        mark.mark(self._session, tags, within, dry=dry)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()
