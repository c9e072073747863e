"""Everything the plan needs, gathered without an effect. What could not be had is None or in ``unknown``, never a default."""

import time
from typing import NamedTuple

from costguard.cloud.age import uptime
from costguard.cloud.api import Identity, Site
from costguard.cloud.send import Look

from . import disks
from .session import Session

BUDGET_SECONDS = 20.0
"""Seconds for all questions of one plan."""


class Facts(NamedTuple):
    """``rights`` are what the caller may do; ``uptime`` is in seconds."""

    identity: Identity
    status: str
    rights: frozenset[str]
    protected: bool
    scratch: str
    uptime: float | None = None


def gather(session: Session, site: Site, identity: Identity) -> Facts:
    """Raises CloudError where nothing can be known."""
    found = session.look(time.monotonic() + BUDGET_SECONDS)
    rights = frozenset(map(str, found.get("rights") or ()))
    protected = found.get("protected") is not False  # what does not say so may be protected
    return Facts(identity, str(found["status"]), rights, protected, disks.state(site), uptime(site.procfs))


def refresh(facts: Facts, site: Site) -> Facts:
    """Look again, right before the request, at what costs none: the use of local disks."""
    return facts._replace(scratch=disks.state(site))


def seen(status: str) -> Look:
    """What a status of the machine says of its end."""
    return Look(
        f"Skeleton Cloud shows {status}", status in {"stopping", "stopped", "gone", "asleep"}, f"status {status}"
    )
