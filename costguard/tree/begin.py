"""Start a command as it would be started by hand: nothing that it inherits differs from what its launcher inherited."""

import errno
import os
import signal
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from costguard.tree import group
from costguard.tree.members import mark_of, put_on
from costguard.tree.processes import find
from costguard.tree.signals import end_with_parent

RESET = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and ignoring survives exec

NOT_FOUND, CANNOT_RUN = 127, 126
"""Exit codes of a command that was not started, as timeout(1) and shells have them."""


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


def begin(start: Begin, background: Background | None = None) -> tuple[int, int]:
    """The command's process and 0; or 0 and the error number, where it cannot be started. Raises OSError when there can be no process."""
    failure, told = os.pipe2(os.O_CLOEXEC)
    try:
        leader = os.fork()
    except OSError:
        os.close(failure)
        os.close(told)
        raise
    if leader == 0:
        _become(start, background, told)
    os.close(told)
    with open(failure, "rb") as pipe:
        number = pipe.read()
    if not number:
        return leader, 0
    os.waitpid(leader, 0)
    return 0, int(number)


def _own_mark() -> int:
    process = find(os.getpid())
    return mark_of(process, filler=True) if process is not None else 0


def _become(start: Begin, background: Background | None, told: int) -> None:
    try:
        if start.session:
            os.setsid()
        if start.folder:
            group.join(start.folder)
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)
        put_on(start.mark or _own_mark())
        if background is not None:
            _retire(background)
        signal.pthread_sigmask(signal.SIG_SETMASK, start.mask)
        environment = os.environ if background is None else background.environment
        os.execvpe(start.command[0], start.command, environment)  # noqa: S606 - what this is for
    except OSError as error:
        os.write(told, b"%d" % (error.errno or errno.EINVAL))
    finally:
        os._exit(NOT_FOUND)


def _retire(background: Background) -> None:
    """Leave the terminal and this folder. Raises OSError."""
    end_with_parent(signal.SIGTERM)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    if background.log:
        log = os.open(background.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
    if nowhere > 2:
        os.close(nowhere)
    os.chdir(background.directory)
