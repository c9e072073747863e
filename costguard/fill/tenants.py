"""Who is on a GPU: our own tree, somebody else, or nobody can tell. What is not known is never free."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from costguard.background import INITIAL_NAMESPACE
from costguard.engine.observation import Known, Reading
from costguard.engine.words import percent
from costguard.fill.jobs import State, WatchRules
from costguard.monitors import MONITORS
from costguard.tree import processes

STANDS_FOR_HOST = "COSTGUARD_HOST__STANDS_FOR_HOST"
"""The owner says, as to the agent, that this container is the whole machine: the driver's numbers are those of here."""

_SHOWN = 3  # processes named
_NAME = 15  # characters that the kernel keeps


class Tenant(NamedTuple):
    """A process on a GPU: ``who`` names it for people."""

    kind: Literal["own", "ignored", "foreign", "unknown"]
    who: str


class Held(NamedTuple):
    """Who has a context on a GPU, and who of them used it lately; None where that is not known, ``why`` says why."""

    pids: tuple[int, ...] | None
    users: frozenset[int] | None
    why: str


def held_by(answer: Mapping[str, Any], key: str) -> Held:
    """What the reader says of one GPU; what makes no sense is not known."""
    try:
        pids, users, why = answer["holders"][key]
        return Held(
            None if pids is None else tuple([int(pid) for pid in pids]),
            None if users is None else frozenset([int(pid) for pid in users]),
            str(why),
        )
    except (KeyError, TypeError, ValueError):
        return Held(None, None, "the reader does not say which processes are on it")


def judge(held: Held, reading: Reading, look: WatchRules, known: Callable[[int], Tenant]) -> tuple[State, str]:
    """Whether a GPU is free, and who or what speaks against it."""
    if held.pids is None:
        return "unknown", held.why
    holders = {pid: known(pid) for pid in held.pids}
    if look.by == "processes":
        return _by_presence(holders)
    if not isinstance(reading, Known):
        return "unknown", reading.reason
    return _by_load(held, reading, look.threshold, holders)


def _by_presence(holders: Mapping[int, Tenant]) -> tuple[State, str]:
    """Whoever has a context there is somebody."""
    if foreign := [holder.who for holder in holders.values() if holder.kind == "foreign"]:
        return "taken", _listed(foreign)
    if unknown := [holder.who for holder in holders.values() if holder.kind == "unknown"]:
        return "unknown", _listed(unknown)
    return "free", ""


def _by_load(held: Held, reading: Known, threshold: float, holders: Mapping[int, Tenant]) -> tuple[State, str]:
    """Who only holds the GPU is nobody; with our own work on it, the driver must say who uses it."""
    others = {pid: holder for pid, holder in holders.items() if holder.kind in ("foreign", "unknown")}
    if any(holder.kind == "own" for holder in holders.values()):
        if others and held.users is None:
            return "unknown", f"the driver does not say whether {_listed([one.who for one in others.values()])} uses it"
        return _by_presence({pid: holder for pid, holder in others.items() if pid in (held.users or ())})
    if reading.load >= threshold or reading.signs:
        return "taken", f"load {percent(reading.load)}" + (f" ({reading.signs[0]})" if reading.signs else "")
    return "free", ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


class Tenants:
    """Tells our own processes from others. ``own``: finds the tree, quickly or thoroughly."""

    def __init__(self, ignore: Sequence[str], own: Callable[[], Sequence[processes.TreeProcess]]) -> None:
        self._ignore = frozenset(ignore) | frozenset(MONITORS)
        self._thoroughly = own
        self._own: set[int] = set()
        self._strangers: set[tuple[int, int]] = set()  # found thoroughly to be none of ours

    def look(self, own: Sequence[processes.TreeProcess]) -> None:
        """Begin a look; ``own``: the tree as it was followed."""
        self._own = {process.pid for process in own}

    def known(self, pid: int) -> Tenant:
        """Who this is."""
        process = processes.find(pid) if pid > 0 else None
        if process is None:
            return _unseen(pid)
        if pid not in self._own and process.key not in self._strangers:
            self._own = {one.pid for one in self._thoroughly()}
            if pid not in self._own:
                self._strangers.add(process.key)
        if pid in self._own:
            return Tenant("own", process.name)
        who = f"{process.name} {pid} of uid {_owner(pid)}"
        return Tenant("ignored" if self._is_ignored(process) else "foreign", who)

    def _is_ignored(self, process: processes.TreeProcess) -> bool:
        """By its exact name: the kernel's, or of a longer one the program's."""
        if process.name in self._ignore:
            return True
        long = [name for name in self._ignore if len(name) > _NAME and name[:_NAME] == process.name]
        return bool(long) and _program(process.pid) in long


def _unseen(pid: int) -> Tenant:
    """One that /proc does not show: another user's where /proc hides those, else nobody knows whose."""
    try:
        if pid > 0:
            os.kill(pid, 0)
    except PermissionError:
        return Tenant("foreign", f"process {pid} of another user")
    except (ProcessLookupError, OverflowError):
        pass
    return Tenant("unknown", f"process {pid}, which cannot be seen from here")


def _owner(pid: int) -> str:
    try:
        return str(os.stat(f"{processes.PROC}/{pid}").st_uid)
    except OSError:
        return "?"


def _program(pid: int) -> str:
    try:
        with open(f"{processes.PROC}/{pid}/cmdline", "rb", buffering=0) as file:
            return os.path.basename(file.read(4096).split(b"\0")[0].decode("utf-8", "replace"))
    except OSError:
        return ""


def namespace_trouble() -> str:
    """Why the driver's numbers of processes mean nothing here; empty where they do."""
    try:
        found = os.readlink(f"{processes.PROC}/self/ns/pid")
    except OSError as error:
        return f"whether this is a container cannot be seen ({error.strerror})"
    if found == INITIAL_NAMESPACE or os.environ.get(STANDS_FOR_HOST) == "true":
        return ""
    return "in a container the driver's process numbers mean nothing; start it on the host, or with the host's processes (--pid=host)"
