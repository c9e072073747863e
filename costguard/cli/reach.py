"""Find the agent that a verb talks to, and send it a request."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from costguard.cli import options
from costguard.config.paths import resolve
from costguard.errors import REFUSED, CostguardError
from costguard.host.client import AgentUnreachableError, ask
from costguard.host.control import Reply
from costguard.host.lock import runtime_of
from costguard.process.wire import build

_AGAIN_SECONDS = 0.1

F = TypeVar("F", bound=Callable[..., object])


def state_dir(command: F) -> F:
    """The option that names the agent, as `run` takes it."""
    text = "Talk to the agent that was started with this folder."
    return click.option("--state-dir", callback=options.folder, metavar="FOLDER", help=text)(command)


RESTART_SECONDS = 15.0
"""For so long a change waits for an agent that was killed: systemd starts it again after 5 s, and a countdown goes on then."""


def request(
    folder: str | None, command: Mapping[str, object], timeout: float = 10.0, wait: float = 0.0
) -> dict[str, Any]:
    """The reply of this user's agent or, when there is none, of the machine's (root's).

    ``wait``: seconds for which one that was killed may be started again. Raises CostguardError (exit code 3) when no agent answers.
    """
    end, told = time.monotonic() + wait, False
    while True:
        tried, killed = [], False
        for runtime in places(folder, os.environ, os.geteuid()):
            try:
                return ask(runtime, dict(command), timeout)
            except AgentUnreachableError as error:
                if not isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                    raise
                killed |= isinstance(error.__cause__, ConnectionRefusedError)  # it would have taken its socket with it
                tried.append(runtime)
        if not killed or time.monotonic() >= end:
            raise _nobody(folder, tried, killed=killed)
        if not told:
            click.echo(f"costguard was killed; waiting up to {wait:.0f} s until it is started again", err=True)
        told = True
        time.sleep(_AGAIN_SECONDS)


def status(folder: str | None, timeout: float = 10.0) -> dict[str, Any]:
    """The agent's report."""
    return request(folder, {"command": "status"}, timeout)


def _nobody(folder: str | None, tried: Sequence[str], *, killed: bool) -> CostguardError:
    where = " or ".join(tried) + (f" (for the folder {_looked(folder)})" if folder else "")
    if killed:
        text = f"no costguard agent is running at {where}: it was killed. Once it is started again, a countdown goes on"
        return CostguardError(text, "see `systemctl status costguard`, and ask again once it runs", REFUSED)
    text = f"no costguard agent is running at {where}; without one, nothing is done when the GPUs are idle"
    return CostguardError(
        text, "start one with `costguard run`, or name the folder of another one with --state-dir", REFUSED
    )


def _looked(folder: str) -> str:
    """The folder as it was resolved, and whether this user may read it."""
    state = resolve(folder, os.environ).state
    shut = os.path.isdir(state) and not os.access(state, os.R_OK | os.X_OK)
    return f"{state}, which this user may not read" if shut else state


def change(
    folder: str | None,
    command: Mapping[str, object],
    timeout: float = 10.0,
    *,
    hint: str = "see `costguard status` for what happens now",
) -> str:
    """As `request`, for a change: the agent's words. Raises CostguardError (exit code 3, ``hint``) also when the agent refuses it.

    Without a reply it is unknown whether the change took effect.
    """
    try:
        reply = build(Reply, request(folder, command, timeout, RESTART_SECONDS))
    except AgentUnreachableError as error:
        message = f"{error.message}; the {command['command']} may still take effect"
        raise CostguardError(message, "see `costguard status` once it answers", REFUSED) from error
    if not reply.done:
        raise CostguardError(reply.words, hint, REFUSED)
    return reply.words


def places(folder: str | None, environment: Mapping[str, str], uid: int) -> list[str]:
    """The runtime directories to try, in order."""
    found = [resolve(folder, environment, uid).runtime]
    if uid != 0 and not folder:
        found.append("/run/costguard")  # root's agent; any user may connect to its socket
    elif uid != 0 and folder:
        found.append(found[0].replace(resolve(None, environment, uid).runtime, "/run/costguard", 1))
    if folder and (signed := runtime_of(resolve(folder, environment, uid).state)) and signed not in found:
        found.append(signed)  # another user's agent, whose socket is among those of that user
    return found
