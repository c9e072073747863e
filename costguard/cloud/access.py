"""How to reach this machine and its cloud: where its files are, and what is installed and configured."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self


class HostPaths(NamedTuple):
    """Where the machine's files are, and whether this container stands for its host."""

    procfs: str = "/proc"
    sysfs: str = "/sys"
    devfs: str = "/dev"
    stands_for_host: bool = False

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Self:
        """The paths of the section ``[host]`` of a job; an action needs none of its other options."""
        return cls(**{name: section[name] for name in cls._fields if name in section})


class CloudAccess(NamedTuple):
    """How to reach this machine's cloud: the installed plug-ins, the section ``[cloud]``, and where its files are."""

    providers: tuple[str, ...]
    cloud: Mapping[str, object]
    host: HostPaths

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """From the effective configuration."""
        return cls(tuple(config.get("providers", ())), config.get("cloud", {}), HostPaths.of(config.get("host", {})))
