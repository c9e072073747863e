"""The agent's process: which Python, started when; compared with what a unit would start."""

import os
import re
import time
from typing import NamedTuple

from costguard.clocks import boot_clock
from costguard.files import text_of

SLACK_SECONDS = 1.0
"""Tolerance between the date of a file and that of a start."""

_SHEBANG = re.compile(r"#!\s*(\S+)")
_LONG = re.compile(r"#!/bin/sh\n'''exec' (?:\"([^\"\n]+)\"|(\S+)) \"\$0\"")
"""The first lines that installers write for an interpreter whose path is too long, or has blanks."""


class Running(NamedTuple):
    """The process; empty or None where it is hidden."""

    python: str
    started: float | None

    def since(self, path: str) -> bool:
        """Whether a file, a folder or a link was changed after the start."""
        return self.started is not None and _changed(path) > self.started + SLACK_SECONDS


def is_ahead(path: str) -> bool:
    """Whether a file was changed at a date that has not come: the clock was set back since, and no restart is later than that."""
    return _changed(path) > time.time() + SLACK_SECONDS


def running(pid: int, procfs: str) -> Running:
    """Read the process from procfs."""
    python = text_of(f"{procfs}/{pid}/cmdline", 1 << 14).partition("\0")[0]
    return Running(python, _started(f"{procfs}/{pid}/stat"))


def python_of(program: str) -> str:
    """The Python that runs a program: itself, or the one in its first line; empty for other programs."""
    if os.path.basename(program).startswith("python"):
        return program
    head = text_of(program)
    if long := _LONG.match(head):
        return long[1] or long[2]
    found = _SHEBANG.match(head)
    return found[1] if found and os.path.basename(found[1]).startswith("python") else ""


def same_python(one: str, other: str) -> bool:
    """Whether two paths are one Python of one environment: ``bin/python`` and ``bin/python3`` of a venv are."""
    return _place(one) == _place(other) and os.access(one, os.X_OK)


def _place(path: str) -> tuple[str, str]:
    return os.path.realpath(os.path.dirname(path)), os.path.realpath(path)


def _started(path: str) -> float | None:
    """The date of a start, by the present clock."""
    try:
        ticks = int(text_of(path).rpartition(")")[2].split()[19])
    except (ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK") + time.time() - boot_clock()


def _changed(path: str) -> float:
    """When a file, or the link to it, last changed; 0 where there is none."""
    dates = [0.0]
    for look in (os.stat, os.lstat):
        try:
            dates.append(look(path).st_ctime)
        except OSError:
            continue
    return max(dates)
