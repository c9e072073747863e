"""One session about one machine; see `costguard.cloud.api.Machine`."""

from collections.abc import Mapping

from costguard.cloud.api import Identity, Site, Ticket, Verb
from costguard.cloud.send import unsent
from costguard.plans import Plan, Result

from . import act, facts
from .facts import Facts
from .mark import mark
from .rules import plan
from .session import login


class SkeletonMachine:
    """Loaded, authenticated and connected."""

    def __init__(self, site: Site, identity: Identity) -> None:
        self._site = site
        self._identity = identity
        self._session = login(site, identity)

    def facts(self, verb: Verb) -> Facts:
        """All that looks."""
        del verb
        return facts.gather(self._session, self._site, self._identity)

    def plan(self, verb: Verb, known: Facts) -> Plan:
        """Pure."""
        return plan(verb, known, self._site.settings)

    def execute(self, verb: Verb, known: Facts, ticket: Ticket) -> Result:
        """What the plan allows, made again from facts that may be as old as the countdown."""
        known = facts.refresh(known, self._site)
        settled = unsent(self.plan(verb, known), facts.seen(known.status))
        return settled or act.execute(self._session, verb, known, ticket)

    def confirm(self, verb: Verb, ticket: Ticket, recorded: Result | None) -> Result:
        """What the cloud shows."""
        return act.confirm(self._session, verb, recorded, ticket.deadline)

    def mark(self, tags: Mapping[str, str], within: float, *, dry: bool = False) -> None:
        """Write tags of this machine."""
        mark(self._session, tags, within, dry=dry)
