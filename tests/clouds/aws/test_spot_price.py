"""What a Spot instance costs now: asked with the plan, worth nothing when it cannot be had."""

import pytest

from costguard_aws.testing import FakeMachine, Nature
from costguard_aws.testing.api import SpotPrice
from tests.clouds.aws.conftest import Launch, looked

OLD, NOW, NEXT = "2020-01-31T18:00:00Z", "2021-01-31T18:00:00Z", "2099-01-31T18:00:00Z"


@pytest.fixture
def spot(launch: Launch) -> FakeMachine:
    here = launch("g5g.xlarge", Nature(spot="persistent"))
    here.api.spot_prices = [
        SpotPrice("g5g.xlarge", "us-east-1a", "0.2000", NOW),
        SpotPrice("g5g.xlarge", "us-east-1a", "0.1000", OLD),
        SpotPrice("g5g.xlarge", "us-east-1b", "0.3000", NOW),
        SpotPrice("g5g.xlarge", "us-east-1a", "0.9000", NOW, "Windows"),
        SpotPrice("g5.xlarge", "us-east-1a", "0.4000", NOW),
    ]
    return here


def test_it_is_the_newest_of_this_type_and_zone(spot: FakeMachine) -> None:
    """With date, source and kind, as messages show it."""
    _, made = looked(spot)
    assert made.price == {
        "amount": 0.2, "currency": "USD", "region": "us-east-1a", "date": NOW,
        "source": "ec2:DescribeSpotPriceHistory, Linux/UNIX", "kind": "spot",
    }  # fmt: skip
    spot.api.spot_prices.append(SpotPrice("g5g.xlarge", "us-east-1a", "0.2500", NEXT))
    assert looked(spot)[1].price["amount"] == 0.25


@pytest.mark.parametrize("trouble", ["denied", "throttle", "none"])
def test_without_it_the_plan_is_the_same(spot: FakeMachine, trouble: str) -> None:
    """The right is optional: a stop does not hang on what the machine costs."""
    _, before = looked(spot)
    if trouble == "denied":
        spot.api.denied.add("DescribeSpotPriceHistory")
    elif trouble == "throttle":
        spot.api.fail("throttle", "DescribeSpotPriceHistory", 99)
    else:
        spot.api.spot_prices.clear()
    _, made = looked(spot)
    assert made.price == {}
    assert made == before._replace(price={})


def test_nobody_asks_for_a_machine_on_demand(here: FakeMachine) -> None:
    """Its price is the list's."""
    _, made = looked(here)
    assert made.price == {}
    assert not here.api.calls("DescribeSpotPriceHistory")
