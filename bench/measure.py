"""What processes cost, read from /proc."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    """MiB of several processes together.

    ``pss`` shares common pages with everything else that runs here, other Pythons included; ``alone``
    counts each page of these processes once and in full, as on a machine that runs nothing else.
    """

    pss: float
    alone: float


def tree(root: int) -> list[int]:
    """A process and its living descendants."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def command_line(pid: int) -> list[str]:
    """The arguments of a process; none where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def cpu_ms(pid: int) -> float:
    """Milliseconds on a CPU, of the main thread, to the nanosecond where the kernel keeps schedstat."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
    except FileNotFoundError:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / TICKS_PER_SECOND


def ended_children_ms(pid: int) -> float:
    """Milliseconds of the children that it has reaped: short-lived workers."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) * 1000 / TICKS_PER_SECOND


def rss_kib(pid: int) -> int:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def memory(pids: Iterable[int]) -> Memory:
    """Memory of several processes together, at about the same moment."""
    pss, private = 0, 0
    files: dict[str, int] = {}
    for pid in pids:
        for path, size in _mappings(pid):
            pss += size["Pss"]
            anonymous = size["Anonymous"] if path else size["Rss"]
            private += anonymous
            if path:
                files[path] = max(files.get(path, 0), size["Rss"] - anonymous)
    return Memory(pss / 1024, (private + sum(files.values())) / 1024)


def _mappings(pid: int) -> Iterable[tuple[str, dict[str, int]]]:
    key = ""
    size: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0]:  # "address-address rights offset device inode path"
            key = f"{words[5]}+{words[2]}" if len(words) > 5 and words[4] != "0" else ""
            size = {}
        elif words[0] == "VmFlags:":
            yield key, size
        elif len(words) == 3:
            size[words[0].rstrip(":")] = int(words[1])


def children_cpu_ms(action: Callable[[], object]) -> float:
    """Milliseconds that the children started and awaited by ``action`` used."""
    before = os.times()
    action()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return used * 1000


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for something; whether it came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
