"""The channel `wall`: every open terminal of this machine."""

import os
import shutil
from collections.abc import Mapping

from costguard import programs
from costguard.notify import terminal
from costguard.notify.message import DeliveryError, Message


def deliver(message: Message, settings: Mapping[str, object]) -> None:
    """Tell every logged-in user: through wall(1), else by writing to the terminals themselves."""
    devfs = str(settings.get("devfs") or "/dev")
    limit = terminal.seconds(settings)
    open_terminals = terminals(devfs)
    if not open_terminals:
        raise DeliveryError("no terminal is open on this machine, so nobody saw it", "it stands in `costguard history`")
    if _by_wall(message, limit / 2):
        return
    troubles = {path: terminal.write(path, message, limit / 2 / len(open_terminals)) for path in open_terminals}
    if all(troubles.values()):
        raise DeliveryError("; ".join(f"{path}: {words}" for path, words in troubles.items())[:500])


def terminals(devfs: str) -> list[str]:
    """The pseudo terminals that are open now."""
    folder = os.path.join(devfs, "pts")
    try:
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.isdigit()]
    except OSError:
        return []


def _by_wall(message: Message, limit: float) -> bool:
    if shutil.which("wall") is None:
        return False
    text = terminal.clean(message.text).encode("utf-8", "replace") + b"\n"
    try:
        ended = programs.run(["wall"], limit * 0.8, text=text, grace=limit * 0.1)
    except OSError:
        return False
    return ended.code == 0
