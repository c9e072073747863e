"""List prices, with date and source. An unknown price is None, never a guess."""

from costguard.cloud.api import Identity, Price

_LIST = {"gpu.large": 4.0}


def price(identity: Identity) -> Price | None:
    """US dollars an hour."""
    amount = _LIST.get(identity.type)
    return Price(amount, "USD", identity.region, "2026-01-01", "price list of Skeleton Cloud") if amount else None
