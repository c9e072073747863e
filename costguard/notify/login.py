"""Keep the warning of a running countdown in a file of the runtime directory, for people who log in.

A link in ``/etc/motd.d`` shows it (pam_motd(8)); docs/notify.md says how to make it.
"""

import os
from contextlib import suppress

from costguard.host.files import LOGIN_MESSAGE as FILE
from costguard.notify.message import Message
from costguard.notify.terminal import clean

COUNTDOWN = frozenset(("warning", "countdown"))
"""Kinds after which a countdown runs."""

ENDS = frozenset(
    ("cancelled", "held", "acting", "would_act", "cannot", "failed", "done", "closed", "came_back", "state_lost", "notice",
     "unguarded")
)  # fmt: skip
"""Kinds after which no countdown runs."""


def keep(message: Message, runtime: str) -> None:
    """Write or remove the file. It is only an aid, so a failure to write it is ignored."""
    if not runtime or message.dry_run:
        return
    path = os.path.join(runtime, FILE)
    with suppress(OSError):
        if message.kind in COUNTDOWN:
            _write(path, f"costguard: {clean(message.text)}\n")
        elif message.kind in ENDS:
            os.unlink(path)


def _write(path: str, text: str) -> None:
    """Write the file whole or not at all, readable for everybody."""
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o644)
        file.write(text)
    os.replace(f"{path}.new", path)
