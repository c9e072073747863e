"""A day of ordinary things that need no machine, on virtual time, from files of /proc that were recorded: nothing is kept up."""

import json
import os
import pty
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from costguard.readers.host.sense import NOT_YET, Moment, Sight
from costguard.readers.host.senses import SENSES
from tests.unit.readers.host.tree import BOOTED, Tree, look_as_reader

if TYPE_CHECKING:
    from costguard.readers.host.sense import Sense

RECORDED = json.loads(Path(__file__).with_name("proc.json").read_text())
Look = dict[str, str | None]
EVERY: float = RECORDED["every"]
LOOKS: list[Look] = RECORDED["looks"]
STAT_TERMINAL, STAT_START = 4, 19  # fields behind the name
COUNTERS = ("/net/dev", "/io", "vmstat")
RATES = 115.0
"""Seconds from look to look of a day, in which the recording goes on at its own pace."""

SETTINGS: dict[str, dict[str, Any]] = {
    "terminals": {"quiet_for": 1800.0, "users": [], "ignore_users": []},
    "ssh": {"session": 50e3, "editor": 150.0, "editor_cores": 0.3, "quiet_for": 900.0},
    "traffic": {"network": 1e5, "disk": 2.5e5, "quiet_for": 300.0, "ignore": []},
    "cluster": {"standalone": False, "quiet_for": 300.0, "ignore": []},
    "holders": {"users": [], "ignore_users": [], "ignore": []},
    "processes": {"names": ["rsync"], "users": []},
    "jupyter": {"quiet_for": 600.0},
    "serving": {"quiet_for": 300.0, "urls": []},
}


class Machine:
    """What was recorded, again and again: counters go on, and processes that came and went do so."""

    def __init__(self, folder: Path, terminal: str, looks: Sequence[Look] = LOOKS) -> None:
        self.looks, self.rounds = looks, 0
        self.tree = Tree(folder)
        self.terminal, self.device = terminal, os.stat(terminal).st_rdev
        (folder / "dev" / "pts").mkdir(parents=True)
        self.first: dict[str, str] = {}
        self.now: dict[str, str | None] = {}
        self.written: dict[str, str] = {}
        self.tree.write("proc/90/net/tcp", "  sl  local_address rem_address\n")  # nothing listens
        modules = {row.name: (row.module, row.kind) for row in SENSES}
        self.senses: dict[str, Sense] = {}
        for name, settings in SETTINGS.items():
            module = __import__(f"costguard.readers.host.{modules[name][0]}", fromlist=[modules[name][1]])
            self.senses[name] = getattr(module, modules[name][1])(settings, self.tree.place)
        self.last: dict[str, str] = {}
        for look in looks:
            self.last |= {path: what for path, what in look.items() if what is not None}
        self.born: dict[str, int] = {}  # clock ticks at which those began that come and go
        for path, what in looks[0].items():
            assert what is not None, "in the first look nothing has ended"
            self.first[path] = what
            if path.endswith("/stat"):
                began = int(what.rpartition(")")[2].split()[STAT_START]) / RECORDED["ticks"]
                self.tree.now = max(self.tree.now, began + 60.0)

    def play(self, step: int) -> None:
        """The files of one look."""
        round_number, place = divmod(step, len(self.looks))
        self.rounds, changed = round_number, self.looks[place]
        if place == 0 and step:
            changed = changed | dict.fromkeys(self.now.keys() - changed.keys())
        for path, what in changed.items():
            self.now[path] = what
            self.put(path, what, round_number)
        for pid in {
            path.partition("/")[0] for path, what in changed.items() if what is None and path.endswith("/stat")
        }:
            if (self.tree.proc / pid).is_dir():
                self.tree.ends(int(pid))

    def put(self, path: str, what: str | None, rounds: int) -> None:
        file = self.tree.proc / path
        if what is None:
            self.written.pop(path, None)
            self.born.pop(path, None)
            file.unlink(missing_ok=True)
            return
        if not path.endswith(COUNTERS) and self.written.get(path) == what:
            return
        self.written[path] = what
        file.parent.mkdir(parents=True, exist_ok=True)
        if what.startswith("->"):
            target = self.terminal if what.startswith("->/dev/pts/") else what[2:]
            file.unlink(missing_ok=True)
            file.symlink_to(target)
            return
        if path.endswith("/stat"):
            what = self.stat(what, path)
        elif path.endswith(COUNTERS) and rounds and path in self.first:
            what = gone_on(what, self.first[path], self.last[path], rounds)
        file.write_text(what)

    def stat(self, text: str, path: str) -> str:
        """On the terminal of this test; whoever comes and goes begins in each round anew."""
        head, _, rest = text.rpartition(")")
        fields = rest.split()
        if fields[STAT_TERMINAL] != "0":
            major, minor = os.major(self.device), os.minor(self.device)
            fields[STAT_TERMINAL] = str((major << 8) | (minor & 0xFF) | ((minor & ~0xFF) << 12))
        if path not in self.first:
            fields[STAT_START] = str(self.born.setdefault(path, round(self.tree.now * RECORDED["ticks"])))
        return f"{head}) {' '.join(fields)}\n"

    def look(self, seconds: float) -> dict[str, Sight]:
        self.tree.now += seconds
        self.tree.processes.look(self.tree.now)
        moment = Moment(self.tree.now, BOOTED + self.tree.now)
        return {name: look_as_reader(sense, moment, self.tree.processes) for name, sense in self.senses.items()}


