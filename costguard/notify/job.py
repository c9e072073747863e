"""The job of the notification worker, and its answer."""

from collections.abc import Mapping
from typing import NamedTuple


class Draft(NamedTuple):
    """A message to compose from ``facts`` (`costguard.notify.compose`); with a ``title`` it is sent as it is."""

    id: str
    kind: str
    level: str = "info"
    facts: Mapping[str, object] = {}
    title: str | None = None
    body: str = ""
    dry_run: bool = False


class TellJob(NamedTuple):
    """One message, the channels to try, the section ``[notify]``, and the seconds for all channels together.

    ``pause``: seconds to wait before it leaves the machine. ``history``: the folder with the history, for the picture of a
    message that has one; empty for none.
    """

    message: Draft
    channels: tuple[str, ...]
    settings: Mapping[str, object] = {}
    deadline: float = 30.0
    pause: float = 0.0
    history: str = ""


class Told(NamedTuple):
    """Who was reached, by channel, and why other channels failed."""

    reached: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}
    error: str = ""
