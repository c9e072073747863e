"""List prices of whole machines, and the limit that the owner of a Spot machine has set.

Source on Spot: Azure documentation "Use Azure Spot Virtual Machines" (it costs at most the standard price, or the owner's maximum).
"""

import time
from collections.abc import Mapping
from typing import Any

from costguard.cloud.api import Identity, Price
from costguard.cloud.prices import listed


def price(identity: Identity) -> Price | None:
    """See `costguard.cloud.prices.listed`."""
    return listed(__file__, identity)


def owners_limit(found: Mapping[str, Any], region: str) -> Price | None:
    """The most that the owner pays for a Spot machine (``billingProfile.maxPrice``); None for -1, which is no limit."""
    profile = (found.get("properties") or {}).get("billingProfile")
    most = profile.get("maxPrice") if isinstance(profile, dict) else None
    if isinstance(most, bool) or not isinstance(most, int | float) or most <= 0:
        return None
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return Price(float(most), "USD", region, date, "billingProfile.maxPrice of the machine", "limit")
