"""The job of the resident process that asks the metadata service."""

from typing import NamedTuple

from costguard.cloud.access import CloudAccess


class CloudJob(NamedTuple):
    """``wait`` is how long to leave the service alone at first, in seconds: a fleet that boots together does not ask together."""

    place: CloudAccess
    wait: float = 0.0
