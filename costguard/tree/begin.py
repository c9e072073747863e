"""Start a command as it would be started by hand: nothing that it inherits differs from what its launcher inherited."""

import errno
import os
import signal
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from costguard.parent import end_with_parent
from costguard.tree import cgroup
from costguard.tree.members import mark_of, put_on
from costguard.tree.processes import find

RESET = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and ignoring survives exec

NOT_FOUND, CANNOT_RUN = 127, 126
"""Exit codes of a command that was not started, as timeout(1) and shells have them."""

LOG, DIRECTORY, PROGRAM = "log", "directory", "program"
"""What a command that cannot be started may have failed at."""


class Begin(NamedTuple):
    """What to start, and how.

    ``mark``: what every member bears (`costguard.tree.members`); 0: one of its own, which names the command for good. ``mask``: the
    signals that are blocked for it. ``session``: whether it leads one of its own. ``folder``: its control group.
    """

    command: tuple[str, ...]
    mask: Iterable[int]
    mark: int
    session: bool
    folder: str = ""


class Background(NamedTuple):
    """What differs for a command that nobody waits for: no input, and a signal as soon as its launcher is gone.

    ``directory``: where it starts; ``environment``: all of it; ``log``: the file that gets its output, where it has one.
    """

    directory: str
    environment: Mapping[str, str]
    log: str


class Failed(NamedTuple):
    """Why a command was not started: the error number, and what it failed at (`LOG`, `DIRECTORY`, `PROGRAM`)."""

    number: int
    at: str


class Prepared:
    """A process that becomes the command when it is told to: whoever must know of it can be told before it does anything.

    Until then it ends when this process does. ``fd`` is readable once the command runs, or cannot.
    """

    def __init__(self, start: Begin, background: Background | None = None) -> None:
        """Raises OSError when there can be no process."""
        opened: list[int] = []
        try:
            opened += os.pipe2(os.O_CLOEXEC)
            opened += os.pipe2(os.O_CLOEXEC)
            self.leader = os.fork()
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        go, self._go, self.fd, told = opened
        if self.leader == 0:
            _let_go({go, told})
            _become(start, background, go, told)
        os.close(go)
        os.close(told)

    def go(self) -> None:
        """Let it become the command."""
        with suppress(BrokenPipeError):  # somebody killed it
            os.write(self._go, b"g")
        os.close(self._go)

    def outcome(self) -> Failed | None:
        """Wait until the command runs, and close ``fd``; why it cannot, where it cannot: then the process has ended with `NOT_FOUND`.

        Whoever must not wait looks whether ``fd`` is readable: a directory or a log may be where nobody answers.
        """
        with open(self.fd, "rb") as pipe:
            number, _, at = pipe.read().decode().partition(" ")
        return Failed(int(number), at) if number else None


def begin(start: Begin) -> tuple[int, int]:
    """The command's process and 0; or 0 and the error number, where it cannot be started. Raises OSError when there can be no process."""
    prepared = Prepared(start)
    prepared.go()
    failed = prepared.outcome()
    if failed is None:
        return prepared.leader, 0
    os.waitpid(prepared.leader, 0)
    return 0, failed.number


def _own_mark() -> int:
    process = find(os.getpid())
    return mark_of(process, filler=True) if process is not None else 0


def _let_go(kept: Collection[int]) -> None:
    """Close what exec would close, at once: a pipe of the launcher that stays open here would hide its end from the watcher."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        with suppress(OSError):  # that of the list itself is closed
            if fd not in kept and not os.get_inheritable(fd):
                os.close(fd)


def _become(start: Begin, background: Background | None, go: int, told: int) -> None:
    at = PROGRAM
    try:
        if start.session:
            os.setsid()
        if start.folder:
            cgroup.join(start.folder)
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        put_on(start.mark or _own_mark())
        if background is not None:
            end_with_parent(signal.SIGTERM)
        if not os.read(go, 1):
            os._exit(NOT_FOUND)  # the launcher is gone, and nobody knows of this process
        if background is not None:
            at = LOG
            _retire(background.log)
            at = DIRECTORY
            os.chdir(background.directory)
            at = PROGRAM
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        environment = os.environ if background is None else background.environment
        os.execvpe(start.command[0], start.command, environment)  # noqa: S606 - what this is for
    except OSError as error:
        os.write(told, b"%d %s" % (error.errno or errno.EINVAL, at.encode()))
    except ValueError:  # an empty name, which Python does not even look for
        os.write(told, b"%d %s" % (errno.ENOENT, at.encode()))
    finally:
        os._exit(NOT_FOUND)


def _retire(log: str) -> None:
    """Leave the terminal. Raises OSError."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    if log:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
    if nowhere > 2:
        os.close(nowhere)
