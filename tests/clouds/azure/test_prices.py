"""List prices: a figure with region, date and source, or none."""

from costguard.actions.provider import Identity, Price
from costguard_azure import Azure


def price(size: str, region: str = "eastus", market: str = "on-demand") -> Price | None:
    return Azure().price(Identity("Azure", "i", region, "", size, market, {}, ()))


def test_known() -> None:
    """Sizes are compared without regard to case."""
    found = price("standard_nc24ads_a100_v4")
    assert found is not None
    assert (found.amount, found.currency, found.region, found.date) == (3.673, "USD", "eastus", "2026-06-18")
    assert "Azure Retail Prices" in found.source


def test_another_region_is_said() -> None:
    """The figure stays an estimate, and says whose it is."""
    found = price("Standard_NC4as_T4_v3", "westeurope")
    assert found is not None
    assert found.region == "eastus"
    assert "not of westeurope" in found.source


def test_unknown() -> None:
    """A size that the table lacks, and Spot, whose price changes."""
    assert price("Standard_D4s_v5") is None
    assert price("Standard_NC4as_T4_v3", market="spot") is None
