"""What is asked of the process that reads the configuration anew, and what it answers."""

from collections.abc import Mapping
from typing import NamedTuple


class ConfigureJob(NamedTuple):
    """What the command line and the environment said at the start of the agent."""

    arguments: Mapping[str, object]
    environment: Mapping[str, str]


class Configured(NamedTuple):
    """The effective configuration, or every error in it."""

    effective: Mapping[str, object] | None
    error: str
