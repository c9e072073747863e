"""What people ask of the running agent over its control socket."""

import json
import os
from typing import TYPE_CHECKING, Any

from costguard.agent import decode
from costguard.agent.digest import digest
from costguard.agent.milder import changes
from costguard.agent.ports import Request
from costguard.agent.report import report
from costguard.engine.events import AskHold, AskRelease, AskStop
from costguard.engine.state import ROOT

if TYPE_CHECKING:
    from costguard.agent.loop import Loop

LONGEST = 10 * 366 * 86400.0
"""Seconds of a hold that are passed on; what the configuration allows is far less."""

CHANGES_BURST, CHANGES_EVERY = 10, 60.0
"""Holds and releases of one user at once, and seconds per further one: each is told, and stands in the history."""


def encode(answer: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return json.dumps(answer, separators=(",", ":")).encode()


def owner(request: Request) -> str:
    """Who asks, as the kernel knows it: what a client calls itself proves nothing, and a user database may be a server that hangs."""
    return f"uid {request.uid}"


def serve(loop: "Loop", request: Request) -> str | None:
    """Answer one request. Words when that failed: whatever it was, it ends with the request of this user."""
    try:
        handle(loop, request)
    except Exception as error:  # noqa: BLE001 - the user's boundary: no request may cost the others their watch
        refuse(loop, request, "the agent could not handle this request; its journal says why")
        return f"BUG in costguard, please report it: a request failed: {type(error).__name__}: {error} ({place(error)})"
    return None


def place(error: Exception) -> str:
    """Where an exception came from, as file and line."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    return f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "?"


def handle(loop: "Loop", request: Request) -> None:
    """Answer one request, or hand it to the engine, which answers."""
    asked = decode.message(request.data) or {}
    command = asked.get("command")
    if command == "status":
        shown = status(loop)
        if request.uid in {0, os.getuid()}:
            shown["agent"]["digest"] = digest(loop.config)
        loop.host.answer(request.client, encode(shown))
    elif command == "flush":
        loop.host.answer(request.client, encode({"pending": loop.history.flush(loop.host.clock().boot)}))
    elif command in ("hold", "release") and (wait := _too_often(loop, request)):
        words = f"refused: uid {request.uid} has held and released too often; once more in {wait:.0f} s"
        refuse(loop, request, words)
    elif command == "hold":
        _hold(loop, request, asked)
    elif command == "release":
        now, may = loop.host.clock().boot, request.uid in _administrators()
        loop.ask(AskRelease(now, owner(request), request.client, request.uid, everything=may))
    elif command in ("stop", "reload", "detach", "attach"):  # a set cannot be asked about a list
        _administer(loop, request, command)
    else:
        refuse(
            loop,
            request,
            "unknown request; this agent knows status, flush, hold, release, stop, reload, detach and attach",
        )


def _hold(loop: "Loop", request: Request, asked: dict[str, Any]) -> None:
    seconds = asked.get("seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
        refuse(loop, request, "a hold needs a number of seconds above 0")
        return
    now = loop.host.clock()
    reason = _one_line(asked.get("reason"))
    length, name = float(min(seconds, LONGEST)), owner(request)
    loop.ask(AskHold(now.boot, length, name, reason, request.client, now.wall, request.uid))


def _one_line(words: object) -> str:
    """A user's own words on one line: a further one would look like the agent's on everybody's terminal."""
    return " ".join(str(words or "")[:200].split())


def _too_often(loop: "Loop", request: Request) -> float:
    """Seconds until this user may change something again; 0 when that is now."""
    return 0.0 if request.uid in _administrators() else loop.changes.take(request.uid, loop.host.clock().boot)


def _administrators() -> set[int]:
    """Root, and the user whom the agent runs as: both could end it anyway."""
    return {ROOT, os.getuid()}


def _administer(loop: "Loop", request: Request, command: str) -> None:
    if request.uid not in _administrators():
        refuse(loop, request, f"{command} is for root and for the user whom the agent runs as")
    elif command == "stop":
        loop.ask(AskStop(loop.host.clock().boot, owner(request), request.client))
    elif command == "reload":
        loop.host.answer(request.client, encode({"done": True, "words": loop.reload()}))
    else:
        loop.host.answer(request.client, encode({"done": True, "words": loop.drive(attach=command == "attach")}))


def refuse(loop: "Loop", request: Request, words: str) -> None:
    """Answer that nothing was done, and why."""
    loop.host.answer(request.client, encode({"done": False, "words": words}))


def status(loop: "Loop") -> dict[str, Any]:
    """The whole status: the decision, and how the agent itself is."""
    wall = loop.host.clock().wall
    decision = report(loop.last, loop.seen, loop.policy, loop.last_wall, loop.eyes.found)
    agent = {
        "pid": os.getpid(),
        "version": loop.config.get("version", ""),
        "state_dir": loop.config["paths"]["state"],
        "runtime_dir": loop.config["paths"]["runtime"],
        "source": loop.config.get("source"),
        "origin": loop.config.get("origin") or loop.config.get("source") or "the built-in defaults",
        "instance": loop.boot.instance,
        "interval": loop.policy.interval,
        "cloud": {**loop.cloud.facts, **loop.cloud.told},
        "place": {"host": loop.config["host"], "cloud": loop.config.get("cloud", {})},
        "configured": loop.configured._asdict(),
        "milder": changes(loop.configured, loop.ruled),
        "reader_restarts": max(0, loop.eyes.reader.restarts),
        "reader": "answers" if loop.eyes.reader.healthy else loop.eyes.reader.error or loop.eyes.reader.words,
        "unreaped": loop.host.unreaped("nvml"),
        "troubles": dict(loop.troubles),
        "ticked": loop.last_wall,
        "now": wall,
    }
    return {**decision, "agent": agent}
