"""The modes of the terminal: a command that is ended in the middle of its work cannot put them back, and a shell does so only after a signal."""

import os
import termios
from typing import Any

from costguard.tree import processes

Modes = list[Any]
"""As termios(3) has them."""


def modes() -> Modes | None:
    """Those of the controlling terminal; None where there is none, or another job has it."""
    try:
        terminal = _open()
    except OSError:
        return None
    try:
        return termios.tcgetattr(terminal) if os.tcgetpgrp(terminal) == os.getpgrp() else None
    except (OSError, termios.error):
        return None
    finally:
        os.close(terminal)


def restore(before: Modes) -> None:
    """Put them back, unless somebody who lives has the terminal by now. The caller blocks SIGTTOU."""
    try:
        terminal = _open()
    except OSError:  # it is closed
        return
    try:
        job = os.tcgetpgrp(terminal)
        if job == os.getpgrp() or all(process.group != job for process in processes.table().values()):
            termios.tcsetattr(terminal, termios.TCSANOW, before)
    except (OSError, termios.error):
        pass  # it was closed meanwhile
    finally:
        os.close(terminal)


def _open() -> int:
    return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
