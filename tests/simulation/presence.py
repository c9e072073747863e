"""Lives of machines on which people come and go: what senses see, cannot see, or say wrongly, beside GPUs at work and at rest.

A judge that knows the truth: nothing is stopped while somebody is there, or while that cannot be seen; and once nobody is, and
everything can be seen, people are warned in time. ``python -m tests.simulation.presence --seeds 50 --days 5``.
"""

import argparse
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import (
    Faults,
    Machine,
    Phase,
    SimCrash,
    SimHost,
    SimOff,
    Watch,
    World,
    effective,
    sensing,
)

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
INTERVAL = 30.0
WINDOW, GRACE = 20 * MINUTE, 5 * MINUTE
SLACK = 2 * INTERVAL + 10.0
"""Seconds within which the guard knows of who came."""

NOTICED = 20.0
"""Seconds after which a reader that does not answer a question of the countdown is given up."""

KEPT_TOLD = 1 * HOUR
"""Seconds for which somebody may keep the machine up without work of a GPU, before people hear of that."""

LATE = 6 * MINUTE
"""Seconds within which people are warned once nothing keeps the machine up: a reader that failed is started again by then."""

FAULTS = ("hang", "die", "garbage", "blind")
SENSES = {"terminals": True, "traffic": False}
"""And whether each is required."""


class Broken(BaseException):  # the guard survives every Exception, and must not survive this
    """A rule was broken."""


class Met(NamedTuple):
    """What a life held."""

    warned: int
    acted: int
    cancelled: int
    faults: int
    crashes: int


