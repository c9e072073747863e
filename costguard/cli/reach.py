"""Find the agent that a verb talks to, and ask it."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from costguard.cli import options
from costguard.config.paths import resolve
from costguard.errors import REFUSED, CostguardError
from costguard.host.client import AgentUnreachableError, ask
from costguard.host.lock import runtime_of

F = TypeVar("F", bound=Callable[..., object])


def state_dir(command: F) -> F:
    """The option that names the agent, as `run` takes it."""
    text = "Talk to the agent that was started with this folder."
    return click.option("--state-dir", callback=options.folder, metavar="FOLDER", help=text)(command)


def request(folder: str | None, asked: Mapping[str, object], timeout: float = 10.0) -> dict[str, Any]:
    """The answer of the agent of this user or, when there is none, of the machine's (root's).

    Raises CostguardError (exit code 3) when no agent answers.
    """
    tried: list[str] = []
    for runtime in places(folder, os.environ, os.geteuid()):
        try:
            return ask(runtime, dict(asked), timeout)
        except AgentUnreachableError as error:
            if not isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                raise
            tried.append(runtime)
    where = " or ".join(tried)
    hint = "start one with `costguard run`, or name another one's folder with --state-dir"
    named = f" (of the folder {_looked(folder)})" if folder else ""
    words = f"no costguard agent runs at {where}{named}; unless another one does, nothing stops this machine when it is idle"
    raise CostguardError(words, hint, REFUSED)


def _looked(folder: str) -> str:
    """The folder as it was understood, and whether this user sees into it."""
    state = resolve(folder, os.environ).state
    shut = os.path.isdir(state) and not os.access(state, os.R_OK | os.X_OK)
    return f"{state}, which this user may not look into" if shut else state


def change(folder: str | None, asked: Mapping[str, object], timeout: float = 10.0) -> dict[str, Any]:
    """As `request`, for what changes something: without an answer, nobody knows whether it did."""
    try:
        return request(folder, asked, timeout)
    except AgentUnreachableError as error:
        words = f"{error.message}; the {asked['command']} may take effect all the same"
        raise CostguardError(words, "see with `costguard status` once it answers", REFUSED) from error


def places(folder: str | None, environment: Mapping[str, str], uid: int) -> list[str]:
    """The runtime directories to try, in order."""
    found = [resolve(folder, environment, uid).runtime]
    if uid != 0 and not folder:
        found.append("/run/costguard")  # where root's agent is; its socket is open to everybody
    elif uid != 0 and folder:
        found.append(found[0].replace(resolve(None, environment, uid).runtime, "/run/costguard", 1))
    if folder and (signed := runtime_of(resolve(folder, environment, uid).state)) and signed not in found:
        found.append(signed)  # another user's agent keeps its socket where that user's agents do
    return found
