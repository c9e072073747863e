"""The job of the resident process that sees what the GPUs do not show, and its answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.readers.host.sense import Sight


class HostJob(NamedTuple):
    """``senses``: the settings of each one that is switched on, by its name. The rest is where the machine's files are."""

    senses: Mapping[str, Any]
    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"


class HostAnswer(NamedTuple):
    """What each sense sees, by its name; or the number of the earlier answer that said exactly this."""

    read: int
    senses: Mapping[str, Sight] | int
