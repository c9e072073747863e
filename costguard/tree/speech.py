"""What costguard says beside a command's own output: on standard error, and only what somebody must know."""

import os
import time

from costguard.host.console import Console

EXEC = "costguard exec"


class Speech:
    """Lines on a descriptor, which never wait; ``stamped``: each with its time."""

    def __init__(self, fd: int, *, stamped: bool, name: str = EXEC) -> None:
        self._stamped, self._name = stamped, name
        try:
            self._console: Console | None = Console(fd, {})
        except OSError:  # it is closed
            self._console = None

    def say(self, text: str) -> None:
        """Write one line."""
        if self._console is None:
            return
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}.{int(now % 1 * 1000):03d} "
        self._console.say(f"{stamp if self._stamped else ''}{self._name}: {text}")


def fill_standard(*, inheritable: bool) -> None:
    """Open /dev/null in place of standard streams that this process got closed: nothing else may get their numbers.

    ``inheritable``: also for the programs that it starts; else they get them closed, as it did.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, inheritable)
    os.close(fd)
