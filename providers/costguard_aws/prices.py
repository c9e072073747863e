"""List prices for whole machines, shared tenancy. Source on Spot: EC2 user guide "Spot Instances" (pricing)."""

from costguard.cloud.api import Identity, Price
from costguard.cloud.prices import listed


def price(identity: Identity) -> Price | None:
    """See `costguard.cloud.prices.listed`."""
    return listed(__file__, identity)
