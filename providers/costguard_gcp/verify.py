"""Ask Google Cloud from any machine what became of the machine of a receipt."""

from collections.abc import Mapping

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Site, Verb
from costguard.plans import Result
from costguard_gcp import act
from costguard_gcp.places import Where
from costguard_gcp.session import connect_from_outside

_VERBS: dict[str, Verb] = {"stop": "stop", "terminate": "terminate", "hibernate": "hibernate"}


def verify(site: Site, receipt: Mapping[str, str]) -> Result:
    """Ask from any machine. The receipt names the machine by ``resource`` and ``instance``, see the identity's details."""
    parts = receipt.get("resource", "").split("/")
    if len(parts) != 6 or not receipt.get("instance"):
        text = "the receipt names no machine (`resource` and `instance`)"
        raise CloudError("refused", text, code="receipt", hint=hints.RECEIPT)
    api = connect_from_outside(site, Where(parts[1], parts[3], parts[5]))
    verb = _VERBS.get(receipt.get("action", ""), "stop")
    proof = receipt.get("request", "")
    kind = "operation" if proof.startswith("operation") else "request"  # the latter where only the machine showed it
    recorded = Result("accepted", f"accepted ({kind} {proof})", proof) if proof else None
    return act.confirm(api, verb, receipt["instance"], recorded, since=act.moment(receipt.get("accepted", "")))
