"""A thousand and ten thousand machines of one account: when they ask, and how many EC2 refuses at their first try.

The engine of each says when it wants a check, `Jitter` when that is made, and a real plan of the plug-in which calls it costs.
Setting as documented: one second of `cloud.spread` for each machine, in words that people write.
"""

import functools
import heapq
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.agent.jitter import Jitter
from costguard.engine import Began, Device, Devices, Outcome, Policy, State, Tick, initial, step, time_limits
from costguard.engine.effects import Check, Effect
from costguard.engine.events import Event
from tests.fleet.ec2 import LIMITS, Account
from tests.fleet.guards import EPOCH, GPU, OBSERVED
from tests.fleet.hours import Hours
from tests.fleet.test_throttled import RESTING, Fleet, hours, misjudged

__all__ = ["hours"]

FLEETS = [(1_000, 1_200.0), pytest.param(10_000, 10_800.0, marks=pytest.mark.thorough)]
"""Machines, and their `cloud.spread`: 20m and 3h."""

FEW = 0.02
CHANGED = RESTING._replace(kill_duration=7200.0)


class Machine:
    """One of the fleet: its engine, and its moments."""

    def __init__(self, number: int, booted: float, spread: float) -> None:
        self.name = f"aws:i-{number * 2654435761 % 2**64:016x}0"
        self.config = {"providers": ["aws=costguard_aws"], "cloud": {"spread": spread}}
        self.moments = Jitter(self.name, attended=False)
        self.state: State = initial("boot", self.name)
        self.booted = booted
        self.policy: Policy = RESTING
        self.send(Devices(booted, (Device(GPU, 0, "GPU-a", "H200"),)))

    def send(self, event: Event) -> tuple[Effect, ...]:
        """One step of its engine."""
        self.state, effects, _ = step(self.state, event, self.policy)
        return effects

    def look(self, at: float) -> tuple[float, Check] | None:
        """A tick; the check that it wants, and the moment of that."""
        wanted = [e for e in self.send(Tick(at, OBSERVED, EPOCH + at, 0.0, True)) if isinstance(e, Check)]
        return (self.moments.due_at(wanted[0], at, self.config, ""), wanted[0]) if wanted else None


class Day:
    """The checks of all machines, one after the other; each costs what a real plan costs."""

    def __init__(self, calls: Counter[str]) -> None:
        self.now = 0.0
        self.account = Account(lambda: self.now)
        self.calls = calls
        self.tries: Counter[bool] = Counter()  # first tries, and whether nothing of them was refused
        self.passed: list[float] = []

    def run(self, machines: list[Machine], at: float) -> None:
        """All look at this moment; it is over when every machine has a plan."""
        queue = [(found[0], n, found[1]) for n, machine in enumerate(machines) if (found := machine.look(at))]
        heapq.heapify(queue)
        again: set[int] = set()
        while queue:
            self.now, n, wanted = heapq.heappop(queue)
            good = self._plan()
            if n not in again:
                self.tries[good] += 1
                again.add(n)
            machine = machines[n]
            machine.send(Outcome(self.now, wanted.id, "go" if good else "failed"))
            if good:
                self.passed.append(self.now)
            elif (found := machine.look(machine.state.core.plans.check_at)) is not None:
                heapq.heappush(queue, (found[0], n, found[1]))

    def _plan(self) -> bool:
        """Whether none of its calls was refused; it goes on after one that was."""
        return not [name for name in self.calls.elements() if not self.account._take(name, self.now)]

    @property
    def refused(self) -> float:
        """The part of all first tries of which something was refused."""
        return self.tries[False] / self.tries.total()


@pytest.fixture
def calls(hours: Hours, tmp_path: Path) -> Counter[str]:
    """What one plan asks, by call: seen on a real one."""
    fleet = Fleet(hours, tmp_path, RESTING, 60.0, machines=1)
    fleet.run(30.0)
    assert misjudged(fleet) == ""
    return Counter(name for _, name, _ in fleet.account.asked)


def boot(machines: list[Machine], day: Day) -> None:
    """All boot together, or get the agent for the first time: none has a plan."""
    day.run(machines, machines[0].booted)


def restart(machines: list[Machine], day: Day, *, version: bool) -> None:
    """All agents are started anew, as by configuration management; a new version begins a new window too."""
    quiet = Day(Counter())
    quiet.run(machines, machines[0].booted)
    assert quiet.refused == 0.0
    at = machines[0].booted + 3 * 3600.0
    day.now = at
    for machine in machines:
        machine.send(Began(at, "restart"))
        if version:
            machine.send(Began(at, "reload"))
    day.run(machines, at)


TOGETHER: dict[str, tuple[float, Callable[[list[Machine], Day], None], float]] = {
    "boot": (60.0, boot, time_limits.EARLY_SHARE),
    "first start": (200_000.0, boot, time_limits.EARLY_SHARE),
    "restart": (200_000.0, functools.partial(restart, version=False), 1.0),
    "upgrade": (200_000.0, functools.partial(restart, version=True), 1.0),
}


@pytest.mark.parametrize("occasion", TOGETHER)
@pytest.mark.parametrize(("count", "spread"), FLEETS)
def test_few_are_refused_at_their_first_try(calls: Counter[str], count: int, spread: float, occasion: str) -> None:
    """What all machines do together, with the documented setting: hardly one is throttled, and each has a plan in time."""
    booted, together, part = TOGETHER[occasion]
    machines = [Machine(number, booted, spread) for number in range(1, count + 1)]
    day = Day(calls)
    together(machines, day)
    began = min(day.passed)
    figures = f"{day.tries} of {calls}; the last {max(day.passed) - began:.0f} s after the first"
    assert day.refused <= FEW, figures
    assert (len(day.passed), max(day.passed) - began <= spread * part + 60.0) == (count, True), figures


@pytest.mark.thorough
def test_a_setting_that_is_too_short_heals(calls: Counter[str]) -> None:
    """Ten thousand machines with the default of 20m: most are throttled at first, and all have a plan after some hours."""
    machines = [Machine(number, 60.0, 1_200.0) for number in range(1, 10_001)]
    day = Day(calls)
    boot(machines, day)
    assert day.refused > 0.5
    assert len(day.passed) == 10_000
    assert max(day.passed) < 4 * 3600.0


def test_the_arithmetic_of_the_documentation(calls: Counter[str]) -> None:
    """Calls of one plan, the narrowest of the account's rates, and so a second for each machine: a fifth of that rate."""
    narrowest = max(calls, key=lambda name: calls[name] / LIMITS[name][1])
    assert (narrowest, calls[narrowest], LIMITS[narrowest][1]) == ("StopInstances", 1, 5.0)
    assert calls[narrowest] / 1.0 == pytest.approx(LIMITS[narrowest][1] / 5.0)
    assert calls[narrowest] / time_limits.EARLY_SHARE < LIMITS[narrowest][1]
    text = " ".join((Path(__file__).parents[2] / "docs" / "actions.md").read_text().split())
    assert f"{sum(calls.values())} calls" in text
    assert "one second for each machine" in text
