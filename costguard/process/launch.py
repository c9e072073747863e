"""From the short-lived command to the resident guard or launcher: exec, so that nothing heavy stays in memory."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from costguard.process.command_lines import command_lines
from costguard.process.wire import to_line


def exec_guard(effective: Mapping[str, object], environment: Mapping[str, str]) -> NoReturn:
    """Become the guard. The configuration travels in memory: it may hold secrets, and every user can read argv.

    Raises OSError when the interpreter cannot be started.
    """
    command = command_lines()["guard"]
    os.chdir("/")  # keeps no file system from being unmounted
    _become(command, json.dumps(effective, separators=(",", ":")).encode(), environment)


def exec_launcher(job: NamedTuple, program: str) -> NoReturn:
    """Become the launcher of `costguard exec` or `fill`, in this folder and environment: they are the command's. Raises OSError."""
    _become(command_lines()[program], to_line(job), os.environ)


def _become(command: Sequence[str], job: bytes, environment: Mapping[str, str]) -> NoReturn:
    fd = os.memfd_create("costguard-job", 0)
    view = memoryview(job)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    os.execve(command[0], [*command, str(fd)], environment)  # noqa: S606 - the point of this module
