"""Small pieces of messages: money, lists, sentences. Pure."""

from collections.abc import Sequence

SHOWN = 8
"""Names in a list before the rest is only counted."""


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
