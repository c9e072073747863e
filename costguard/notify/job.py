"""The job of the notification worker, and its answer."""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from costguard.cloud.access import CloudAccess

STORED = "secret:"
"""How a reference to the secret store of the machine's own cloud begins."""

UNASKED = "no channel"
"""In place of a channel's name when a message was sent to no channel: none wants its kind, or nobody is left to hear it."""

SPARED = "whoever read the start gets the outcome, not each step"
"""Why an intermediate step was sent to no channel: all that want it have read that the action begins."""

LATER_CAME_FIRST = "a later message, which says how it stands, was there before this one"
"""Why a message was sent to no channel: the one that contradicts it was faster."""

LEFT_OUT = "not_sent"
"""Key of ``DeliveryResult.beside``: by channel, why a message that went to others was not sent there."""


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
"""Name of the fact that lists earlier messages which this one overtakes: a channel that missed one of them gets this one instead."""

STANDS_FOR_LIMIT = 8
"""At most so many are listed: the newest."""

RECORDED_BY = ("incident", "takes_back", "unreached_tries")
"""Facts that decide which record a message has, and which channels want it."""


def stub_of(message: Draft) -> Draft:
    """A stub of the message: only what its record and its channels are found by, no text."""
    facts = {name: message.facts[name] for name in RECORDED_BY if name in message.facts}
    return message._replace(facts=facts, title=None, body="")


def with_replaced(message: Draft, earlier: Sequence[Draft]) -> Draft:
    """The message with a list of those it replaces: the ``earlier`` ones, and what they replaced themselves."""
    rows = [[one.id, one.kind, one.level, one.facts.get("incident"), one.facts.get("takes_back")] for one in earlier]
    before = [row for one in earlier if isinstance(of := one.facts.get(STANDS_FOR), list | tuple) for row in of]
    every = [*before, *rows]
    distinct = [row for number, row in enumerate(every) if row not in every[:number]]
    return message._replace(facts={**message.facts, STANDS_FOR: distinct[-STANDS_FOR_LIMIT:]}) if distinct else message


def replaced_drafts(message: Draft) -> list[Draft]:
    """Stubs of the messages that this one replaces."""
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
    """A message that is still on its way to ``channels``, reduced to what finds its record."""

    message: Draft
    channels: tuple[str, ...]


class TellJob(NamedTuple):
    """Deliver one message.

    Attributes:
        message: what to deliver.
        channels: names of the channels to try.
        settings: the section ``[notify]``.
        deadline: seconds for all channels together.
        pause: seconds to wait before the message leaves the machine.
        history: folder of the history, from which pictures are drawn; empty for no picture.
        access: how to reach the cloud, if a channel's addresses are in its secret store.
        again: a further try, which skips the addresses that took an earlier one.
        after: earlier messages that must arrive first.
        since: when the guard began it, on the boot clock; 0 for now.
        guard: id of the process that waits for the answer; 0 if unknown.
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
    since: float = 0.0
    guard: int = 0


class RecallJob(NamedTuple):
    """Find out what became of one message, or of every message whose delivery was cut off.

    Attributes:
        runtime: folder of the delivery records.
        why: what cut the delivery off, in words.
        before: moment on the boot clock; later records belong to another guard, and are ignored.
        message: the message in question; None for all.
        channels: the channels of that message.
        history: folder of the history, which shows what is already known; empty for none.
        resumed: whether the records of earlier guards are from this boot.
        digests: ids of digests that the asking guard still sends itself.
        instance: the machine whose owed digests are wanted, since the disk may be a copy of another one's; empty for any.
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
    """Check addresses without sending anything. ``references``: by channel, where its addresses are stored (``file:/PATH``)."""

    references: Mapping[str, str] = {}


class Judged(NamedTuple):
    """What is wrong with addresses, by channel; ``partly``: the channels among them that also have good addresses."""

    bad: Mapping[str, str] = {}
    partly: tuple[str, ...] = ()
    error: str = ""


def access(config: Mapping[str, Any]) -> CloudAccess | None:
    """How to reach the machine's cloud, if a channel in the configuration has its addresses in the secret store; else None."""
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


class Overtaking(NamedTuple):
    """A further line to a worker that delivers: a ``later`` message contradicts its own, so begin no further try.

    ``leave``: the later one leaves at once: send this one now if it still waits for its pause to end. ``later`` is None from an older
    version of costguard; of its facts it has those by which its record is found.
    """

    leave: bool = False
    later: Draft | None = None


AGENT_ENDED = "the agent ended before it knew"
"""Why the outcome of a delivery is not known."""

HELD_BACK = "held back for "
"""How the reason begins when a message is held back on purpose; such a message counts as sent."""

FOR_DIGEST = f"{HELD_BACK}this hour's digest"
"""Why a message is not sent by itself in an hour with many messages."""

DIGEST = "digest"
"""Key of ``DeliveryResult.beside``: the id of the digest for which a message was held back; in the answer about a digest that is still owed, its text."""


class DeliveryResult(NamedTuple):
    """What became of a message. All mappings are by channel.

    Attributes:
        reached: whom the message reached.
        failed: why the channel did not take it.
        error: why nothing was tried at all; empty otherwise.
        answered: date of the channel's answer.
        waits: seconds from now for which the service asks to be left alone.
        beside: facts added by the worker (id, title, body, processes), for the history; not by channel.
        absent: why the channel leads to nobody; a failure only if there is no other channel.
        begun: when the delivery began, on the boot clock, which identifies it; 0 for none.
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
        """Whether people have the message: if channels ``beyond`` this machine were tried, one of those must have taken it.

        A terminal alone does not count then: perhaps nobody reads it, or not the team that configured the channel.
        """
        asked = any(name in beyond for name in (*self.reached, *self.failed))
        return any(name in beyond for name in self.reached) if asked else bool(self.reached)

    def tells_of(self, channel: str) -> bool:
        """Whether it says what became of the message on this channel."""
        return any(channel in found for found in (self.reached, self.failed, self.absent))

    def among_those_present(self, kind: str) -> "DeliveryResult":
        """The result without absent channels: they count as failed only if no other channel was tried.

        After a task has ended nobody is left in it to hear a message, so that is no failure either, except for a warning.
        """
        if kind == "test":  # a test reports on every channel
            return self._replace(failed={**self.failed, **self.absent}, absent={})
        if self.reached or self.failed or not self.absent:
            return self._replace(absent={})
        if "task" in self.absent and kind != "warning":
            unheard = {UNASKED: f"nobody is left to hear it: {self.absent['task']}"}
            return DeliveryResult(unheard, answered=self.answered, begun=self.begun)
        return self._replace(failed=self.absent, absent={})
