"""The processes of this machine, read once for all senses."""

import os
from typing import NamedTuple

TYPE_CHECKING = False  # importing typing again costs nothing, but this is how readers are written
if TYPE_CHECKING:
    from collections.abc import Iterable

    from costguard.readers.host.sense import Place


class Process(NamedTuple):
    """One process. ``terminal``: the device number of its terminal, 0 for none. ``start``: clock ticks after boot."""

    pid: int
    parent: int
    session: int
    uid: int
    name: str
    terminal: int
    start: int


class Processes:
    """A view of /proc that is renewed by `look`."""

    def __init__(self, place: "Place") -> None:
        self._proc = place.proc
        self._found: dict[int, Process] = {}
        self.unknown = ""
        """Why processes cannot be seen; empty when they can."""

    def look(self) -> None:
        """Forget what has ended and read what is new."""
        try:
            pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError as error:
            self._found, self.unknown = {}, f"{self._proc} cannot be read ({error.strerror})"
            return
        self.unknown = ""
        self._found = {pid: process for pid in pids if (process := self._found.get(pid) or self._read(pid))}

    def all(self) -> "Iterable[Process]":
        """Every process that could be read."""
        return self._found.values()

    def get(self, pid: int) -> Process | None:
        """One process, None where it has ended."""
        return self._found.get(pid)

    def _read(self, pid: int) -> Process | None:
        path = f"{self._proc}/{pid}/stat"
        try:
            with open(path, "rb", buffering=0) as file:
                head, _, rest = file.read(4096).decode(errors="replace").rpartition(")")
                uid = os.fstat(file.fileno()).st_uid
            fields = rest.split()
            name = head.partition("(")[2]
            return Process(pid, int(fields[1]), int(fields[3]), uid, name, int(fields[4]), int(fields[19]))
        except (OSError, ValueError, IndexError):  # it has ended meanwhile
            return None
