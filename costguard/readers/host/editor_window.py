"""What the window of a remote editor and its extension host tell each other: the bytes of the connections that windows have made.

What the process reads and writes in all would mislead: while a window is open, used or not, VS Code searches for ports to forward and
lists the machine's connections and open files every few seconds, which is 10 to 30 kB/s, and more on a larger machine.
"""

from collections.abc import Iterator

from costguard.readers.host import diag
from costguard.readers.host.listening import sockets_beside
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
        rows = sockets_beside(self._proc, self._pid, counted=True)
        served = {row.port for row in rows if row.state == diag.LISTENS}
        return (row for row in rows if row.state == diag.ESTABLISHED and row.port in served)
