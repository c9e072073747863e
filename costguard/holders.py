"""Which processes hold which GPU, from /proc, including those that the driver does not list.

Sources: proc_pid_fd(5), proc_pid_cgroup(5); character device 195 is NVIDIA's (Documentation/admin-guide/devices.txt).
"""

import os
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from costguard.files import names_in, text_of
from costguard.monitors import MONITORS

SCAN_SECONDS = 5.0
"""Limit of the search, on a machine with very many processes."""

MAJOR = 195
NO_GPU_MINOR = 250  # 255 nvidiactl, 254 nvidia-modeset: the driver, but no GPU

READER = "costguard.readers.nvml.reader"
_NODE = re.compile(r"/dev/nvidia(\d+)( \(deleted\))?")
_CONTAINERS = (
    ("docker", re.compile(r"docker[-/]([0-9a-f]{12})[0-9a-f]{52}")),
    ("podman", re.compile(r"libpod-([0-9a-f]{12})[0-9a-f]{52}")),
    ("containerd", re.compile(r"(?:cri-containerd|nerdctl)-([0-9a-f]{12})[0-9a-f]{52}")),
    ("CRI-O", re.compile(r"crio-([0-9a-f]{12})[0-9a-f]{52}")),
    ("LXC", re.compile(r"lxc\.payload\.([\w.-]+)")),
    ("Slurm job", re.compile(r"/job_(\d+)")),
    ("Kubernetes pod", re.compile(r"kubepods.*?pod([0-9a-f_-]{36})")),
    ("service", re.compile(r"/([\w@.\\-]+)\.service")),
)


class Holder(NamedTuple):
    """A process that has the device of a GPU open. ``minors`` number the devices (/dev/nvidia0 is 0)."""

    pid: int
    name: str
    user: str
    minors: tuple[int, ...]
    place: str  # the container, job or service
    monitor: bool  # known to hold a GPU without working on it


class Scan(NamedTuple):
    """Every visible holder, and the number of ``hidden`` processes of other users."""

    holders: tuple[Holder, ...]
    hidden: int
    complete: bool


def numbered_as_here(procfs: str) -> bool:
    """Whether processes have the numbers there by which this one signals them: a container sees those of its host under others."""
    try:
        return os.readlink(f"{procfs}/self") == str(os.getpid())
    except OSError:
        return False


def scan(procfs: str, seconds: float = SCAN_SECONDS) -> Scan:
    """Inspect all processes. Reads nothing that a hung file system or process could block."""
    end = time.monotonic() + seconds
    users = _users()
    found: list[Holder] = []
    hidden = 0
    pids = sorted((int(name) for name in names_in(procfs) if name.isdigit()), reverse=True)
    for pid in pids:
        if time.monotonic() > end:
            return Scan(tuple(found), hidden, False)
        try:
            minors = _minors(f"{procfs}/{pid}/fd")
        except PermissionError:
            hidden += 1
            continue
        if minors:
            found.append(_holder(procfs, pid, minors, users))
    return Scan(tuple(reversed(found)), hidden, True)


def holds_gpu(procfs: str, pid: int) -> bool:
    """Whether this process has the device of a GPU open. Raises PermissionError where that may not be seen."""
    return bool(_minors(f"{procfs}/{pid}/fd"))


def addresses(procfs: str) -> Mapping[int, str]:
    """PCI address by device minor, from the driver; empty without one."""
    found = {}
    root = f"{procfs}/driver/nvidia/gpus"
    for address in names_in(root):
        minor = re.search(r"Device Minor:\s*(\d+)", text_of(f"{root}/{address}/information"))
        if minor:
            found[int(minor[1])] = address.lower()
    return found


def place(cgroup: str) -> str:
    """The container, job or service of a process, from its control groups."""
    for kind, pattern in _CONTAINERS:
        if match := pattern.search(cgroup):
            return f"{kind} {match[1]}"
    return ""


def _minors(folder: str) -> tuple[int, ...]:
    """Raises PermissionError for a process that may not be inspected."""
    found = set()
    try:
        names = os.listdir(folder)
    except PermissionError:
        raise
    except OSError:  # it ended
        return ()
    for name in names:
        path = f"{folder}/{name}"
        try:
            target = os.readlink(path)
        except OSError:
            continue
        if "nvidia" not in target and not target.startswith("/dev/"):
            continue  # not a device, and a stat on a hung network file system would hang
        number = _minor(path, target)
        if number is not None:
            found.add(number)
    return tuple(sorted(found))


def _minor(path: str, target: str) -> int | None:
    try:
        device = os.stat(path).st_rdev
    except OSError:  # the node is not reachable by this name here
        match = _NODE.fullmatch(target)
        return int(match[1]) if match else None
    return os.minor(device) if os.major(device) == MAJOR and os.minor(device) < NO_GPU_MINOR else None


def _holder(procfs: str, pid: int, minors: tuple[int, ...], users: Mapping[int, str]) -> Holder:
    name = text_of(f"{procfs}/{pid}/comm").strip() or "?"
    try:
        uid = os.stat(f"{procfs}/{pid}").st_uid
    except OSError:
        uid = -1
    # reading the command line of a hung process may block, so only that of a Python is read
    ours = name.startswith("python") and READER in text_of(f"{procfs}/{pid}/cmdline")
    shown = "costguard (reader)" if ours else name
    group = place(text_of(f"{procfs}/{pid}/cgroup"))
    return Holder(pid, shown, users.get(uid, f"uid {uid}"), minors, group, ours or name.startswith(MONITORS))


def _users() -> Mapping[int, str]:
    """Local login names only: a directory service on the network could hang."""
    found: dict[int, str] = {}
    for line in text_of("/etc/passwd", 1 << 20).splitlines():
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit():
            found.setdefault(int(fields[2]), fields[0])
    return found
