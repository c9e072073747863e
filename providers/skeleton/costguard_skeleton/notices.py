"""What the cloud announces: that it takes the machine away, or interrupts it."""

from costguard.cloud.api import CloudNotice, Site

from .metadata import ask


def notices(site: Site) -> tuple[CloudNotice, ...]:
    """``at`` is the wall-clock moment, None where the cloud does not say. Raises CloudError."""
    listed = ask(site, "/notices").get("notices") or ()
    return tuple(CloudNotice(str(each["id"]), str(each["kind"]), each["at"], str(each["words"])) for each in listed)
