"""Small pieces of sentences: durations, shares, times, money, lists. Pure."""

import time
from collections.abc import Sequence

SHOWN = 8
"""Names in a list before the rest is only counted."""


def span(seconds: float) -> str:
    """A duration as people say it: 45 s, 10 min, 1 h 30 min, 3 days."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = round(whole / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h" + (f" {rest} min" if rest else "")
    days, rest = divmod(round(minutes / 60), 24)
    return f"{days} days" + (f" {rest} h" if rest else "")


def share(value: float) -> str:
    """A share of 1 in percent, without digits that say nothing."""
    return f"{value * 100:.3g} %"


def clock(wall: float, *, with_date: bool) -> str:
    """A date of the epoch in this machine's time zone, which is named."""
    return time.strftime("%Y-%m-%d %H:%M %Z" if with_date else "%H:%M %Z", time.localtime(wall))


def money(amount: float, currency: str) -> str:
    """An amount, always an estimate."""
    return f"about {amount:.2f} {currency or 'USD'}"


def listed(names: Sequence[str]) -> str:
    """Names with commas and an *and*; a long list is cut and counted."""
    if len(names) > SHOWN:
        return ", ".join(names[:SHOWN]) + f" and {len(names) - SHOWN} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""


def sentence(text: str) -> str:
    """With a capital letter and a full stop; empty stays empty."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
