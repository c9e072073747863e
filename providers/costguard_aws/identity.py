"""Which instance this is: two facts must agree before anything else is asked.

Sources: EC2 user guide "Identify EC2 instances" (on Nitro the firmware's board asset tag is the instance
id), "Instance identity documents", and the instance metadata categories (``instance-life-cycle``).
"""

import re
from collections.abc import Mapping

from costguard.cloud import hints
from costguard.cloud.api import CloudError, Identity
from costguard_aws.metadata import Imds

_ID = re.compile(r"i-[0-9A-Za-z]+")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+")
_MARKETS = {
    "on-demand": "on-demand",
    "spot": "spot",
    "scheduled": "reserved",
    "capacity-block": "reserved",
    "interruptible-capacity-reservation": "reserved",
}


def identify(imds: Imds, dmi: Mapping[str, str]) -> Identity:
    """Raises CloudError: ``changed`` when two facts disagree, ``internal`` when the document is none."""
    document = _document(imds)
    instance = document["instanceId"]
    evidence = (f"metadata: identity document of {instance}", _second(imds, dmi, instance))
    lifecycle = (imds.text("meta-data/instance-life-cycle") or "").strip()
    return Identity(
        cloud="AWS",
        instance=instance,
        region=document["region"],
        zone=document.get("availabilityZone", ""),
        type=document.get("instanceType", ""),
        market=_MARKETS.get(lifecycle, ""),
        details={
            "account": document.get("accountId", ""),
            "image": document.get("imageId", ""),
            "lifecycle": lifecycle,
        },
        evidence=evidence,
    )


def _document(imds: Imds) -> dict[str, str]:
    found = imds.json("dynamic/instance-identity/document")
    if found is None:
        message = "the metadata service has no identity document; another cloud may imitate EC2 here"
        hint = f"check cloud.provider and cloud.metadata_endpoint, {hints.THEN_DOCTOR}"
        raise CloudError("internal", message, code="identity_absent", hint=hint)
    texts = {key: value for key, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}
    if not _ID.fullmatch(texts.get("instanceId", "")) or not _REGION.fullmatch(texts.get("region", "")):
        message = "the identity document names no instance and region of EC2"
        raise CloudError("internal", message, code="identity_garbage", hint=hints.METADATA)
    return texts


def _second(imds: Imds, dmi: Mapping[str, str], instance: str) -> str:
    """The second fact, in words. The firmware's is better: it does not come from the network."""
    tag = dmi.get("board_asset_tag", "")
    if tag.startswith("i-"):
        source, other = "firmware: board asset tag", tag
    else:
        source, other = "metadata: instance-id", (imds.text("meta-data/instance-id") or "").strip()
    if other == instance:
        return f"{source} {other}"
    message = f"the identity document says {instance}, {source} says {other or 'nothing'}: neither is touched"
    raise CloudError("changed", message, code="identity_disagrees", hint=hints.METADATA)
