"""From the short-lived command to the resident guard: exec, so that nothing heavy stays in memory."""

import json
import os
from collections.abc import Mapping
from typing import NoReturn

from costguard.process.command_lines import command_lines


def exec_guard(effective: Mapping[str, object], environment: Mapping[str, str]) -> NoReturn:
    """Become the guard. The configuration travels in memory: it may hold secrets, and every user can read argv.

    Raises OSError when the interpreter cannot be started.
    """
    fd = os.memfd_create("costguard-configuration", 0)
    view = memoryview(json.dumps(effective, separators=(",", ":")).encode())
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    command = command_lines()["guard"]
    os.chdir("/")  # keeps no file system from being unmounted
    os.execve(command[0], [*command, str(fd)], environment)  # noqa: S606 - the point of this module
