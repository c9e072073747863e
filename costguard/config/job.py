"""The job of the process that reloads the configuration, and its answer."""

from collections.abc import Mapping
from typing import NamedTuple


class ConfigureJob(NamedTuple):
    """The command line and the environment of the agent when it started."""

    arguments: Mapping[str, object]
    environment: Mapping[str, str]


class Configured(NamedTuple):
    """The effective configuration, or every error in it."""

    effective: Mapping[str, object] | None
    error: str
