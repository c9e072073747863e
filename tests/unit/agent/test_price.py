"""What a plan hears of the machine's price reaches messages and the status; no budget counts with it."""

from typing import Any

from costguard.agent.loop import Loop
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, effective

SPOT = {"amount": 1.5, "currency": "EUR", "date": "2026-07-20", "source": "a cloud", "region": "north", "kind": "spot"}


def run(price: dict[str, Any], **policy: Any) -> Loop:
    """Half an hour of an agent whose plans hear this price."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3, until=1800.0)
    host.world.verdicts["stop"] = {"verdict": "go", "findings": [], "price": price}
    loop = Loop(host, effective(kill_action="stop", **policy), host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    return loop


def test_a_spot_price_is_shown_and_counted_with() -> None:
    """In the status as in each message."""
    loop = run(SPOT)
    report = loop.status()
    assert (report["price_per_hour"], report["currency"]) == (1.5, "EUR")
    assert report["agent"]["cloud"]["price"] == SPOT
    assert loop.cloud.message_facts == {"price": SPOT}


def test_the_owners_price_wins() -> None:
    """It is what the owner pays."""
    report = run(SPOT, price_per_hour=2.0, currency="USD").status()
    assert (report["price_per_hour"], report["currency"]) == (2.0, "USD")


def test_a_limit_is_shown_and_no_money_is_counted_with_it() -> None:
    """It would be too much, by nobody knows how much."""
    limit = {**SPOT, "kind": "limit"}
    report = run(limit).status()
    assert report["price_per_hour"] is None
    assert report["agent"]["cloud"]["price"] == limit


def test_a_budget_counts_with_the_owners_price_alone() -> None:
    """A deadline must not move with the market, nor rest on an estimate."""
    assert run(SPOT, budget=1.0).status()["deadline_at"] is None
    assert run(SPOT, budget=1.0, price_per_hour=1.0).status()["deadline_at"] is not None
