"""The job of the resident process that asks the metadata service, and its answer to each read."""

from collections.abc import Mapping
from typing import NamedTuple

from costguard.cloud.access import CloudAccess


class CloudJob(NamedTuple):
    """``wait`` is how long to leave the service alone at first, in seconds: a fleet that boots together does not ask together."""

    place: CloudAccess
    wait: float = 0.0


class CloudAnswer(NamedTuple):
    """What the cloud says of this machine.

    Attributes:
        read: number of the read.
        cloud: name of the cloud, for people.
        identity: fields of `costguard.cloud.api.Identity`; None if not known yet.
        price: fields of `costguard.cloud.api.Price`; None for none.
        notices: of each its id, kind, seconds until it is due (None: undated) and text.
        asks: reasons of tags to keep the machine up, each with the seconds left (None: for good); None if tags were not read yet.
        settings: settings that tags relax, by name; None if tags were not read yet.
        nonsense: what is wrong with tags, in words.
        start: the command that starts this machine again; empty for none.
        resume: the command that resumes it after a hibernation, where that is another one.
        error: why the service could not be asked; the rest is then what was known before.
        none: why no plug-in speaks for this machine, which lasts: the firmware does not change.
    """

    read: int
    cloud: str
    identity: Mapping[str, object] | None
    price: Mapping[str, object] | None
    notices: tuple[tuple[str, str, float | None, str], ...]
    asks: tuple[tuple[str, float | None], ...] | None
    settings: Mapping[str, object] | None
    nonsense: tuple[str, ...]
    start: str = ""
    resume: str = ""
    error: str = ""
    none: str = ""


NOTHING_KNOWN = CloudAnswer(0, "", None, None, (), None, None, ())
"""Before anything was asked, and where there is nobody to ask."""
