"""Ask from any machine that has a key of the account."""

from collections.abc import Mapping

from costguard.cloud.api import CloudError, Site
from costguard.plans import Result

from . import act
from .session import Session


def verify(site: Site, receipt: Mapping[str, str]) -> Result:
    """What became of the instance of a receipt. Raises CloudError."""
    instance, proof = receipt.get("instance", ""), receipt.get("request", "")
    if not instance:
        raise CloudError("refused", "the receipt names no instance", code="receipt", hint="give it the whole receipt")
    return act.confirm(Session(site), instance, Result("accepted", f"accepted ({proof})", proof) if proof else None)
