"""What a machine costs, in words: the owner's price, or an estimate with its kind, date and source."""

from costguard.notify.facts import Facts
from costguard.notify.words import money


def price(own: float | None, currency: str, found: Facts) -> str:
    """One sentence; empty when nothing is known. ``own`` is the price that the guard counts with.

    ``found`` is what the cloud says: the fields of `costguard.cloud.api.Price`.
    """
    amount, date, kind = found.number("amount"), found.text("date"), found.text("kind") or "list"
    if own is not None and (own != amount or kind == "limit"):
        return f"The machine costs {money(own, currency)} an hour."
    if amount is None or not date:
        return ""
    cost, region = money(amount, found.text("currency")), found.text("region")
    origin = f"(source: {found.text('source') or 'unknown'})"
    if kind == "limit":
        where = f" in {region}" if region else ""
        unknown = "what this machine costs itself is not known"
        return f"The machine costs at most {cost} an hour: an estimate, the price on {date}{where} {origin}; {unknown}."
    name = "Spot price" if kind == "spot" else "list price"
    return f"The machine costs {cost} an hour: an estimate, the {name} of {date} {origin}."
