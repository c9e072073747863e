"""A /proc that a test makes, on the disk; and a machine's clock as a number."""

import os
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from costguard.readers.host.processes import Processes
from costguard.readers.host.sense import Moment, SensePaths, Sight

if TYPE_CHECKING:
    from costguard.readers.host.sense import Sense

OWN = 90
"""The number of the agent's own process in the tree."""

STEP = 10.0
"""Seconds between two looks."""

BOOTED = 1_790_000_000.0
"""The date when the machine started."""


_seen: "WeakKeyDictionary[Sense, tuple[object, Sight]]" = WeakKeyDictionary()


def look_as_reader(sense: "Sense", now: Moment, processes: Processes) -> Sight:
    """Look as the reader lets it look: not while it rests."""
    processes_now = processes.edition, processes.unknown
    before = _seen.get(sense)
    if before and before[0] == processes_now and now.boot < getattr(sense, "rests_until", 0.0):
        return before[1]
    sight = sense.look(now, processes)
    _seen[sense] = processes_now, sight
    return sight


class Tree:
    """A machine of which the test writes every file. ``now``: seconds since it started."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.proc, self.sys, self.etc = folder / "proc", folder / "sys", folder / "etc"
        for made in (self.proc, self.sys, self.etc):
            made.mkdir()
        self.place = SensePaths(str(self.proc), str(folder / "dev"), str(self.sys), str(self.etc), str(folder / "run"))
        (self.etc / "passwd").write_text(
            f"root:x:0:0::/root:/bin/sh\nann:x:{os.getuid() or 1000}:0::/home/ann:/bin/sh\n"
        )
        (self.proc / "self").symlink_to(str(OWN))
        self.processes = Processes(self.place)
        self.now = 1000.0
        self.process(1, "systemd", start=0)
        self.process(OWN, "python3", parent=1)

    def process(
        self, pid: int, name: str, *, parent: int = 1, start: float = 100.0, terminal: int = 0, cpu: float = 0.0,
        io: tuple[int, int] | None = None, state: str = "S", uid: int | None = None, exe: str = "", threads: int = 1,
    ) -> None:  # fmt: skip
        """A process. ``start`` and ``cpu`` in seconds; ``io``: bytes that it has read and written."""
        folder = self.proc / str(pid)
        folder.mkdir(exist_ok=True)
        ticks = f"{round(cpu * 30)} {round(cpu * 100) - round(cpu * 30)}"  # of its own, and the system's for it
        stat = f"{pid} ({name}) {state} {parent} {pid} {pid} {terminal} 0 0 0 0 0 0 {ticks} 0 0 20 0 {threads} 0 {round(start * 100)} 0 0\n"
        (folder / "stat").write_text(stat)
        user = os.getuid() if uid is None else uid
        (folder / "status").write_text(
            f"Name:\t{name}\nTgid:\t{pid}\nPid:\t{pid}\nUid:\t{user}\t{user}\nNSpid:\t{pid}\n"
        )
        if io is not None:
            (folder / "io").write_text(f"rchar: {io[0]}\nwchar: {io[1]}\nsyscr: 0\nsyscw: 0\n")
        if exe and not (folder / "exe").is_symlink():
            (folder / "exe").symlink_to(exe)

    def opens(self, pid: int, *targets: str) -> None:
        """What the process has open, from descriptor 0 on."""
        folder = self.proc / str(pid) / "fd"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for number, target in enumerate(targets):
            (folder / str(number)).symlink_to(target)

    def ends(self, pid: int) -> None:
        """The process is gone."""
        folder = self.proc / str(pid)
        for top, folders, files in os.walk(folder, topdown=False):
            for name in (*files, *folders):
                path = Path(top) / name
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        folder.rmdir()

    def write(self, path: str, text: str) -> None:
        """A file below the root of the tree."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def pass_by(self, seconds: float = STEP) -> None:
        """Let time pass, then see which processes there are; as often as a reader does."""
        for _ in range(max(1, round(seconds / STEP))):
            self.now += STEP
            self.processes.look(self.now)

    def look(self, sense: "Sense", seconds: float = STEP, *, saving: bool = False) -> Sight:
        """Let time pass, then look; ``saving``: while the pre-stop hook works."""
        self.now += seconds
        self.processes.look(self.now)
        return look_as_reader(sense, Moment(self.now, BOOTED + self.now, saving), self.processes)
