"""What people ask of the running agent over its control socket."""

import os
from typing import Any, NamedTuple, Protocol

from costguard.agent import decode, journal
from costguard.engine.events import AskHold, AskRelease, AskStop, Event
from costguard.engine.state import ROOT
from costguard.host.limits import Limit
from costguard.host.ports import Host, Request
from costguard.process.wire import to_line

LONGEST_SECONDS = 10 * 366 * 86400.0
"""Of a hold that are passed on; what the configuration allows is far less."""

CHANGES_BURST, CHANGES_EVERY = 10, 60.0
"""Holds and releases of one user at once, and seconds per further one: each is told, and stands in the history."""


class Said(NamedTuple):
    """The answer to a wish: whether it was granted, and words for whoever asked."""

    done: bool
    words: str


class Agent(Protocol):
    """What a request may need of the agent."""

    @property
    def host(self) -> Host:
        """Its clock, and the way back to the client."""

    def ask(self, event: Event) -> None:
        """Hand a wish to the engine, which answers."""

    def reload(self) -> str:
        """Have the configuration checked; words for whoever asked."""

    def drive(self, *, attach: bool) -> str:
        """Take up the driver, or let go of it; words for whoever asked."""

    def flush(self) -> bool:
        """Have the history written; whether something is still under way."""

    def status(self, *, private: bool = False) -> dict[str, Any]:
        """Everything that `costguard status` shows; ``private``: also what only administrators may know."""


class Requests:
    """Answers each request, or hands it to the engine."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._changes = Limit(CHANGES_BURST, CHANGES_EVERY)

    def serve(self, request: Request) -> str | None:
        """Answer one request. Words when that failed: whatever it was, it ends with the request of this user."""
        try:
            self._handle(request)
        except Exception as error:  # noqa: BLE001 - the user's boundary: no request may cost the others their watch
            self._refuse(request, "the agent could not handle this request; its journal says why")
            return journal.bug(error, "a request failed: ")
        return None

    def _handle(self, request: Request) -> None:
        asked = decode.message(request.data) or {}
        command = asked.get("command")
        if command == "status":
            self._agent.host.answer(request.client, to_line(self._agent.status(private=_administers(request))))
        elif command == "flush":
            self._agent.host.answer(request.client, to_line({"pending": self._agent.flush()}))
        elif command in ("hold", "release") and (wait := self._too_often(request)):
            words = f"refused: uid {request.uid} has held and released too often; once more in {wait:.0f} s"
            self._refuse(request, words)
        elif command == "hold":
            self._hold(request, asked)
        elif command == "release":
            everything = _administers(request)
            self._agent.ask(AskRelease(self._now, owner(request), request.client, request.uid, everything=everything))
        elif command in ("stop", "reload", "detach", "attach"):  # a set cannot be asked about a list
            self._administer(request, command)
        else:
            known = "status, flush, hold, release, stop, reload, detach and attach"
            self._refuse(request, f"unknown request; this agent knows {known}")

    def _hold(self, request: Request, asked: dict[str, Any]) -> None:
        seconds = asked.get("seconds")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            self._refuse(request, "a hold needs a number of seconds above 0")
            return
        now = self._agent.host.clock()
        length, reason = float(min(seconds, LONGEST_SECONDS)), _one_line(asked.get("reason"))
        self._agent.ask(AskHold(now.boot, length, owner(request), reason, request.client, now.wall, request.uid))

    def _administer(self, request: Request, command: str) -> None:
        if not _administers(request):
            self._refuse(request, f"{command} is for root and for the user whom the agent runs as")
        elif command == "stop":
            self._agent.ask(AskStop(self._now, owner(request), request.client))
        else:
            words = self._agent.reload() if command == "reload" else self._agent.drive(attach=command == "attach")
            self._agent.host.answer(request.client, to_line(Said(True, words)))

    def _too_often(self, request: Request) -> float:
        """Seconds until this user may change something again; 0 when that is now."""
        return 0.0 if _administers(request) else self._changes.take(request.uid, self._now)

    def _refuse(self, request: Request, words: str) -> None:
        """Answer that nothing was done, and why."""
        self._agent.host.answer(request.client, to_line(Said(False, words)))

    @property
    def _now(self) -> float:
        return self._agent.host.clock().boot


def owner(request: Request) -> str:
    """Who asks, as the kernel knows it: what a client calls itself proves nothing, and a user database may be a server that hangs."""
    return f"uid {request.uid}"


def _administers(request: Request) -> bool:
    """Whether it comes from root or from the user whom the agent runs as: both could end it anyway."""
    return request.uid in {ROOT, os.getuid()}


def _one_line(words: object) -> str:
    """A user's own words on one line: a further one would look like the agent's on everybody's terminal."""
    return " ".join(str(words or "")[:200].split())
