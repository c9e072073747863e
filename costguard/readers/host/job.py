"""The job of the resident process that sees what the GPUs do not show."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class HostJob(NamedTuple):
    """``senses``: the settings of each one that is switched on, by its name. The rest is where the machine's files are."""

    senses: Mapping[str, Any]
    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
