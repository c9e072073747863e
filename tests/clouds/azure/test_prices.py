"""List prices: a figure with region, date and source, or none."""

import pytest

from costguard.cloud.api import Identity, Price
from costguard_azure import Azure
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure, World


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
    """A size that the table lacks."""
    assert price("Standard_D4s_v5") is None


def test_spot_costs_no_more_than_on_demand() -> None:
    """Its own price changes, and is not known here."""
    listed, spot = price("Standard_NC4as_T4_v3"), price("Standard_NC4as_T4_v3", market="spot")
    assert listed is not None
    assert (listed.kind, spot) == ("list", listed._replace(kind="limit"))


@pytest.mark.parametrize(("most", "found"), [(0.25, 0.25), (-1.0, None), (0.0, None)])
def test_the_owners_own_limit_comes_with_the_plan(most: float, found: float | None) -> None:
    """The machine is taken away before it costs more; -1 is the price on demand."""
    with FakeAzure(World(priority="Spot", eviction="Deallocate", max_price=most)) as azure:
        machine = AzureMachine(azure.site(), Azure().identify(azure.site()))
        made = machine.plan("stop", machine.facts("stop")).price
        machine.close()
    assert made.get("amount") == found
    assert not made or (made["kind"], made["currency"]) == ("limit", "USD")


def test_a_machine_on_demand_has_no_limit_of_its_own() -> None:
    """Its price is the list's."""
    with FakeAzure(World(max_price=0.25)) as azure:
        machine = AzureMachine(azure.site(), Azure().identify(azure.site()))
        assert machine.plan("stop", machine.facts("stop")).price == {}
        machine.close()
