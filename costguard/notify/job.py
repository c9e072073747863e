"""What the guard asks of the notification worker, and what that answers."""

from collections.abc import Mapping
from typing import NamedTuple


class Draft(NamedTuple):
    """A message to be composed from ``facts`` (`costguard.notify.compose`); with a ``title`` it is sent as it is."""

    id: str
    kind: str
    level: str = "info"
    facts: Mapping[str, object] = {}
    title: str | None = None
    body: str = ""
    dry_run: bool = False


class TellJob(NamedTuple):
    """One message over these channels, under the section ``[notify]``, in ``deadline`` seconds for all together."""

    message: Draft
    channels: tuple[str, ...]
    settings: Mapping[str, object] = {}
    deadline: float = 30.0


class Told(NamedTuple):
    """Whom each channel reached, in words, and why others failed."""

    reached: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}
    error: str = ""
