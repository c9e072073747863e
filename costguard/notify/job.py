"""The job of the notification worker, and its answer."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.cloud.access import CloudAccess

STORED = "secret:"
"""How a reference to the secret store of the machine's own cloud begins."""

UNASKED = "no channel"
"""Stands in for a channel if a message was sent to none: each wants other kinds, or nobody is left to hear it."""


SPARED = "whoever read the start gets the outcome, not each step"
"""Of a step in between, whose record says that those who would get it have read enough."""


class Draft(NamedTuple):
    """A message to compose from ``facts`` (`costguard.notify.compose`); with a ``title`` it is sent as it is."""

    id: str
    kind: str
    level: str = "info"
    facts: Mapping[str, object] = {}
    title: str | None = None
    body: str = ""
    dry_run: bool = False


STANDS_FOR = "stands_for"
"""The fact that names the earlier messages which this one has overtaken: it replaces them for whoever got none of them."""

STANDS_FOR_LIMIT = 8


RECORDED_BY = ("incident", "takes_back", "unreached_tries")
"""Facts by which the record of a message, and whom it was for, are found."""


def standing_alone(message: Draft) -> Draft:
    """The message without the text and facts that people read."""
    facts = {name: message.facts[name] for name in RECORDED_BY if name in message.facts}
    return message._replace(facts=facts, title=None, body="")


def standing_for(message: Draft, earlier: Sequence[Draft]) -> Draft:
    """The message, in place of earlier ones and of those that they replaced."""
    rows = [[one.id, one.kind, one.level, one.facts.get("incident"), one.facts.get("takes_back")] for one in earlier]
    before = [row for one in earlier if isinstance(of := one.facts.get(STANDS_FOR), list | tuple) for row in of]
    every = [*before, *rows]
    unlike = [row for number, row in enumerate(every) if row not in every[:number]]
    return message._replace(facts={**message.facts, STANDS_FOR: unlike[-STANDS_FOR_LIMIT:]}) if unlike else message


def overtaken_drafts(message: Draft) -> list[Draft]:
    """The messages that it overtook: as much of each as finds its record and its recipients."""
    rows = message.facts.get(STANDS_FOR)
    found = (
        [row for row in rows if isinstance(row, list | tuple) and len(row) == 5]
        if isinstance(rows, list | tuple)
        else []
    )
    return [
        Draft(str(name), str(kind), str(level), {"incident": incident, "takes_back": takes_back})
        for name, kind, level, incident, takes_back in found
    ]


class Earlier(NamedTuple):
    """A message that is still on its way to these channels; of its facts those by which its record is found."""

    message: Draft
    channels: tuple[str, ...]


class TellJob(NamedTuple):
    """One message, the channels to try, the section ``[notify]``, and the seconds for all channels together.

    ``pause``: seconds to wait before it leaves the machine. ``history``: the folder with the history, for the picture of a
    message that has one; empty for none. ``access``: what leads to the cloud, where a channel has its addresses in its store.
    ``again``: a further try, from which those who have taken it are spared. ``after``: what people must read before it. ``told``: the moment at which the guard began it, on the boot
    clock; 0 for now. ``guard``: the process that waits for the answer; 0 for whichever.
    """

    message: Draft
    channels: tuple[str, ...]
    settings: Mapping[str, object] = {}
    deadline: float = 30.0
    pause: float = 0.0
    history: str = ""
    access: CloudAccess | None = None
    again: bool = False
    after: tuple[Earlier, ...] = ()
    told: float = 0.0
    guard: int = 0


class RecallJob(NamedTuple):
    """The question what became of a message, or of all whose delivery was cut off, by the records in the folder ``runtime``.

    ``why``: what cut it off, in words. ``before``: what was written from this moment of the boot clock on is another guard's. ``channels``:
    to which the message was to go. ``history``: the folder with the history, from which is known what of them all is recorded; empty for none.
    ``resumed``: the records of earlier guards are those of this boot. ``digests``: those that the guard which asks still has to send;
    ``instance``: the machine of which others are told, since a disk may be a copy; empty for any.
    """

    runtime: str
    why: str
    before: float
    message: Draft | None = None
    channels: tuple[str, ...] = ()
    history: str = ""
    resumed: bool = True
    digests: tuple[str, ...] = ()
    instance: str = ""


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
"""How the reason ends when nobody knows what became of a message."""

NOT_SENT = "it was not sent"
"""How the reason ends when a message did not leave."""

EXPIRED = "not sent again, its time is over"
"""What became of a message whose moment has passed before it could be told."""

STOP_TRYING = b'{"overtaken":true}'
"""One more line to a worker that delivers: a later message contradicts this one, so no further try of it is begun."""

LEAVE_NOW = b'{"overtaken":true,"leave":true}'
"""The same, and the later message leaves at once, so this one waits no longer to leave before it."""

AGENT_ENDED = "the agent ended before it knew"


HELD_BACK = "held back for "
"""How the reason begins when a message is held back on purpose; it counts as told."""

FOR_DIGEST = f"{HELD_BACK}this hour's digest"
"""Why a message stays on the machine, in an hour that had many."""

DIGEST = "digest"
"""The fact that names the digest for which a message was held back; beside an id of its own, the text of a digest that is still owed."""


class DeliveryResult(NamedTuple):
    """Whom a message reached, by channel, and why other channels failed.

    ``answered``: the date at which each channel answered. ``waits``: the seconds from now for which a service wants to be left
    alone, by channel. ``beside``: facts that the message got where it was written. ``absent``: why channels led to nobody, which is
    no failure beside other channels. ``begun``: the moment on the boot clock at which the delivery began, by which it is known among
    all; 0 for none.
    """

    reached: Mapping[str, str] = {}
    failed: Mapping[str, str] = {}
    error: str = ""
    answered: Mapping[str, float] = {}
    waits: Mapping[str, float] = {}
    beside: Mapping[str, object] = {}
    absent: Mapping[str, str] = {}
    begun: float = 0.0

    def arrived(self, beyond: Container[str]) -> bool:
        """Whether people have it: where channels ``beyond`` the machine were asked, one of them must have taken it.

        A terminal takes what nobody reads, and whoever sits there is not the team that named a channel.
        """
        asked = any(name in beyond for name in (*self.reached, *self.failed))
        return any(name in beyond for name in self.reached) if asked else bool(self.reached)

    def among_those_present(self, kind: str) -> "DeliveryResult":
        """What came of a message once channels that led to nobody are left out: they failed only where there was no other.

        What happened to a task after its end has nobody left in it to hear; a warning that nobody heard stays one.
        """
        if kind == "test":  # which asks for each
            return self._replace(failed={**self.failed, **self.absent}, absent={})
        if self.reached or self.failed or not self.absent:
            return self._replace(absent={})
        if "task" in self.absent and kind != "warning":
            unheard = {UNASKED: f"nobody is left to hear it: {self.absent['task']}"}
            return DeliveryResult(unheard, answered=self.answered, begun=self.begun)
        return self._replace(failed=self.absent, absent={})
