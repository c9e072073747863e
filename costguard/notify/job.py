"""The job of the notification worker, and its answer."""

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from costguard.cloud.access import CloudAccess

STORED = "secret:"
"""How a reference to the store of the machine's own cloud begins."""

UNASKED = "no channel"
"""In the place of a channel, where a message was sent to none because each has asked for other kinds."""


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
    message that has one; empty for none. ``access``: what leads to the cloud, where a channel has its addresses in its store.
    ``again``: a further try, from which those who have taken it are spared. ``waits``: the seconds that the service of a channel
    has asked to be left alone.
    """

    message: Draft
    channels: tuple[str, ...]
    settings: Mapping[str, object] = {}
    deadline: float = 30.0
    pause: float = 0.0
    history: str = ""
    access: CloudAccess | None = None
    again: bool = False
    waits: Mapping[str, float] = {}


class JudgeJob(NamedTuple):
    """Where the addresses of each channel stand; nothing is sent to them."""

    references: Mapping[str, str] = {}


class Judged(NamedTuple):
    """What is wrong with the addresses of channels, in words; ``partly``: channels of which others are fine."""

    bad: Mapping[str, str] = {}
    partly: tuple[str, ...] = ()
    error: str = ""


def access(config: Mapping[str, Any]) -> CloudAccess | None:
    """What leads to the machine's cloud; None where no channel needs it."""
    channels = config.get("notify", {}).get("channels")
    named = channels.values() if isinstance(channels, Mapping) else ()
    stored = any(str(one.get("urls", "")).startswith(STORED) for one in named if isinstance(one, Mapping))
    return CloudAccess.of(config) if stored else None


HOLDS = frozenset(("held", "hold_ended"))
"""Kinds of messages that say whether somebody holds the machine: read in their order, and before the next warning."""

IN_DOUBT = "it may have arrived"
"""How it ends in words why nobody knows what became of a message."""

UNHEARD = f"no answer before the agent ended; {IN_DOUBT}"


HELD_BACK = "held back for "
"""How the reason begins for which a message was kept on purpose; it counts as told."""


class Told(NamedTuple):
    """Who was reached, by channel, and why other channels failed.

    ``answered``: the date at which each channel answered. ``waits``: the seconds from now for which a service wants to be left
    alone, by channel. ``beside``: facts that the message got where it was written.
    """

    reached: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}
    error: str = ""
    answered: Mapping[str, float] = {}
    waits: Mapping[str, float] = {}
    beside: Mapping[str, object] = {}

    def arrived(self, beyond: Container[str]) -> bool:
        """Whether people have it: where channels ``beyond`` the machine were asked, one of them must have taken it.

        A terminal takes what nobody reads, and whoever sits there is not the team that named a channel.
        """
        asked = any(name in beyond for name in (*self.reached, *self.failed))
        return any(name in beyond for name in self.reached) if asked else bool(self.reached)