def gone_on(text: str, first: str, last: str, rounds: int) -> str:
    """Counters that have grown by as much in each round before."""
    ends = [re.findall(r"\d+", one) for one in (first, last)]
    numbers = iter(zip(*ends, strict=True))

    def later(found: re.Match[str]) -> str:
        begin, end = next(numbers)
        return str(int(found[0]) + rounds * (int(end) - int(begin)))

    return re.sub(r"\d+", later, text)


@contextmanager
def terminal() -> Iterator[tuple[int, int, str]]:
    """A real one, on which nobody has typed for hours."""
    mine, theirs = pty.openpty()
    try:
        name = os.ttyname(theirs)
        os.utime(name, (BOOTED - 9000.0, BOOTED - 9000.0))
        yield mine, theirs, name
    finally:
        os.close(mine)
        os.close(theirs)


@pytest.mark.parametrize("hours", [3, pytest.param(24, marks=pytest.mark.thorough)])
def test_a_day_of_it_keeps_nothing_up(tmp_path: Path, hours: int) -> None:
    """Each look at the pace of the recording for a quarter of an hour, then ever so often for a day."""
    with terminal() as (_, _, name):
        machine = Machine(tmp_path, name)
        steps = [EVERY] * 90 + [RATES] * round(hours * 3600 / RATES)
        for step, seconds in enumerate(steps):
            machine.play(step)
            for sense, sight in machine.look(seconds).items():
                assert sight.active == (), (sense, step)
                assert sight.unknown in {"", NOT_YET} or sense == "ssh", (sense, sight.unknown)
        sights = machine.look(EVERY)
        assert sights["terminals"].seen == "2 terminals, none used"
        assert {one.name for one in machine.tree.processes.all()} >= {
            "tmux: server",
            "bash",
            "sleep",
            "unshare",
            "sh",
            "sshd",
        }


def types(machine: Machine, looks: int) -> None:
    """Once, on the terminal itself."""
    del machine, looks


def more(machine: Machine, path: str, name: str, each: int, looks: int) -> None:
    """A counter has grown by so much more in each look."""
    table = machine.tree.proc / path
    before, _, rest = table.read_text().partition(name)
    value, end = re.split(r"(?<=\d)(?=\D)", rest.lstrip(), maxsplit=1)
    table.write_text(f"{before}{name} {int(value) + looks * each}{end}")


def session() -> str:
    """The process of ann's session with a shell, by the name that the daemon gave it."""
    files = LOOKS[0].items()
    return str(next(path.partition("/")[0] for path, what in files if what and what.startswith("sshd: ann@pts/")))


SIGNS: dict[str, tuple[str, int, Callable[[Machine, int], None]]] = {
    "typed": ("terminals", 20, types),
    "a download": ("traffic", 21, lambda machine, looks: more(machine, "1/net/dev", "eth0:", 10_000_000, looks)),
    "disks read": ("traffic", 21, lambda machine, looks: more(machine, "vmstat", "pgpgin", 10_000, looks)),
    "sftp": ("ssh", 21, lambda machine, looks: more(machine, f"{session()}/io", "rchar:", 10_000_000, looks)),
}
"""The sense that sees it, from which look on, and what is there at each."""


@pytest.mark.parametrize("sign", SIGNS)
def test_the_same_sees_who_is_there(tmp_path: Path, sign: str) -> None:
    """Else a day of silence would prove nothing."""
    sense, seen_from, happens = SIGNS[sign]
    with terminal() as (mine, theirs, name):
        machine = Machine(tmp_path, name)
        for step in range(30):
            machine.play(step)
            if step >= 20:
                happens(machine, step - 19)
            if step == 20 and happens is types:
                os.write(mine, b"x\n")
                os.read(theirs, 10)
            active = [one for one, sight in machine.look(EVERY).items() if sight.active]
            assert active == ([sense] if step >= seen_from else []), step
