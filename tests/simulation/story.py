"""One machine's life under the guard, with everything that goes wrong in it."""

import random
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from costguard.agent.loop import Loop
from costguard.engine.state import Core
from costguard.testing.simhost import Machine, Phase, SimCrash, SimHost, SimOff, World
from tests.simulation.monitor import Monitor, Violation
from tests.simulation.surroundings import policy, script
from tests.simulation.troubles import Troubles, strike

DAY = 86400.0
FAULT_EVERY = 3000.0
"""Mean seconds between faults that come by themselves; more come with phases that are rare."""

RING = 90.0


class Report(NamedTuple):
    """What a story saw."""

    seed: int
    seconds: float  # that the machine ran
    met: dict[tuple[str, str], int]
    counts: dict[str, int]
    guards: int
    boots: int


class Story:
    """A life of ``days`` of running time, told by ``seed`` alone."""

    def __init__(self, seed: int, days: float, *, verbose: bool = False) -> None:
        self.seed, self.days, self.verbose = seed, days, verbose
        self.rng = random.Random(seed)
        gpus = self.rng.choice((1, 1, 2, 3))
        self.machine = Machine(gpus, script(self.rng, gpus), ring=RING, counters=self.rng.random() < 0.7)
        self.world = World(self.machine, seed=seed + 1)
        self.config: dict[str, Any] = policy(self.rng)
        self.log: deque[str] = deque(maxlen=60)
        self.damage: Callable[[], object] | None = None
        self.off_for: float | None = None
        self.crashes = 0
        self.announcements = 0
        self.guards = 0
        self.ran = 0.0
        self.monitor = Monitor(self)
        self.troubles = Troubles(self)
        self.host: SimHost
        self.loop: Loop | None = None
        self._fault_due = 0.0

    @property
    def phase(self) -> str:
        """The phase that the guard is in, or was."""
        return self.core().phase if self.loop is not None else "WATCHING"

    def core(self) -> Core:
        """What the guard's engine remembers, to be looked at only."""
        assert self.loop is not None
        return self.loop.last.state.core

    # -- the life --------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Live; raises `Violation`, or whatever the guard could not bear, with the log's end."""
        began = self.world.now
        self._plan_faults()
        try:
            while self.ran + self.world.now - began < self.days * DAY:
                try:
                    self._guard()
                    self.world.pass_time(self.rng.choice((0.5, 5.0, 60.0, 300.0)))
                except SimOff:
                    self.ran += self.world.now - began
                    self._off()
                    began = self.world.now
        except (Exception, Violation) as error:
            error.add_note(self._epilogue())
            raise
        return Report(
            self.seed,
            self.ran + self.world.now - began,
            dict(self.troubles.met),
            dict(self.monitor.counts),
            self.guards,
            self.world.boots,
        )

    def _guard(self) -> None:
        """One guard, from its start to its end."""
        self.guards += 1
        if self.damage is not None:
            self.damage()
            self.damage = None
        self.monitor.guard_began()
        self.host = SimHost(world=self.world, watch=self.monitor, faults=self.troubles)
        if self.crashes:
            self.crashes -= 1
            self.host.doom = self.rng.randint(1, 60)
        self.note("the guard starts")
        try:
            self.loop = Loop(self.host, self.config, self.world.start())
            self.world.at(self.world.now + self.days * DAY, lambda: self.host.signal("TERM"))
            code = self.loop.run()
        except SimCrash:
            self.note("the guard is killed")
            self.host.die()
            return
        except SimOff:
            self.host.die()
            raise
        self.note(f"the guard ends with code {code}")
        left = [type(program).__name__ for program in self.host.children.values() if not program.outlives]
        self.host.die()
        if code != 0:
            raise Violation(f"the guard ended with code {code}")
        if set(left) - {"Persister", "Historian"}:  # these see the end of their input, and write what they have
            raise Violation(f"a guard that ended left {left}")

    def _off(self) -> None:
        """The machine is off until a person, or the cloud, starts it again."""
        seconds = self.off_for or self.rng.choice((60.0, 600.0, 3 * 3600.0, 30 * 3600.0)) * self.rng.uniform(0.5, 2)
        self.note(f"the machine is off for {seconds:.0f} s")
        self.monitor.went_off()
        self.off_for = None
        self.damage = None
        self.world.now += seconds
        self.world.boot()
        self.machine.cut(self.world.now, Phase(self.rng.uniform(60.0, 1500.0), 0.002, "boot"))
        if self.rng.random() < 0.5:  # started and forgotten, or started to work
            self.machine.cut(self.world.now, Phase(self.rng.uniform(1.0, 6.0) * 3600.0, 0.002, "forgotten"))
        if self.rng.random() < 0.3:
            self.config = policy(self.rng)
        self.monitor.booted()
        self._plan_faults()
        self.world.pass_time(15.0)

    # -- faults ----------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        self._fault_due += 1  # faults planned before a boot are void
        self.world.after(self.rng.expovariate(1 / FAULT_EVERY), self._fault)

    def _fault(self) -> None:
        self.world.after(self.rng.expovariate(1 / FAULT_EVERY), self._fault)
        if getattr(self, "host", None) is not None and self.host.alive:
            strike(self, self.rng)

    def entered(self, phase: str) -> None:
        """A phase began; the rare ones draw trouble."""
        spread = {"WARNING": self.config["policy"]["grace"], "ACTING": 2.0, "CONFIRMING": 30.0, "FAILED": 3000.0}.get(
            phase
        )
        if spread is None:
            return
        host = self.host

        def trouble() -> None:
            if host.alive:
                strike(self, self.rng)

        for _ in range(self.rng.choice((1, 3, 5) if phase == "FAILED" else (0, 1, 2))):
            self.world.after(self.rng.uniform(0.0, spread), trouble)

    def crash_again(self, times: int) -> None:
        """The next guards are killed early as well."""
        self.crashes = times

    def reload(self, rng: random.Random) -> None:
        """HUP, with a good or a bad configuration."""
        self.world.configuration = policy(rng) if rng.random() < 0.5 else None
        self.host.signal("HUP")

    def ask(self, asked: dict[str, Any] | bytes, kind: str = "") -> None:
        """A control client."""
        uid = 0 if kind == "stop" else self.rng.choice((0, 1000))
        client = self.host.request(uid, asked)
        if kind:
            self.monitor.asked[client] = (kind, uid)

    def hold(self, rng: random.Random) -> None:
        """A person postpones."""
        self.ask({"command": "hold", "seconds": rng.choice((600, 3600, 4 * 3600, 90000)), "reason": "a run"}, "hold")

    def stop(self) -> None:
        """Root wants the machine to stop, whatever it does."""
        self.ask({"command": "stop"}, "stop")

    def release(self) -> None:
        """A person ends holds."""
        self.ask({"command": "release"}, "release")

    # -- the account -----------------------------------------------------------------------------------------

    def note(self, line: str) -> None:
        """A line of the log."""
        text = f"{self.world.now:12.1f} boot {self.world.now - self.world.boot_zero:9.1f}  {line}"
        self.log.append(text)
        if self.verbose:
            print(text, flush=True)

    def _epilogue(self) -> str:
        lines = list(self.log)[-40:]
        again = f"python -m tests.simulation --seed {self.seed} --days {self.days:g} --verbose"
        policy_now = {k: v for k, v in self.config["policy"].items() if v not in (None, "", ())}
        return "\n".join(["", *lines, f"policy: {policy_now}", f"seed {self.seed}; again: {again}"])


def tell(error: BaseException) -> str:
    """The story's end as text."""
    return "".join(traceback.format_exception(error))
