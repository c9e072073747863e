"""What processes have open: the first few thousand files of each, as anybody may open half a million, which takes half a minute to list.

Source: proc_pid_fd(5); the kernel lists descriptors in order, so those that were opened last and stay are left out.
"""

import os
from collections.abc import Iterator
from itertools import islice

MOST = 4096
"""Files of one process that are read at most."""

SECONDS = 0.2
"""CPU seconds for the processes of one user, or for one look, so that no look takes long whatever they have open."""

COST = 4
"""What a process costs besides its open files, in files."""


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
