"""List prices for whole machines, from ``prices.csv`` beside this file: Linux, on demand, shared tenancy, US dollars."""

import csv
import os

from costguard.cloud.api import Identity, Price


def price(identity: Identity) -> Price | None:
    """The list price of this region, else of the region that the table has; the answer says which.

    None for a type that the table lacks, and for a prepaid machine. A Spot machine never costs more than one on demand
    (EC2 user guide "Spot Instances", pricing): for it this is a limit.
    """
    if identity.market == "reserved":
        return None
    with open(os.path.join(os.path.dirname(__file__), "prices.csv"), encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["type"] == identity.type]
    row = next((row for row in rows if row["region"] == identity.region), rows[0] if rows else None)
    if row is None:
        return None
    found = Price(float(row["usd_per_hour"]), "USD", row["region"], row["date"], row["source"])
    return found._replace(kind="limit") if identity.market == "spot" else found
