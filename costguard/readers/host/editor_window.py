"""What the window of a remote editor and its extension host tell each other: the bytes of the connections that windows have made.

Not what that process reads and writes: as long as a window is open, used or not, VS Code looks for ports to forward, and for that lists
the machine's connections and all open files every few seconds: 10 to 30 kB/s, and more on a larger machine.
"""

import os
from _socket import AF_INET, AF_INET6
from collections.abc import Iterator

from costguard.readers.host import diag
from costguard.readers.host.listening import netlink_socket
from costguard.readers.host.opened import sockets_of


class EditorWindow:
    """The connections of one extension host."""

    def __init__(self, proc: str, pid: int) -> None:
        self._proc, self._pid = proc, pid
        self._last: dict[int, int] = {}  # by connection
        self._total = 0
        self.counted = False
        """Whether there ever was a connection whose bytes the kernel counts; else it may be one that has no such number."""

    def moved(self) -> int:
        """Bytes so far, in both directions; of a new connection from its second reading on. Raises OSError."""
        open_now = sockets_of(self._proc, self._pid)
        now = {one.inode: one.moved for one in self._made_by_others() if one.inode in open_now} if open_now else {}
        self._total += sum(max(0, moved - self._last.get(inode, moved)) for inode, moved in now.items())
        self._last = now
        self.counted = self.counted or bool(now)
        return self._total

    def _made_by_others(self) -> Iterator[diag.Socket]:
        """Those to a port on which somebody listens: what an extension asks of a service elsewhere is no sign of a person."""
        theirs, own = os.stat(f"{self._proc}/{self._pid}/ns/net"), os.stat("/proc/self/ns/net")
        beside = 0 if theirs.st_ino == own.st_ino else self._pid
        with netlink_socket(self._proc, beside) as netlink:
            rows = [
                row
                for family in (AF_INET, AF_INET6)
                for row in diag.ask(netlink, family, diag.ESTABLISHED, diag.LISTENS, counted=True)
            ]
        served = {row.port for row in rows if row.state == diag.LISTENS}
        return (row for row in rows if row.state == diag.ESTABLISHED and row.port in served)
