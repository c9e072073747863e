"""What the metadata server announces, and what owners write into it.

Sources: Compute Engine documentation "Query metadata server for maintenance event notices" (the values of
``maintenance-event``; with GPUs an hour ahead) and "Spot VMs" (``preempted`` turns TRUE, about 30 seconds are
left). Neither says at which moment.
"""

from collections.abc import Mapping

from costguard.cloud.api import CloudNotice, Site
from costguard_gcp.metadata import Metadata

TAG_PREFIX = "costguard"
"""Only these attributes leave the metadata server: others hold start-up scripts, keys and passwords."""

_STOPPED = (
    "Google Cloud stops this machine for host maintenance: within the hour if it has GPUs, else within a minute. It "
    "starts again only with automatic restart"
)
_MAINTENANCE = {
    "MIGRATE_ON_HOST_MAINTENANCE": (
        "freeze",
        "Google Cloud moves this machine to another host: it pauses for a moment",
    ),
    "TERMINATE_ON_HOST_MAINTENANCE": ("stop", _STOPPED),
}


def notices(site: Site) -> tuple[CloudNotice, ...]:
    """Both announcements, each one small request. Raises CloudError."""
    metadata = Metadata(site)
    found = []
    if (metadata.text("instance/preempted") or "").upper() == "TRUE":
        message = "Google Cloud reclaims this Spot machine: it is stopped or deleted, as its owner chose, in about 30 s"
        found.append(CloudNotice("preempted", "stop", None, message))
    event = (metadata.text("instance/maintenance-event") or "NONE").upper()
    if event != "NONE":
        kind, message = _MAINTENANCE.get(event, ("stop", f"Google Cloud announces `{event}` for this machine"))
        found.append(CloudNotice(f"maintenance-event:{event}", kind, None, message))
    return tuple(found)


def tags(site: Site) -> Mapping[str, str]:
    """The instance's attributes whose name begins with ``costguard``. Labels are not in the metadata. Raises CloudError."""
    found = Metadata(site).tree("instance/attributes/")
    return {key: str(value) for key, value in found.items() if key.lower().startswith(TAG_PREFIX)}
