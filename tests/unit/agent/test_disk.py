"""A disk that hangs: processes that nobody can end do not pile up, and the newest commitments are saved in the end."""

from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.engine.observation import Known
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, Watch, effective

HOUR = 3600.0
HANGS_UNTIL = 6 * HOUR


class HungDisk(Faults):
    """What is written hangs in the kernel until a moment, and not even SIGKILL ends it before."""

    def __init__(self, *subjects: str) -> None:
        self.subjects = subjects

    def take(self, subject: str, host: SimHost) -> str:
        if host.now >= HANGS_UNTIL:
            return ""
        return "hang" if subject in self.subjects else ""


class DeadHost(SimHost):
    """Killed children stay until the disk answers again."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started: list[tuple[float, str]] = []
        self.most: dict[str, int] = {}

    def spawn(self, program: str, job: bytes) -> int:
        self.started.append((self.now, program))
        return super().spawn(program, job)

    def kill(self, child: int) -> None:
        killed = type(self.children.get(child)).__name__
        super().kill(child)
        kind = {"Persister": "persist", "Historian": "history", "Reader": "nvml"}.get(killed, "")
        if kind and self.faults.take(kind, self) and self.now < HANGS_UNTIL:
            self.undead.append((HANGS_UNTIL, kind))
            self.most[kind] = self.most.get(kind, 0) + 1


class Journal(Watch):
    """What the guard wrote, and what reached the disk."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.disk: list[dict[str, Any]] = []

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def stored(self, now: Instant, data: dict[str, Any]) -> None:
        self.disk.append(data["data"])


def guard(faults: Faults, until: float, journal: Journal) -> tuple[DeadHost, Loop]:
    """A guard with a working GPU."""
    machine = Machine(gpus=1, script=[Phase(9**9, 0.9)])
    host = DeadHost(machine, seed=3, until=until, watch=journal, faults=faults)
    return host, Loop(host, effective(), host.start())


@pytest.mark.parametrize("kind", ["persist", "history"])
def test_one_writer_hangs_and_no_second_one(kind: str) -> None:
    """Six hours of a hung disk cost one process; it is said, and afterwards everything is written again."""
    journal = Journal()
    host, loop = guard(HungDisk(kind), 8 * HOUR, journal)
    loop.run()
    assert host.most == {kind: 1}
    assert [when for when, program in host.started if program == kind and when > HANGS_UNTIL]
    assert [line for line in journal.lines if "does not respond" in line]
    assert not loop.journal.troubles


def test_the_newest_commitments_are_saved_in_the_end() -> None:
    """A hold that was made while the disk hung is on the disk soon after it answers."""
    journal = Journal()
    host, loop = guard(HungDisk("persist"), HANGS_UNTIL + 300.0, journal)
    held: list[int] = []

    def hold() -> None:
        host.request(1000, {"command": "hold", "seconds": 7200.0})

    host.world.at(5 * HOUR, hold)
    host.world.at(HANGS_UNTIL + 120.0, lambda: held.extend(len(data["holds"]) for data in journal.disk))
    loop.run()
    assert held[-1] == 1


def test_writers_that_cannot_be_ended_do_not_keep_readers_from_starting() -> None:
    """They hang in the file system, and a reader is another affair: it is started anew."""
    journal = Journal()
    host, loop = guard(HungDisk(), HOUR, journal)
    host.undead = [(HANGS_UNTIL, "persist"), (HANGS_UNTIL, "history"), (HANGS_UNTIL, "notify"), (HANGS_UNTIL, "act")]
    loop.run()
    assert loop.gpu_side.reader.restarts == 0
    assert all(isinstance(reading, Known) for reading in loop.seen.readings)


def test_readers_that_cannot_be_ended_do() -> None:
    """Three that hang in the driver are enough: each further one would as well."""
    journal = Journal()
    host, loop = guard(HungDisk("nvml"), 5 * HOUR, journal)
    loop.run()
    assert host.most == {"nvml": 3}
    assert "hang in the driver" in loop.gpu_side.reader.failure
