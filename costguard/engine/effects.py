"""What the engine wants done, as values. The shell starts them after it committed the new state."""

from collections.abc import Mapping
from typing import NamedTuple

Facts = Mapping[str, object]


class Tell(NamedTuple):
    """Send a message to people; an `Outcome` under ``id`` says whether anybody got it."""

    id: str
    kind: str
    level: str  # info | warning | critical
    facts: Facts


class Check(NamedTuple):
    """Gather the facts of an action and plan it, without any effect. Many machines may have to at one moment.

    ``since``: when this check was first due (boot clock); ``known``: an earlier plan says that the action may be carried
    out, so nobody waits for this one; ``tries``: rounds in a row that failed.
    """

    id: str
    action: str
    since: float = 0.0
    known: bool = False
    tries: int = 0


class Prepare(NamedTuple):
    """Start the worker of an attempt: plan, authenticate, then wait for `Go`."""

    id: str
    action: str
    incident: str


class Go(NamedTuple):
    """Release the waiting worker of this attempt. From here on nothing is half undone."""

    id: str
    action: str
    incident: str


class Abandon(NamedTuple):
    """End the waiting worker of this attempt; it has done nothing."""

    id: str


class Confirm(NamedTuple):
    """Ask the world what became of an attempt."""

    id: str
    attempt: str
    action: str
    incident: str


class Save(NamedTuple):
    """Run the owner's pre-stop hook within so many seconds: the cloud takes the machine away."""

    id: str
    action: str
    seconds: float


class Leave(NamedTuple):
    """End the guard itself with this exit code (``end_process``)."""

    code: int


class Answer(NamedTuple):
    """Answer a person who asked; ``done`` is False when it was refused."""

    client: int
    done: bool
    message: str


Effect = Tell | Check | Prepare | Go | Abandon | Confirm | Save | Leave | Answer
