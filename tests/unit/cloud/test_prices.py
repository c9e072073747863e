"""A list price: of the machine's own type, of its region where the table has it, and of nothing that is paid in advance."""

from pathlib import Path

import pytest

from costguard.cloud.api import Identity, Price
from costguard.cloud.prices import listed

TABLE = """type,region,usd_per_hour,date,source
big-1,east,3.5,2026-01-02,the list
big-1,west,4.0,2026-01-03,the list
small-1,east,0.5,2026-01-04,another list
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / "prices.csv").write_text(TABLE)
    return str(tmp_path / "__init__.py")


def machine(kind: str, region: str, market: str = "on-demand") -> Identity:
    return Identity("Nimbus", "i-1", region, "", kind, market, {}, ())


@pytest.mark.parametrize(
    ("kind", "region", "price"),
    [
        ("big-1", "west", Price(4.0, "USD", "west", "2026-01-03", "the list")),
        ("BIG-1", "east", Price(3.5, "USD", "east", "2026-01-02", "the list")),
        ("big-1", "north", Price(3.5, "USD", "east", "2026-01-02", "the list; the price of east, not of north")),
        ("small-1", "", Price(0.5, "USD", "east", "2026-01-04", "another list")),
        ("huge-1", "east", None),
    ],
)
def test_the_price_of_a_type(module: str, kind: str, region: str, price: Price | None) -> None:
    """Another region's price says that it is one; a type that is not in the table has none."""
    assert listed(module, machine(kind, region)) == price


def test_what_the_market_makes_of_it(module: str) -> None:
    """A Spot machine costs no more; what is reserved is paid whether it runs or not."""
    spot = listed(module, machine("big-1", "east", "spot"))
    assert spot is not None
    assert (spot.amount, spot.kind) == (3.5, "limit")
    assert listed(module, machine("big-1", "east", "reserved")) is None


def test_a_table_may_spell_a_type_otherwise(module: str) -> None:
    """Then the plug-in says how."""
    price = listed(module, machine("other", "east"), "Small-1")
    assert price is not None
    assert price.amount == 0.5
