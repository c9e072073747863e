"""The cost of time: always an estimate, with price, currency and origin. Pure."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

HOUR = 3600.0
LARGEST = 1e9
"""A higher price per hour counts as unknown."""

GIVEN = "as set"

_TYPED = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Z]{3})?")


class Rate(NamedTuple):
    """A price per hour. ``origin`` says where it comes from; with ``limit`` the machine costs at most that."""

    per_hour: float
    currency: str
    origin: str
    limit: bool = False

    def cost(self, seconds: float) -> float:
        """The cost of this many seconds."""
        return seconds / HOUR * self.per_hour

    def words(self, seconds: float) -> str:
        """``about 12.30 USD``; ``at most 12.30 USD`` where only a limit is known."""
        return f"{'at most' if self.limit else 'about'} {self.cost(seconds):.2f} {self.currency}"

    @property
    def hourly(self) -> str:
        """``7.00 USD an hour, list price of 2026-07-20``."""
        return f"{'at most ' if self.limit else ''}{self.per_hour:.2f} {self.currency} an hour, {self.origin}"

    @property
    def source(self) -> str:
        """The same, marked as an estimate."""
        return f"an estimate: {self.hourly}"

    def estimate(self, seconds: float) -> dict[str, object]:
        """The cost for programs."""
        return {"amount": round(self.cost(seconds), 4)} | self.facts

    @property
    def facts(self) -> dict[str, object]:
        """What an amount at this rate is based on."""
        return {
            "currency": self.currency, "estimate": True, "at_most": self.limit, "price_per_hour": self.per_hour,
            "price_source": self.origin,
        }  # fmt: skip


def given(text: str) -> Rate:
    """Parse what a person typed: ``2.50`` or ``2.50 EUR``; raises ValueError with a message for that person."""
    match = _TYPED.fullmatch(text.strip())
    amount = float(match[1]) if match else 0.0
    if match is None or not 0.0 < amount < LARGEST:
        raise ValueError(f"{text!r} is not a price per hour; allowed: 2.50 or '2.50 EUR'")
    return Rate(amount, match[2] or "USD", GIVEN)


def rate(own: object, currency: object, found: Mapping[str, Any]) -> Rate | None:
    """The owner's price, or the cloud's; None where neither is known.

    ``own`` is the hourly price that the guard uses, ``found`` the fields of `costguard.cloud.api.Price`.
    """
    amount, kind = _amount(found.get("amount")), str(found.get("kind") or "list")
    count = _amount(own)
    if count is not None and (count != amount or kind == "limit"):
        return Rate(count, str(currency or "USD"), GIVEN)
    if amount is None or not found.get("date"):
        return None
    name = {"spot": "Spot price", "limit": "on-demand price or limit"}.get(kind, "list price")
    where = f" in {found['region']}" if kind == "limit" and found.get("region") else ""
    origin = f"{name} of {found['date']}{where} (source: {found.get('source') or 'unknown'})"
    return Rate(amount, str(found.get("currency") or "USD"), origin, kind == "limit")


def _amount(value: object) -> float | None:
    """A plausible price; never 0, which would mean that the machine is free."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < LARGEST:
        return None
    return float(value)
