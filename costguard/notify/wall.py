"""The channel `wall`: every terminal of this machine at which somebody sits."""

import os
import shutil
from collections.abc import Mapping, Sequence

from costguard import programs
from costguard.engine.words import several
from costguard.notify import terminal, terminals
from costguard.notify.message import DeliveryError, Message

NOBODY = "nobody is logged in at a terminal of this machine, so nobody saw it"


def deliver(message: Message, settings: Mapping[str, object]) -> str:
    """Write to each terminal by itself; how many took the message and have somebody who reads it."""
    procfs, devfs = str(settings.get("procfs") or "/proc"), str(settings.get("devfs") or "/dev")
    limit = terminal.seconds(settings)
    paths = terminals.people(procfs, devfs)
    if not paths:
        raise DeliveryError(NOBODY, "it stands in `costguard history`")
    troubles = terminal.write_all(paths, message, limit * 0.6, procfs)
    reached = [path for path in paths if path not in troubles]
    if any(words == terminal.DENIED for words in troubles.values()):
        _by_wall(message, limit * 0.3)
    if not reached:
        raise DeliveryError("; ".join(f"{path}: {words}" for path, words in troubles.items())[:500])
    return counted(reached, devfs)


def counted(paths: Sequence[str], devfs: str = "/dev") -> str:
    """``2 terminals (pts/0, ttyS0)``."""
    names = [path.removeprefix(f"{devfs}/") for path in paths]
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f"{several(len(names), 'terminal')} ({shown})"


def _by_wall(message: Message, limit: float) -> None:
    """Other people's terminals are for wall(1), which may write to those in utmp; it does not say whether it did."""
    if shutil.which("wall") is None:
        return
    text = terminal.clean(message.text).encode("utf-8", "replace") + b"\n"
    try:
        programs.run(["wall"], limit * 0.8, text=text, grace=limit * 0.1)
    except OSError:
        return


def likely(procfs: str, devfs: str, uid: int) -> tuple[list[str], dict[str, str]]:
    """Who would be reached now by the agent of this user, found as a delivery finds it, and why the others would not.

    Nothing is written. What only the agent may open is taken for open.
    """
    paths = terminals.people(procfs, devfs)
    found = {path: _obstacle(path, uid) for path in paths}
    found |= dict.fromkeys(terminals.unread(paths, procfs), terminal.UNREAD)
    troubles = {path: words for path, words in found.items() if words}
    return [path for path in paths if path not in troubles], troubles


def _obstacle(path: str, uid: int) -> str:
    words = terminal.obstacle(path)
    try:
        owner = os.stat(path).st_uid
    except OSError:
        return words
    if uid not in {0, owner}:
        return terminal.DENIED
    return "" if words == terminal.DENIED and os.geteuid() != uid else words
