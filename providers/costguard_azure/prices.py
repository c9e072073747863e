"""List prices of whole machines, from the table beside this file: Linux, on demand, one hour."""

import csv
import os

from costguard.actions.provider import Identity, Price

_TABLE = os.path.join(os.path.dirname(__file__), "prices.csv")


def price(identity: Identity) -> Price | None:
    """The list price of this size; None for one that the table lacks, and for Spot, whose price nobody knows here.

    The table has one or two regions: ``Price.region`` says which one, the machine's own may cost more or less.
    """
    if identity.market == "spot":
        return None
    with open(_TABLE, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["type"].lower() == identity.type.lower()]
    here = [row for row in rows if row["region"] == identity.region] or rows
    if not here:
        return None
    row = here[0]
    source = row["source"]
    if identity.region and row["region"] != identity.region:
        source = f"{source}; the price of {row['region']}, not of {identity.region}"
    return Price(float(row["price"]), "USD", row["region"], row["date"], source)
