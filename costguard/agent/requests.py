"""Requests to the running agent over its control socket."""

import os
from typing import Any, Protocol

from costguard.agent import decode, journal
from costguard.engine.events import AskExtend, AskHold, AskRelease, AskStop, Event
from costguard.engine.state import ROOT
from costguard.host.control import Reply
from costguard.host.limits import TokenBucket
from costguard.host.ports import Host, Request
from costguard.process.wire import to_line

HOLD_LIMIT_SECONDS = 10 * 366 * 86400.0
"""A longer hold is cut before the engine sees it; what the configuration allows is far less."""

CHANGES_BURST, CHANGES_EVERY_SECONDS = 10, 60.0
"""Rate limit on holds and releases of one user: each is announced to people and kept in the history."""


class Agent(Protocol):
    """What a request may need of the agent."""

    @property
    def host(self) -> Host:
        """Its clock, and the way back to the client."""

    def ask(self, event: Event) -> None:
        """Hand a request to the engine, which answers it."""

    def reload(self) -> str:
        """Have the configuration checked. Returns a message for the user."""

    def switch_driver(self, *, attach: bool) -> str:
        """Attach to the GPU driver, or detach from it. Returns a message for the user."""

    def flush(self) -> bool:
        """Have the history written; whether something is still to be written."""

    def start_options(self) -> dict[str, Any]:
        """The options, and the variables of its environment, with which it was started."""

    def status(self, *, private: bool = False) -> dict[str, Any]:
        """Everything that `costguard status` shows; ``private``: also what only administrators may see."""


class Requests:
    """Answers each request, or hands it to the engine."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._changes = TokenBucket(CHANGES_BURST, CHANGES_EVERY_SECONDS)

    def serve(self, request: Request) -> str | None:
        """Answer one request. Returns a message when costguard itself failed, else None."""
        try:
            self._handle(request)
        except Exception as error:  # noqa: BLE001 - the user's boundary: no request may end the watch for the others
            self._refuse(request, "internal error while handling this request; see the agent's journal")
            return journal.bug(error, "a request failed: ")
        return None

    def _handle(self, request: Request) -> None:
        message = decode.message(request.data) or {}
        command = message.get("command")
        if command == "status":
            self._agent.host.answer(request.client, to_line(self._agent.status(private=_administers(request))))
        elif command == "begun" and _administers(request):
            self._agent.host.answer(request.client, to_line(self._agent.start_options()))
        elif command == "flush":
            self._agent.host.answer(request.client, to_line({"pending": self._agent.flush()}))
        elif command in ("hold", "release") and (wait := self._too_often(request)):
            self._refuse(request, f"refused: too many holds and releases by uid {request.uid}; retry in {wait:.0f} s")
        elif command == "hold":
            self._hold(request, message)
        elif command == "release":
            everything = _administers(request)
            self._agent.ask(AskRelease(self._now, owner(request), request.client, request.uid, everything=everything))
        elif command in ("stop", "reload", "detach", "attach"):  # a tuple: `command` may be unhashable
            self._administer(request, command)
        else:
            known = "status, flush, hold, release, stop, reload, detach and attach"
            self._refuse(request, f"unknown request; this agent knows {known}")

    def _hold(self, request: Request, message: dict[str, Any]) -> None:
        seconds = message.get("seconds")
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            self._refuse(request, "a hold needs a number of seconds above 0")
            return
        now = self._agent.host.clock()
        length, reason = float(min(seconds, HOLD_LIMIT_SECONDS)), _one_line(message.get("reason"))
        asked = (now.boot, length, owner(request), reason, request.client, now.wall, request.uid)
        past_deadline = message.get("past_deadline") is True
        self._agent.ask(AskExtend(*asked, suspended=now.boot - now.mono) if past_deadline else AskHold(*asked))

    def _administer(self, request: Request, command: str) -> None:
        if not _administers(request):
            self._refuse(request, f"only root and the user that the agent runs as may {command}")
        elif command == "stop":
            self._agent.ask(AskStop(self._now, owner(request), request.client))
        else:
            message = (
                self._agent.reload() if command == "reload" else self._agent.switch_driver(attach=command == "attach")
            )
            self._agent.host.answer(request.client, to_line(Reply(True, message)))

    def _too_often(self, request: Request) -> float:
        """Seconds until this user may hold or release again; 0 when that is now."""
        return 0.0 if _administers(request) else self._changes.take(request.uid, self._now)

    def _refuse(self, request: Request, message: str) -> None:
        """Answer that nothing was done, and why."""
        self._agent.host.answer(request.client, to_line(Reply(False, message)))

    @property
    def _now(self) -> float:
        return self._agent.host.clock().boot


def owner(request: Request) -> str:
    """The user as the kernel knows it: a name from the client proves nothing, and a user database may hang."""
    return f"uid {request.uid}"


def _administers(request: Request) -> bool:
    """Whether it comes from root or from the user that the agent runs as: both could end it anyway."""
    return request.uid in {ROOT, os.getuid()}


def _one_line(text: object) -> str:
    """A user's text on one line, where a second one would look like the agent's own, and without the marks of its commands."""
    shown = "".join(c if c.isprintable() else " " for c in str(text or "")[:200])
    return " ".join(shown.replace("`", "'").split())
