"""List prices of whole machines, from the table beside this file: Linux, on demand, one hour."""

import csv
import os
import time
from collections.abc import Mapping
from typing import Any

from costguard.cloud.api import Identity, Price

_TABLE = os.path.join(os.path.dirname(__file__), "prices.csv")


def price(identity: Identity) -> Price | None:
    """The list price of this size, for Spot as its limit; None for one that the table lacks.

    Source: Azure documentation "Use Azure Spot Virtual Machines" (without a maximum price of its owner a Spot machine
    costs at most the standard price).

    The table has one or two regions: ``Price.region`` says which one, the machine's own may cost more or less.
    """
    with open(_TABLE, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["type"].lower() == identity.type.lower()]
    here = [row for row in rows if row["region"] == identity.region] or rows
    if not here:
        return None
    row = here[0]
    source = row["source"]
    if identity.region and row["region"] != identity.region:
        source = f"{source}; the price of {row['region']}, not of {identity.region}"
    found = Price(float(row["price"]), "USD", row["region"], row["date"], source)
    return found._replace(kind="limit") if identity.market == "spot" else found


def owners_limit(found: Mapping[str, Any], region: str) -> Price | None:
    """The most that the owner pays for a Spot machine (``billingProfile.maxPrice``); None for -1, which is no limit."""
    profile = (found.get("properties") or {}).get("billingProfile")
    most = profile.get("maxPrice") if isinstance(profile, dict) else None
    if isinstance(most, bool) or not isinstance(most, int | float) or most <= 0:
        return None
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return Price(float(most), "USD", region, date, "billingProfile.maxPrice of the machine", "limit")
