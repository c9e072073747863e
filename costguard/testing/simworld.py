"""What outlives a simulated guard: time, the machine, its disks, and actions under way.

Time is virtual: a heap of what will happen, and nothing happens between two entries.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from costguard.host.files import COMMITMENTS, STATE, Start, _UnreadableError, _unwrap
from costguard.host.ports import Instant
from costguard.testing.simmachine import Machine

MACHINE_ENDS = frozenset({"stop", "terminate", "hibernate", "shutdown", "reboot"})


class SimOff(BaseException):  # no error: the machine went off under the guard, and nothing may catch it
    """The machine lost its power while the guard ran."""


class SimCrash(BaseException):  # no error: the guard was killed, and nothing may catch it
    """The guard was killed (SIGKILL) at this very call."""


class World:
    """One machine in its surroundings.

    ``now`` counts the true seconds since the beginning; ``uptime`` is the boot clock then. ``runtime`` and
    ``disk`` hold the files of the runtime and the state directory by name; ``results`` the action workers' records.
    """

    def __init__(self, machine: Machine, *, seed: int = 0, start_wall: float = 1.7e9, uptime: float = 20.0) -> None:
        self.machine = machine
        self.random = random.Random(seed)  # noqa: S311  # a simulation must repeat itself
        self.now = 0.0
        self.boot_zero = -uptime  # true time at which the boot clock read 0
        self.slept = 0.0
        self.wall_offset = start_wall
        self.synced: bool | None = True
        self.boot_id = "5eed0001-0000"
        self.boots = 1
        self.instance = "i-simulated"
        self.runtime: dict[str, bytes] = {}
        self.disk: dict[str, bytes] = {}
        self.results: dict[str, dict[str, Any]] = {}
        self.history: deque[dict[str, Any]] = deque(maxlen=200)  # the batches that were written last
        self.hooked: set[str] = set()  # incidents whose pre-stop hook ran
        self.saved: deque[tuple[float, dict[str, Any]]] = deque(maxlen=200)  # pre-stop hooks that ran, and their jobs
        self.beats: deque[tuple[float, dict[str, Any]]] = deque(maxlen=200)  # signs of life that went out, and when
        self.tags: dict[str, str] = {}  # of the machine, as its cloud shows them
        self.price: dict[str, Any] | None = None  # what the cloud reader says of it
        self.taken: deque[str] = deque(maxlen=48)  # messages that people have, as workers note in the runtime directory
        self.notices: list[tuple[str, str, float | None, str]] = []  # id, kind, date, words of what the cloud announces
        self.activities: dict[str, list[tuple[str, str]]] = {}  # what each sense sees, in words: who, and what
        self.unseen: dict[str, str] = {}  # why a sense cannot see
        self.off_delay = (5.0, 40.0)  # seconds from an accepted machine action to darkness
        self.verdicts: dict[str, dict[str, Any]] = {}  # action -> plan; everything else is "go"
        self.hatch = ""  # the kernel parameter that forbids every action in this boot
        self.configuration: dict[str, Any] | None = None  # what a reload finds; None: what it had
        self.off_at: float | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def instant(self) -> Instant:
        """All clocks."""
        boot = self.now - self.boot_zero
        return Instant(boot, boot - self.slept, self.now + self.wall_offset, self.synced)

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Let something happen at a moment of true time."""
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Let something happen so many seconds from now."""
        self.at(self.now + seconds, call)

    def happen(self, until: float) -> bool:
        """Let the next thing happen; False, with the time at ``until``, when there is none before."""
        if not self._heap or self._heap[0][0] > until:
            self.now = max(self.now, until)
            return False
        when, _, call = heapq.heappop(self._heap)
        self.now = max(self.now, when)
        call()
        return True

    def pass_time(self, seconds: float) -> None:
        """Let time go by without a guard to see it."""
        until = self.now + seconds
        while self.happen(until):
            pass

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: what was due meanwhile happens at the wake-up."""
        self.now += seconds
        self.slept += seconds

    def power_off(self) -> None:
        """The machine goes off, now."""
        self.off_at = self.now
        self._heap = []
        raise SimOff

    def boot(self, *, instance: str | None = None) -> None:
        """A new boot: the runtime directory is empty, clocks begin anew; the state directory stays."""
        self.boots += 1
        self.boot_id = f"5eed{self.boots:04x}-0000"
        self.boot_zero, self.slept, self.off_at = self.now, 0.0, None
        self.runtime, self.results = {}, {}
        if instance is not None:
            self.instance = instance

    def start(self) -> Start:
        """What a starting guard finds in its files, read as `costguard.host.files` reads them."""
        notes: list[str] = []
        state = _content(self.runtime, STATE, "boot_id", self.boot_id, notes)
        lost = bool(notes)
        lasting = _content(self.runtime, COMMITMENTS, "instance", self.instance, notes)
        if lasting is None:
            lasting = _content(self.disk, COMMITMENTS, "instance", self.instance, notes)
        lost = lost or (lasting is None and bool(notes))  # a note is of a file that cannot be used
        return Start(self.boot_id, self.instance, state, lasting, tuple(notes), self.hatch, lost)


def _content(folder: dict[str, bytes], name: str, key: str, value: str, notes: list[str]) -> bytes | None:
    content = folder.get(name)
    if content is None:
        return None
    try:
        owner, data = _unwrap(content, key)
    except _UnreadableError as error:
        notes.append(f"{name} {error}: moved aside")
        del folder[name]
        return None
    return data if owner == value else None
