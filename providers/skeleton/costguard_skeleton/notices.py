"""What the cloud announces: that it takes the machine away, or interrupts it."""

from costguard.cloud.api import Notice, Site

from .metadata import ask


def notices(site: Site) -> tuple[Notice, ...]:
    """``at`` is the wall-clock moment, None where the cloud does not say. Raises CloudError."""
    listed = ask(site, "/notices").get("notices") or ()
    return tuple(Notice(str(each["id"]), str(each["kind"]), each["at"], str(each["words"])) for each in listed)
