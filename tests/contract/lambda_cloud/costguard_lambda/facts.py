"""Everything the plan needs: one document of the API."""

import datetime as dt
import time
from typing import NamedTuple

from costguard.cloud.api import CloudError, Identity, Price

from .session import Session

BUDGET_SECONDS = 15.0
"""Seconds for all questions of one plan."""

ENDS = frozenset(("terminating", "terminated", "preempted"))
"""States of an instance that somebody has ended."""


class Facts(NamedTuple):
    """``status`` is empty where the account has no such instance. ``obstacle`` is why the API would not terminate it now."""

    identity: Identity
    status: str
    address: str = ""
    obstacle: str = ""
    file_systems: tuple[str, ...] = ()
    price: Price | None = None


def gather(session: Session, identity: Identity) -> Facts:
    """Ask once. Raises CloudError where nothing can be known."""
    try:
        found = session.instance(identity.instance, time.monotonic() + BUDGET_SECONDS)
    except CloudError as error:
        if error.trouble != "gone":
            raise
        return Facts(identity, "")
    actions = found.get("actions")
    may = actions.get("terminate") if isinstance(actions, dict) else None
    blocked = isinstance(may, dict) and may.get("available") is False
    cents = (found.get("instance_type") or {}).get("price_cents_per_hour")
    return Facts(
        identity,
        str(found["status"]),
        str(found.get("private_ip") or ""),
        str(may.get("reason_description") or may.get("reason_code") or "no reason") if blocked and may else "",
        tuple(map(str, found.get("file_system_names") or ())),
        _price(cents, identity.region),
    )


def _price(cents: object, region: str) -> Price | None:
    if not isinstance(cents, int) or isinstance(cents, bool) or cents <= 0:
        return None
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return Price(cents / 100, "USD", region, today, "Lambda Cloud API, price_cents_per_hour")
