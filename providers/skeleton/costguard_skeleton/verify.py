"""Ask from any machine what became of the machine of a receipt."""

from collections.abc import Mapping

from costguard.cloud.api import CloudError, Site
from costguard.plans import Result

from . import act
from .session import Session


def verify(site: Site, receipt: Mapping[str, str]) -> Result:
    """With the credentials of whoever asks. Raises CloudError."""
    instance, verb, proof = receipt.get("instance", ""), receipt.get("action", ""), receipt.get("request", "")
    if not instance or verb not in act.ENDED:
        raise CloudError("refused", "the receipt names no machine", code="receipt", hint="give it the whole receipt")
    session = Session(site, instance, site.environ.get("SKELETON_TOKEN", ""))
    return act.confirm(session, verb, Result("accepted", f"accepted ({proof})", proof) if proof else None)