class Truth(Watch, Faults):
    """What is there, what the guard did, and the rules."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        script = self._script()
        self.world = World(Machine(script=script, ring=4 * INTERVAL), seed=seed + 1, uptime=2 * HOUR)
        self.since: dict[str, float] = {}  # since when each cause has kept the machine up
        self.free = 0.0  # since when none has
        self.fault = ("", 0.0)
        self.failed_at = 0.0
        self.counts = dict.fromkeys(Met._fields, 0)
        self.guard_since = 0.0
        self.doom_at = 0.0
        self.kept_told: float | None = None  # when people heard last that somebody keeps it up, with no work since
        self.host: SimHost

    def _script(self) -> Iterator[Phase]:
        dice = self.random
        while True:
            yield Phase(dice.uniform(2.0, 60.0) * MINUTE, 0.9, "job")
            yield Phase(dice.choice((0.5, 0.9, 1.5, 4.0, 12.0)) * WINDOW * dice.uniform(0.8, 1.2), 0.001, "rest")

    # -- what happens ----------------------------------------------------------------------------------------

    def plan(self) -> None:
        """People come and go, senses go blind, readers fail, guards are killed."""
        for mean, call in (
            (1.2 * HOUR, self._come),
            (3 * HOUR, self._blind),
            (2 * HOUR, self._fail),
            (4 * HOUR, self._kill),
        ):
            self._again(mean, call)

    def _again(self, mean: float, call: Any) -> None:
        def happen() -> None:
            call()
            self._again(mean, call)

        self.world.after(self.random.expovariate(1 / mean), happen)

    def _come(self) -> None:
        sense, world = self.random.choice(list(SENSES)), self.world
        who = (self.random.choice(("ann on pts/3", "bob on pts/4")), self.random.choice(("typed", "opened a shell")))
        world.activities.setdefault(sense, []).append(who)
        self._begins(sense)

        def go() -> None:
            world.activities[sense].remove(who)
            self._ends(sense, bool(world.activities[sense]))

        world.after(self.random.choice((1.0, 5.0, 40.0, 200.0)) * MINUTE * self.random.uniform(0.5, 1.5), go)

    def _blind(self) -> None:
        sense, world = self.random.choice(list(SENSES)), self.world
        if sense in world.unseen:
            return
        world.unseen[sense] = "it cannot see"
        if SENSES[sense]:
            self._begins(f"unseen {sense}")

        def see() -> None:
            world.unseen.pop(sense)
            if SENSES[sense]:
                self._ends(f"unseen {sense}", False)

        world.after(self.random.choice((2.0, 30.0, 120.0)) * MINUTE * self.random.uniform(0.5, 1.5), see)

    def _fail(self) -> None:
        self._fails(self.random.choice(FAULTS))

    def _hang(self) -> None:
        """The fault that nobody hears of."""
        self._fails("hang")

    def _fails(self, word: str) -> None:
        if self.world.now >= self.fault[1]:
            self.failed_at = self.world.now
        self.fault = word, self.world.now + self.random.choice((1.0, 10.0, 40.0)) * MINUTE
        self.counts["faults"] += 1

    def _kill(self) -> None:
        self.doom_at = self.world.now
        self.counts["crashes"] += 1
        self.host.doom = 1

    def _begins(self, cause: str) -> None:
        self.since.setdefault(cause, self.world.now)

    def _ends(self, cause: str, still: bool) -> None:
        if not still:
            self.since.pop(cause, None)
            self.free = self.world.now

    def take(self, subject: str, host: SimHost) -> str:
        """Readers of the host fail for a while."""
        word, until = self.fault
        return word if subject == "host" and host.now < until else ""

    # -- the rules -------------------------------------------------------------------------------------------

    def said(self, now: Instant, line: str) -> None:
        """The guard survives a bug, and tells of it."""
        if "BUG" in line:
            raise Broken(line)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        """Count."""
        if message["kind"] == "kept_up":
            self._kept_up()
        kind = {"warning": "warned", "cancelled": "cancelled"}.get(message["kind"])
        if kind:
            self.counts[kind] += 1
        if kind == "warned":  # what comes in a countdown must be seen in it
            calls = (self._come, self._blind, self._fail, self._hang, self._kill, lambda: None)
            call = self.random.choice(calls)
            self.world.after(self.random.uniform(0.0, 1.1 * GRACE), call)

    def released(self, now: Instant, job: dict[str, Any]) -> None:
        """Nothing is stopped while somebody is there, or while that cannot be seen."""
        self.counts["acted"] += 1
        for cause, since in self.since.items():
            if self.world.now - since > SLACK:
                raise Broken(f"it acts although {cause} for {self.world.now - since:.0f} s")
        failing = self.world.now - self.failed_at
        if failing > SLACK + NOTICED and self.world.now < self.fault[1]:
            raise Broken(f"it acts although the reader has failed for {failing:.0f} s ({self.fault[0]})")

    def _rests_since(self) -> float:
        """When the GPUs worked last."""
        phase = self.world.machine.phase(self.world.now)
        past = self.world.machine.history(0.0, self.world.now)[::-1]
        return (
            next((end for _, end, one in past if one.load != phase.load), 0.0)
            if phase.name != "job"
            else self.world.now
        )

    def _kept_up(self) -> None:
        """People hear that somebody keeps the machine up: only after so long, and once a day."""
        at, rest = self.world.now, self._rests_since()
        if at - rest < WINDOW + KEPT_TOLD - SLACK:
            raise Broken(f"it is said to be kept up {at - rest:.0f} s after its GPUs worked")
        if self.kept_told is not None and rest < self.kept_told and at - self.kept_told < DAY - MINUTE:
            raise Broken(f"people hear again after {at - self.kept_told:.0f} s that somebody keeps it up")
        self.kept_told = at

    def _untold(self) -> None:
        """Somebody has kept it up for long, and all that was seen: then people have heard of that."""
        at, there = self.world.now, [since for cause, since in self.since.items() if cause in SENSES]
        if not there or self.loop.last.state.core.phase != "WATCHING" or self.host.now < self.fault[1]:
            return
        rest = self._rests_since()
        since = max(rest + WINDOW * 1.02, min(there), self.fault[1], self.guard_since)
        if at - since > KEPT_TOLD + LATE and (self.kept_told is None or self.kept_told < rest):
            raise Broken(f"nobody hears that somebody has kept it up for {at - since:.0f} s")

    def ticked(self, now: Instant, gpus: list[list[object]]) -> None:
        """Once nothing keeps it up, people are warned in time."""
        phase, at = self.world.machine.phase(self.world.now), self.world.now
        if hasattr(self, "loop"):
            self._untold()
        if phase.name == "job" or self.since or self.host.now < self.fault[1] or not hasattr(self, "loop"):
            self.free = at
            return
        rest = next(start for start, _, one in self.world.machine.history(0.0, at)[::-1] if one.load == phase.load)
        calm = max(rest + WINDOW * 1.02, self.free, self.fault[1], self.guard_since + WINDOW * 1.02)
        state = self.loop.last.state.core.phase
        if at - calm > LATE + 2 * INTERVAL and state == "WATCHING":
            raise Broken(f"nobody is warned for {at - calm:.0f} s: {self.loop.last.sentence}")

    loop: Loop


def live(seed: int, days: float) -> Met:
    """One life; raises `Broken` with the rule."""
    truth = Truth(seed)
    config = sensing(
        effective(
            interval=INTERVAL, kill_duration=WINDOW, grace=GRACE, boot_grace=0.0, arm_duration=None, unused_after=None,
            mode="live", kill_action="command", unknown_alarm=10 * MINUTE, kept_told_after=KEPT_TOLD,
        ),
        *SENSES,
    )  # fmt: skip
    for name, required in SENSES.items():
        config["senses"][name]["required"] = required
    truth.plan()
    while truth.world.now < days * DAY:
        truth.host = SimHost(world=truth.world, watch=truth, faults=truth, until=days * DAY)
        truth.guard_since = truth.world.now
        truth.loop = Loop(truth.host, config, truth.host.start())
        try:
            truth.loop.run()
        except (SimCrash, SimOff):
            truth.host.die()
            truth.world.pass_time(5.0)
    return Met(**truth.counts)


def main() -> None:
    """Many lives, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--days", type=float, default=3.0)
    given = parser.parse_args()
    for seed in range(given.seed, given.seed + given.seeds):
        print(seed, live(seed, given.days), flush=True)


if __name__ == "__main__":
    main()
