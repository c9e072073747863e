"""The guard's output: standard error and the service manager. Neither can make it wait."""

import os
import select
import socket
import stat
from collections.abc import Mapping

from costguard.engine.words import several

LINE_LIMIT_BYTES = 4000
"""Longer lines are cut: a pipe that is ready takes 4096 bytes in one piece (pipe(7))."""


class Console:
    """Standard error, one line at a time.

    A line may begin with ``<0>`` to ``<7>``, the priority of sd-daemon(3); it is written only when standard
    error is the journal. Lines that would block are dropped, and their count is written once reading goes on.
    """

    def __init__(self, fd: int, environment: Mapping[str, str]) -> None:
        status = os.fstat(fd)
        self._fd, self._socket, self._own = fd, None, False
        self._journal = environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
        self._rest = b""  # what a terminal did not take of the last line
        self._dropped = 0
        if stat.S_ISSOCK(status.st_mode):
            self._socket = socket.socket(fileno=os.dup(fd))
        elif not stat.S_ISREG(status.st_mode):
            self._reopen()

    def _reopen(self) -> None:
        """Open the file anew: O_NONBLOCK on the inherited description would apply to every process that shares it."""
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        try:
            self._fd = os.open(f"/proc/self/fd/{self._fd}", flags)
        except OSError:
            return  # another user's terminal, or a pipe without a reader: poll before each write instead
        self._own = True

    def say(self, line: str) -> None:
        """Write one line now or never."""
        if self._dropped:
            count, self._dropped = self._dropped, 0
            if not self._put(self._line(f"<4>{several(count, 'line')} dropped: nothing was reading standard error")):
                self._dropped = count + 1
                return
        if not self._put(self._line(line)):
            self._dropped += 1

    def _line(self, line: str) -> bytes:
        text = line if line.isprintable() else "".join(c if c.isprintable() else "?" for c in line)
        if not self._journal and text[:1] == "<" and text[2:3] == ">" and text[1:2] in "01234567":
            text = text[3:]
        return text.encode("utf-8", "replace")[:LINE_LIMIT_BYTES] + b"\n"

    def _put(self, data: bytes) -> bool:
        """False when nothing of it was taken."""
        try:
            if self._rest:
                self._rest = self._rest[self._write(self._rest) :]
                if self._rest:
                    return False
            self._rest = data[self._write(data) :]
        except OSError:
            return False
        return True

    def _write(self, data: bytes) -> int:
        if self._socket is not None:
            return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        if not self._own and not _takes(self._fd):
            raise BlockingIOError
        return os.write(self._fd, data)

    def close(self) -> None:
        """Close what was opened here."""
        if self._socket is not None:
            self._socket.close()
        elif self._own:
            os.close(self._fd)


def _takes(fd: int) -> bool:
    """Whether a write would not wait; regular files always say so."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return any(mask & select.POLLOUT for _fd, mask in poll.poll(0))


class ServiceManager:
    """sd_notify(3): one datagram per message, to the socket named by NOTIFY_SOCKET, if any."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        name = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def tell(self, message: str) -> None:
        """Send; a manager that does not listen costs nothing."""
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode("utf-8", "replace"), self._address)
        except OSError:
            return  # the watchdog is the manager's own remedy

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
