"""Effects that fail at once, and bugs of the guard itself: the order stays, and nothing that was decided is lost."""

from typing import Any

import pytest

from costguard.agent.journal import PREFIXES
from costguard.agent.loop import BUGS_LIMIT, Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, Watch, effective

HOUR = 3600.0


class Journal(Watch):
    """What the guard wrote, and the actions that were carried out."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.acts: list[str] = []

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acts.append(job["action"])

    def kinds(self) -> list[str]:
        """The messages, in the order in which they were sent."""
        words = [line[3:].partition(": ")[0] for line in self.lines]
        kinds = {PREFIXES[kind]: kind for kind in ("warning", "acting", "next_action", "failed", "cannot", "done")}
        return [kinds[word] for word in words if word in kinds]


class Deaf(SimHost):
    """A waiting worker cannot be released."""

    def send(self, child: int, line: bytes) -> bool:
        return not line.startswith(b'{"go":true') and super().send(child, line)


class Buggy(SimHost):
    """What no host should raise, once for each moment of ``bugs``: at the start of such a child or such a word."""

    bugs: tuple[float, ...] = ()
    where = ""

    def spawn(self, program: str, job: bytes) -> int:
        self.bug(program)
        return super().spawn(program, job)

    def service(self, message: str) -> None:
        self.bug(message)
        super().service(message)

    def bug(self, what: str) -> None:
        """Raise it when it is time."""
        if self.bugs and self.now >= self.bugs[0] and what.startswith(self.where):
            self.bugs = self.bugs[1:]
            raise LookupError("a bug")


class BuggyMessages(Buggy):
    """A bug when the warning is sent."""

    bugs, where = (700.0,), "notify"


class BuggyReload(Buggy):
    """A bug when a reload begins."""

    bugs, where = (100.0,), "RELOADING"


class BuggyOften(Buggy):
    """Twice as many bugs as a guard survives in a day, one every ten minutes, in ticks."""

    bugs, where = tuple(700.0 + n * 600.0 for n in range(2 * BUGS_LIMIT)), "WATCHDOG"


class BuggyRarely(Buggy):
    """As many, one every three hours."""

    bugs, where = tuple(700.0 + n * 3 * HOUR for n in range(2 * BUGS_LIMIT)), "WATCHDOG"


def guard(
    kind: type[SimHost], until: float, journal: Journal, *, uptime: float = 0.0, **policy: Any
) -> tuple[SimHost, Loop]:
    """A guard on a machine that worked for ten minutes, and was up for so long before."""
    host = kind(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3, until=until, watch=journal)
    host.world.boot_zero -= uptime
    rules = {"mode": "live", "kill_action": "shutdown", "kill_duration": 900.0, "grace": 300.0, **policy}
    return host, Loop(host, effective(rules), host.start())


def test_acting_is_told_before_its_failure() -> None:
    """The worker is gone when it is released: people hear first that it begins, then that it failed."""
    journal = Journal()
    _, loop = guard(Deaf, 3 * HOUR, journal)
    loop.run()
    kinds = journal.kinds()
    assert kinds[: kinds.index("failed") + 1] == ["warning", "acting", "failed"]
    assert journal.acts == []


def test_a_bug_loses_no_other_effect_and_no_stop() -> None:
    """The warning cannot be sent for a bug: it is told, people are warned again, and the machine stops later."""
    journal = Journal()
    _, loop = guard(BuggyMessages, 3 * HOUR, journal)
    with pytest.raises(SimOff):
        loop.run()
    assert journal.acts == ["shutdown"]
    assert len([line for line in journal.lines if "BUG" in line]) == 1


def test_events_behind_a_bug_are_handled() -> None:
    """What arrived together with the event that met the bug is not thrown away."""
    journal = Journal()
    host, loop = guard(BuggyReload, HOUR, journal)

    def both() -> None:
        host.signal("HUP")
        host.signal("TERM")

    host.world.at(200.0, both)
    assert loop.run() == 0
    assert host.now < 300.0
    assert [line for line in journal.lines if "BUG" in line]


@pytest.mark.thorough
def test_bugs_are_forgotten_after_a_day() -> None:
    """One now and then does not end the guard."""
    host, loop = guard(BuggyRarely, 62 * HOUR, Journal(), kill_action="command", mode="dry-run")
    assert loop.run() == 0
    assert isinstance(host, BuggyRarely)
    assert host.bugs == ()


@pytest.mark.parametrize("uptime", [0.0, 90.0 * 86400.0])
def test_many_bugs_in_a_day_end_the_guard(uptime: float) -> None:
    """The service manager starts another one, without the state that may be what the bug needs."""
    host, loop = guard(BuggyOften, 62 * HOUR, Journal(), uptime=uptime, kill_action="command", mode="dry-run")
    with pytest.raises(LookupError):
        loop.run()
    assert isinstance(host, BuggyOften)
    assert len(host.bugs) == BUGS_LIMIT
    assert host.world.start().state == b"{}"
