"""What processes have open: the first few thousand files of each, as anybody may open half a million, which takes half a minute to list.

Source: proc_pid_fd(5); the kernel lists descriptors in order, so those that were opened last and stay are left out.
"""

import os
from collections.abc import Iterator
from itertools import islice

MOST = 4096
"""The most files of one process."""

SECONDS = 0.2
"""Of CPU, for going through the processes of one user, or for one look: whatever they have open, no look takes long."""

COST = 4
"""Files that a process costs beside those that it has open."""


def opened(proc: str, pid: int) -> Iterator[tuple[str, str]]:
    """The name of each descriptor, and what it leads to. Raises OSError."""
    folder = f"{proc}/{pid}/fd"
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MOST)]
    for name in names:
        try:
            yield name, os.readlink(f"{folder}/{name}")
        except OSError:  # closed meanwhile
            continue


def sockets_of(proc: str, pid: int) -> dict[int, str]:
    """The sockets that a process has open, by inode, each with the name of its descriptor. Raises OSError."""
    return {int(target[8:-1]): name for name, target in opened(proc, pid) if _is_socket(target)}


def _is_socket(target: str) -> bool:
    return target.startswith("socket:[") and target[8:-1].isdigit()
