"""The channel `wall`: every terminal of this machine that somebody uses."""

import os
import shutil
from collections.abc import Mapping, Sequence

from costguard import programs
from costguard.engine.words import several
from costguard.notify import terminal, terminals
from costguard.notify.message import AbsentError, DeliveryError, Message

NOBODY = "nobody is logged in at a terminal of this machine; the message is in `costguard history`"


def deliver(message: Message, settings: Mapping[str, object]) -> str:
    """Write to each terminal directly; returns which took the message and have a reader. Raises DeliveryError, AbsentError."""
    procfs, devfs = str(settings.get("procfs") or "/proc"), str(settings.get("devfs") or "/dev")
    limit = terminal.seconds(settings)
    paths = terminals.people(procfs, devfs)
    if not paths:
        raise AbsentError(NOBODY)
    failed = terminal.write_all(paths, message, limit * 0.6, procfs)
    reached = [path for path in paths if path not in failed]
    if terminal.DENIED in failed.values():
        _by_wall(message, limit * 0.3)
    if not reached:
        raise DeliveryError("; ".join(f"{path}: {reason}" for path, reason in failed.items())[:500])
    return counted(reached, devfs)


def counted(paths: Sequence[str], devfs: str = "/dev") -> str:
    """``2 terminals (pts/0, ttyS0)``."""
    names = [path.removeprefix(f"{devfs}/") for path in paths]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{several(len(names), 'terminal')} ({shown})"


def _by_wall(message: Message, limit: float) -> None:
    """Leave other users' terminals to wall(1), which may write to those in utmp; it does not report whether it did."""
    if shutil.which("wall") is None:
        return
    text = terminal.clean(message.text).encode("utf-8", "replace") + b"\n"
    try:
        programs.run(["wall"], limit * 0.8, text=text, grace=limit * 0.1)
    except OSError:
        return


def likely(procfs: str, devfs: str, uid: int) -> tuple[list[str], dict[str, str]]:
    """The terminals that the agent of user ``uid`` would reach now, and why it would not reach the others.

    Nothing is written. A terminal that only the agent may open counts as reachable.
    """
    paths = terminals.people(procfs, devfs)
    obstacles = {path: _obstacle(path, uid) for path in paths}
    obstacles |= dict.fromkeys(terminals.unread(paths, procfs), terminal.UNREAD)
    failed = {path: reason for path, reason in obstacles.items() if reason}
    return [path for path in paths if path not in failed], failed


def _obstacle(path: str, uid: int) -> str:
    reason = terminal.obstacle(path)
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return reason
    if uid not in {0, owner}:
        return terminal.DENIED
    return "" if reason == terminal.DENIED and os.geteuid() != uid else reason
