"""Until when a service wants no further message at an address (Retry-After), for every delivery of every guard.

One small file for each address in the agent's runtime directory, named by channel and number; it does not contain the address.
"""

import os
import threading
from contextlib import suppress

from costguard.clocks import boot_clock

FOLDER = "left-alone"

LONGEST_WAIT_SECONDS = 900.0
"""Longest wait, whatever a service asks for: its clock may be wrong, and a warning is only of use for a while."""


class RetryAfter:
    """The moment for one address; unknown if the folder cannot be written."""

    def __init__(self, runtime: str = "", channel: str = "", number: int = 0) -> None:
        name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in channel)[:100]
        self._path = os.path.join(runtime, FOLDER, f"{name}-{number}") if runtime else ""

    @property
    def until(self) -> float:
        """The moment on the boot clock; one too far ahead is from another boot, and ignored."""
        if not self._path:
            return 0.0
        try:
            with open(self._path, "rb") as file:
                found = float(file.read(64))
        except (OSError, ValueError):
            return 0.0
        return found if found <= boot_clock() + LONGEST_WAIT_SECONDS else 0.0

    def keep(self, until: float) -> None:
        """Keep the moment until which the service asked to be left alone."""
        if not self._path or until <= self.until:
            return
        made = f"{self._path}.{os.getpid()}.{threading.get_ident()}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(made, "w", encoding="ascii") as file:
                file.write(f"{until!r}\n")
            os.replace(made, self._path)
