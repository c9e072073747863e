"""What the firmware says, without a network. Source: cloud-init ds-identify; older images say "Google"."""

from collections.abc import Mapping

PRODUCTS = frozenset(("Google Compute Engine", "Google"))
"""What ``product_name`` says."""


def recognises(dmi: Mapping[str, str]) -> bool:
    """The product name is Google's."""
    return dmi.get("product_name", "") in PRODUCTS
