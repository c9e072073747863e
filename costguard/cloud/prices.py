"""List prices of whole machines, from the table ``prices.csv`` that a plug-in has beside its modules."""

import os

from costguard.cloud.api import Identity, Price


def listed(module: str, identity: Identity, kind: str = "") -> Price | None:
    """The list price per hour: Linux, on demand, US dollars; None for a type that the table lacks, and for prepaid machines.

    ``module`` is the ``__file__`` of the plug-in's module, ``kind`` the type where the table spells it otherwise than
    `Identity.type`. Without a row for the machine's region, another region's price is given, and ``source`` says so.
    A Spot machine costs no more than one on demand: for it this is a ``limit``.
    """
    if identity.market == "reserved":
        return None
    import csv  # here, for the resident reader imports this module and asks no price

    wanted = (kind or identity.type).lower()
    with open(os.path.join(os.path.dirname(module), "prices.csv"), encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["type"].lower() == wanted]
    row = next((row for row in rows if row["region"] == identity.region), rows[0] if rows else None)
    if row is None:
        return None
    source = row["source"]
    if identity.region and row["region"] != identity.region:
        source = f"{source}; the price of {row['region']}, not of {identity.region}"
    amount = float(row["usd_per_hour"])
    return Price(amount, "USD", row["region"], row["date"], source, "limit" if identity.market == "spot" else "list")
