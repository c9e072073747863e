"""One machine's life under the guard, with everything that goes wrong in it."""

import random
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from costguard.agent.loop import Loop
from costguard.agent.recorder import Beside, Recorder
from costguard.engine.events import Event
from costguard.engine.machine import Step
from costguard.engine.observation import Observation
from costguard.engine.state import Core
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimCrash, SimHost, SimOff, World
from tests.simulation.bents import PLAIN, Bent, bent_of
from tests.simulation.judge import Judge, Violation
from tests.simulation.surroundings import (
    Spent,
    forgotten,
    lost_at_boot,
    policy,
    script,
    short,
    unattended,
    unseen,
    varied,
)
from tests.simulation.terms import NEVER
from tests.simulation.troubles import OPERATIONS, USER, Troubles, befalls, happens, strike

Thing = TypeVar("Thing")

DAY = 86400.0
CALM_FOR = 1.1 * DAY
"""Seconds after which somebody switches a machine off again that nobody touched: what comes once a day is seen there."""

RESTS, SHORT_RESTS = (3600.0, 9000.0), (600.0, 600.0, 600.0, 1200.0, 1200.0, 4500.0)
"""Seconds for which nobody works once all has come of that that can, and in a brisk life: what is repeated after an hour shows in the longer ones."""

FATES: tuple[tuple[str, ...], ...] = (
    ("left alone",) * 3,
    ("switched off", "left alone"),
    ("switched off", "switched off", "left alone"),
    ("looked at", "left alone"),
    ("looked at, and switched off", "left alone"),
    ("looked at, and switched off", "left alone"),
    ("stopped", "released"),
)
"""What comes of a forgotten machine, from boot to boot."""

UNDISTURBED = 0.6
"""Share of the boots of a machine that is left alone in which nothing goes wrong by itself."""

WEEK = 7.0
"""A life of more days than that meets everything."""

HOLDS = (600, 600, 1800, 1800, 3600, 7200, 90000)
SHORT_HOLDS = (300, 300, 300, 300, 600, 600, 900, 2400)
"""Seconds for which people hold a machine; in a brisk life the machine has soon something to decide again."""

ASKED_EVERY = 290.0
"""Seconds after which somebody asks how a brisk machine stands."""

RECORDED = 0.2
"""Share of guards that write a history, which decides nothing and takes a fifth of the time."""

AFTER_THE_END = 900.0
"""Seconds in which something may befall a guard that is done."""

ENLIVENED = 0.7
"""Share of ends after which the machine does not stay as it is for long."""

LEFT_ALONE = {"DONE": (0.35, 900.0), "FAILED": (0.5, 4500.0)}
"""Share of these ends in a brisk life after which nobody comes and nothing goes wrong, and seconds for which: longer than anything that the guard waits for then."""

RING = 180.0
"""Seconds that a reader's first look reaches back: more than an interval."""


ORDERLY, ORDERLY_TIMER = 0.7, 0.9
"""Share of shutdowns in which the guard is told to end before the power goes; and of a machine that a timer starts."""


class Surroundings(World):
    """A world whose machine shuts down in an orderly way, as a rule."""

    def __init__(self, machine: Machine, *, seed: int, tell: Callable[[], bool]) -> None:
        super().__init__(machine, seed=seed)
        self._tell = tell
        self.ending = False
        """Whether the machine is shutting down: what ends is not started again."""

    def power_off(self) -> None:
        """It goes off, at once or after its services have ended."""
        if self.ending:
            return
        if not self._tell():
            super().power_off()
        self.ending = True
        self.after(self.random.uniform(3.0, 30.0), super().power_off)

    def boot(self, *, instance: str | None = None) -> None:
        """A new boot."""
        super().boot(instance=instance)
        self.ending = False


class Unrecorded(Recorder):
    """A history of nothing."""

    def tick(self, now: Instant, step: Step, seen: Observation, interval: float) -> None:
        """Nothing is counted."""

    def note(self, event: Event, before: Core, step: Step, wall: float, beside: Beside) -> None:
        """Nothing is kept."""


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

    def __init__(self, seed: int, days: float, *, bent: Bent | None = None, verbose: bool = False) -> None:
        self.seed, self.days, self.verbose = seed, days, verbose
        self.rng = random.Random(seed)
        self.bent, self.given = bent or bent_of(seed), bent is not None
        gpus = self.rng.choice(self.bent.gpus)
        self.money = self.rng.random() < 0.6
        may_be = self.bent is not PLAIN and days <= WEEK
        self.alone = may_be and self.rng.random() < self.bent.alone  # nothing else goes wrong
        self.config = self._policy(Spent())
        self.ruled = self.config  # under which the guard works
        phases = script(self.rng, gpus, lambda: self.config["policy"], brisk=self.bent.brisk)
        self.machine = Machine(gpus, phases, ring=RING, counters=self.rng.random() < 0.5)
        self.world = Surroundings(self.machine, seed=seed + 1, tell=self._shuts_down)
        self.log: deque[str] = deque(maxlen=60)
        self.damage: Callable[[], object] | None = None
        self.off_for: float | None = None
        self.moves_to: str | None = None
        self.misdated = False  # the next boot has a wrong date
        self.loses = False  # and in the next one a GPU cannot be read
        self.wrong_by = self.right_at = 0.0  # by so many seconds the date is wrong, and until when
        self.crashes = 0
        self.away: float | None = None  # seconds until the next guard
        self.undisturbed = False  # nothing goes wrong by itself in this boot
        self.alone_until = 0.0  # nor does anything until then
        self._fates: list[str] = []
        self._decks: dict[tuple[object, ...], list[Any]] = {}
        self.calm = self.bent.calm == 1.0
        if self.calm:
            self._calms_down()
            self.ruled = self.config
        self.timer = False  # what starts the machine, and nobody works on it
        self.announcements = 0
        self.guards = 0
        self.ran = self.began = 0.0
        self.loop: Loop | None = None
        self.troubles = Troubles(self)
        self.judge = Judge(self)
        self.host: SimHost
        self._last_phase = "WATCHING"

    @property
    def phase(self) -> str:
        """The phase that the guard is in, or was."""
        return self.core().phase if self.loop is not None else "WATCHING"

    def core(self) -> Core:
        """What the guard's engine remembers: it draws trouble, and is never judged by."""
        assert self.loop is not None
        return self.loop.last.state.core

    @property
    def running(self) -> float:
        """Seconds that the machine has run."""
        return self.ran + self.world.now - self.began

    def _owner(self) -> dict[str, Any]:
        """Somebody's configuration; the price is the cloud's."""
        ran = self.judge.ran_stored + self.judge.awake()
        if self.rng.random() < 0.3:
            return varied(self.rng, self.config)
        begun = self.judge.budget_since
        spent = Spent(ran, 0.0 if begun in {None, NEVER} else ran - (begun or 0.0), self.world.instant().wall)
        return self._policy(spent)

    def _policy(self, spent: Spent) -> dict[str, Any]:
        return policy(self.rng, spent, priced=self.money, always=self.bent.options(self.rng, spent))

    # -- the life --------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Live; raises `Violation`, or whatever the guard could not bear, with the log's end."""
        self._plan_faults()
        try:
            while self.running < self.days * DAY:
                try:
                    self._guard()
                    self.world.pass_time(self._without_a_guard())
                except SimOff:
                    self.ran += self.world.now - self.began
                    self._off()
                    self.began = self.world.now
        except (Exception, Violation) as error:
            error.add_note(self._epilogue())
            raise
        return Report(
            self.seed,
            self.running,
            dict(self.troubles.met),
            dict(self.judge.counts),
            self.guards,
            self.world.boots,
        )

    def next_of(self, things: tuple[Thing, ...]) -> Thing:
        """One of these, in a drawn order: none comes again before each has come."""
        deck = self._decks.setdefault(things, [])
        if not deck:
            deck += self.rng.sample(things, len(things))
        drawn: Thing = deck.pop()
        return drawn

    def _without_a_guard(self) -> float:
        """Seconds until the next one starts."""
        away, self.away = self.away, None
        if self.world.ending:
            return 60.0
        return self.rng.choice((0.5, 5.0, 60.0, 300.0)) if away is None else away

    def _shuts_down(self) -> bool:
        """The machine shuts down; whether the guard hears of that before."""
        if not self.host.alive or self.rng.random() > (ORDERLY_TIMER if self.timer else ORDERLY):
            return False
        self.note("the machine shuts down")
        self.host.signal("TERM")
        return True

    def _guard(self) -> None:
        """One guard, from its start to its end."""
        self.guards += 1
        if self.damage is not None:
            self.damage()
            self.damage = None
        self.host = SimHost(world=self.world, watch=self.judge, faults=self.troubles)
        self.judge.guard_begins()
        if self.crashes:
            self.crashes -= 1
            self.host.doom = self.rng.randint(1, 60)
        self.note("the guard starts")
        try:
            self.loop = Loop(self.host, self.config, self.world.start())
            if self.rng.random() > RECORDED:
                self.loop.history = Unrecorded(self.host, "", self.world.start(), lambda subject, words: None)
            to_live = max(0.0, self.days * DAY - self.running) + 1.0
            self.world.at(self.world.now + to_live, lambda: self.host.signal("TERM"))
            code = self.loop.run()
        except SimCrash:
            self.note("the guard is killed")
            self.judge.killed = self.world.now
            self.host.die()
            return
        except SimOff:
            self.host.die()
            raise
        self.note(f"the guard ends with code {code}")
        left = [
            type(program).__name__
            for program in self.host.children.values()
            if not program.outlives
            and program.job.get("job") != "hook"  # what the owner wants done before a stop goes on
        ]
        self.host.die()
        if code != 0:
            raise Violation(f"the guard ended with code {code}")
        if set(left) - {"Persister", "Historian"}:  # these see the end of their input, and write what they have
            raise Violation(f"a guard that ended left {left}")
        self.judge.guard_ends()

    def _off(self) -> None:
        """The machine is off until a person, or the cloud, starts it again."""
        usual = (3600.0, 3 * 3600.0, 5 * 3600.0) if self.timer else (60.0, 600.0, 3600.0, 3 * 3600.0)
        seconds = self.off_for or self.rng.choice(usual) * self.rng.uniform(0.5, 2)
        self.note(f"the machine is off for {seconds:.0f} s")
        self.judge.going_off()
        self.off_for, self.damage = None, None
        self.world.now += seconds
        same = self.moves_to is None
        self._boots()
        self._next_act()
        self.ruled = self.config
        self.judge.booted(same=same)
        self._plan_faults()
        self.world.pass_time(15.0)

    def _boots(self) -> None:
        self.world.boot(instance=self.moves_to)
        self.moves_to = None
        self.machine.counters = self.rng.random() < 0.5
        if self.rng.random() < 0.08:  # the driver brings up one GPU later than the others
            self.troubles.arm("nvml", "missing", self.rng.choice((1, 2, 5)))
        if self.rng.random() < 0.04:  # nothing that drives a GPU is found
            self.troubles.arm("nvml", "empty", self.rng.choice((5, 60)))
        if self.wrong_by:  # it was not right before the machine went off
            self.world.at(max(self.right_at, self.world.now + self.rng.uniform(60.0, 3600.0)), self._date_is_right)
        elif self.misdated or self.rng.random() < self.bent.wrong_dates:
            # the date is wrong until a server of time answers
            flat = not self.misdated and self.rng.random() < self.bent.flat
            hours = self._flat_battery() if flat else self.rng.choice((-1, 1)) * self.rng.uniform(2.0, 40.0)
            self.misdated = False
            self.world.wall_offset += hours * 3600.0
            self.wrong_by = hours * 3600.0
            self.world.synced = self.rng.choice((False, False, None))
            self.judge.wall_jumped()
            longest = self.rng.choice((3600.0, self.bent.wrong_for))
            self.right_at = self.world.now + self.rng.uniform(60.0, longest)
            self.world.at(self.right_at, self._date_is_right)
        self.world.verdicts = {}
        self.world.hatch = "costguard=off" if not self.alone and self.rng.random() < 0.1 else ""
        if self.world.hatch:  # nothing ends such a boot, and nothing happens in it
            hours = self.rng.uniform(0.1, 0.5) if self.bent.brisk else self.rng.uniform(0.5, 3.0)
            self.world.after(hours * 3600.0, self.world.power_off)

    def _flat_battery(self) -> float:
        """Hours by which the date of a machine is wrong whose clock stood still while it was off."""
        return -24.0 * self.rng.uniform(30.0, 400.0)

    def _date_is_right(self) -> None:
        self.world.wall_offset -= self.wrong_by
        self.wrong_by = 0.0
        self.world.synced = True
        self.judge.wall_jumped()

    def _next_act(self) -> None:
        """Who starts the machine: its owner, to work; a timer, over and over; or somebody who has other plans for it."""
        longest = 200.0 if self.bent.brisk else 900.0
        self.machine.cut(self.world.now, Phase(self.rng.uniform(60.0, longest), 0.002, "boot"))
        if self.bent.brisk and self.rng.random() < self.bent.late:  # one cannot be read from the boot on
            self.machine.cut(self.world.now, *lost_at_boot(self.rng, len(self.machine.keys), self.config["policy"]))
        choice = self.rng.random()
        usual = 0.85 if self.timer else 0.25
        before, self.timer = self.timer, choice < (usual if self.bent.timer is None else self.bent.timer)
        self.undisturbed = False
        if self.timer:  # started and forgotten, again and again
            if not before:
                plans = [self._owner() for _ in range(8)]
                self.config = next((plan for plan in plans if unattended(plan)), plans[0])
            elif not self.bent.steady and self.rng.random() < 0.2:
                self.config = varied(self.rng, self.config)
            self._forgotten(self.config["policy"])
        elif not self.bent.steady and choice < (0.4 if self._has_deadline() else 0.75):
            self.config = self._owner()
        self.calm = self.rng.random() < self.bent.calm
        if self.calm:
            self._calms_down()
        if self.loses:
            lost = {self.rng.randrange(len(self.machine.keys)): "NVML 15: GPU is lost"}
            self.machine.cut(self.world.now, Phase(self.rng.uniform(1200.0, 2400.0), 0.002, "lost", unknown=lost))
            self.loses = False

    def _calms_down(self) -> None:
        """A day on which nothing happens, nor is the machine stopped: no plan passes, a GPU cannot be read, or its owner says so."""
        why = self.next_of(self.bent.stays_up)
        kept = {"admin_hold": "a fair"} if why == "a fair" else {"mode": "dry-run"}
        self.config = {**self.config, "policy": {**self.config["policy"], **kept}}
        if why == "a fair":
            return
        lost = {0: "NVML 15: GPU is lost"} if why == "unreadable" else {}
        if lost:  # nor does anybody hear whether it could be stopped
            self.world.after(0.0, lambda: self.troubles.arm("plan", "die", 400, CALM_FOR))
        works = Phase(900.0, 0.97, "job")
        self.machine.cut(
            self.world.now, Phase(300.0, 0.002, "boot"), works, Phase(2 * DAY, 0.002, "idle", unknown=lost)
        )
        if not lost:
            finding = {"code": "denied", "text": "the right to do this is missing", "hint": "costguard permissions"}
            actions = (self.config["policy"]["kill_action"], *self.config["policy"]["fallback"])
            self.world.verdicts = {action: {"verdict": "refuse", "findings": [finding]} for action in actions}

    def _forgotten(self, given: dict[str, Any]) -> None:
        """Nobody works on this machine; it is left alone, or cut off before anybody has decided anything, or a person looks after it."""
        if not self._fates:
            self._fates = [*self.next_of(FATES)][::-1]
        fate, rng, gpus = self._fates.pop(), self.rng, len(self.machine.keys)
        self.undisturbed = fate == "left alone" and rng.random() < UNDISTURBED
        looked_at = fate.startswith("looked at")
        longer = 900.0 if self.bent.brisk else 3600.0
        phases = forgotten(rng, given["unused_after"], gpus, given["arm_duration"], longer, looked_at=looked_at)
        self.machine.cut(self.world.now, *phases)
        moment = rng.uniform(0.6 if looked_at else 0.2, 0.9) * (given["unused_after"] or 3600.0)
        befalls_it = {
            "switched off": self.world.power_off,
            "looked at, and switched off": self.world.power_off,
            "stopped": self._by_root(self.stop),
            "released": self._by_root(lambda: self.release(0)),
        }
        if fate in befalls_it:
            self.world.after(moment, befalls_it[fate])

    def _by_root(self, wish: Callable[[], None]) -> Callable[[], None]:
        return lambda: wish() if self.host.alive else None

    def _has_deadline(self) -> bool:
        """Whether the owner's configuration names a moment that is still to come."""
        given, ran = self.config["policy"], self.judge.ran_stored
        return bool(given["budget"] or (given["lifetime"] or 0.0) > ran)

    # -- faults ----------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        means, boot = self.bent.faults_every, self.world.boots
        every = means[-1] if self.timer else self.rng.choice(means)
        if self.calm:
            self.world.after(CALM_FOR, self.world.power_off)
        if self.calm or self.undisturbed:
            return

        def fault() -> None:
            if self.world.boots != boot:
                return  # faults planned before a boot are void
            self.world.after(self.rng.expovariate(1 / every), fault)
            if self._may_strike():
                strike(self, self.rng)

        def owner() -> None:
            if self.world.boots != boot:
                return
            self.world.after(self.rng.expovariate(1 / self.bent.owner_every), owner)
            if self._may_strike():
                self.edited() if self.rng.random() < 0.3 else self.reload(self.rng)

        if self.bent.brisk:
            self._asks(boot)
        self.world.after(self.rng.expovariate(1 / every), fault)
        if (
            not self.alone and self._has_deadline() and self.rng.random() < 0.5
        ):  # which comes later by what the machine sleeps
            self.world.after(self.rng.uniform(0.0, 2 * 3600.0), lambda: happens(self, self.rng, "suspend"))
        if not self.timer:
            self.world.after(self.rng.expovariate(1 / self.bent.owner_every), owner)

    def _may_strike(self) -> bool:
        """Whether there is a guard, and something may go wrong with it now."""
        return getattr(self, "host", None) is not None and self.host.alive and self.world.now >= self.alone_until

    def _asks(self, boot: int) -> None:
        """Somebody asks now and then how it stands, as long as this boot lasts."""
        if self.world.boots != boot:
            return
        self.world.after(ASKED_EVERY, lambda: self._asks(boot))
        if getattr(self, "host", None) is not None and self.host.alive:
            self.ask({"command": "status"}, "status", uid=USER)

    def look_around(self) -> None:
        """The guard waits: a phase that began just now draws trouble."""
        phase = self.phase
        if phase != self._last_phase:
            self._last_phase = phase
            if self._is_left_alone(phase):
                return
            struck = self._entered(phase)
            lively = phase == "DONE" and not (struck or self.calm) and (self.bent.brisk or not self.bent.in_done)
            if lively and self.rng.random() < ENLIVENED:
                self._enliven()

    def _is_left_alone(self, phase: str) -> bool:
        """Whether the machine stays as it is after this end for longer than the guard waits for anything."""
        share, seconds = LEFT_ALONE.get(phase, (0.0, 0.0))
        if not self.bent.brisk or self.rng.random() >= share:
            return False
        given = self.config["policy"]
        self.alone_until = self.world.now + seconds + given["kill_duration"] + given["grace"]
        self.machine.cut(self.world.now, Phase(self.alone_until - self.world.now, 0.002, "left alone"))
        return True

    def _enliven(self) -> None:
        """What comes next on the machine comes soon: a guard that is done has nothing to decide until then."""
        boot = self.world.boots

        def work() -> None:
            if self.world.boots == boot and self.phase == "DONE":
                self.machine.cut(self.world.now)

        self.world.after(self.rng.uniform(120.0, 400.0 if self.bent.brisk else 1200.0), work)

    def released(self, action: str) -> None:
        """A request goes out: now and then the guard is killed in that very moment."""
        killed = 0.5 if action == "command" else 0.25 if self.bent.brisk else 0.1
        if (self.bent.brisk or not self.alone) and self.rng.random() < killed:
            self.host.doom = self.rng.randint(1, 4)

    def _entered(self, phase: str) -> bool:
        """A phase began; the rare ones draw trouble. Whether what this life is mostly about befalls it."""
        grace = self.config["policy"]["grace"]
        spread = {"WARNING": grace, "ACTING": 2.0, "CONFIRMING": 30.0, "FAILED": 3000.0}.get(phase)
        struck = self._strikes_now(phase, spread)
        if spread is not None and not self.alone and self.rng.random() < 0.6:  # else all goes well
            self._draws_trouble(phase, grace, spread)
        return struck

    def _draws_trouble(self, phase: str, grace: float, spread: float) -> None:
        host = self.host

        def held() -> None:
            if host.alive:
                self.hold(self.rng)

        def trouble() -> None:
            if host.alive:
                strike(self, self.rng)

        if phase == "WARNING" and self.rng.random() < 0.1:  # the guard dies while people are being warned
            self.world.after(self.rng.uniform(0.1, 2.0), lambda: setattr(host, "doom", 1))
        if phase == "WARNING" and self.rng.random() < 0.3:
            self.troubles.arm("go", self.rng.choice(("fail", "fail", "die_after")), self.rng.choice((1, 3, 9)))
        if phase == "WARNING":
            self._countdown(grace)
        if phase in {"ACTING", "CONFIRMING"} and self.rng.random() < 0.3:
            self.world.after(self.rng.uniform(0.5, 5.0), held)
        for _ in range(self.rng.choice((1, 3, 5) if phase == "FAILED" else (0, 1, 2))):
            self.world.after(self.rng.uniform(0.0, spread), trouble)

    def _strikes_now(self, phase: str, spread: float | None) -> bool:
        """What this life is mostly about befalls every second countdown, or request; whether it does this one."""
        bent, in_action = self.bent, self.bent.in_action
        of_phase = {"WARNING": bent.in_countdown, "ACTING": in_action, "CONFIRMING": in_action, "DONE": bent.in_done}
        happenings = of_phase.get(phase)
        if not happenings or self.rng.random() > (0.7 if self.bent.brisk else 0.5):
            return False
        what, within = self.next_of(happenings), 0.8 * (spread or AFTER_THE_END)
        self.world.after(self.rng.uniform(0.0, within), lambda: befalls(self, self.rng, what))
        return True

    def _countdown(self, grace: float) -> None:
        """A countdown runs: what must end it, or hold it up, comes in time for that."""
        rng = self.rng
        if rng.random() < 0.2:
            name = rng.choice(("announcement", "stall", "suspend"))
            self.world.after(rng.uniform(0.0, grace), lambda: happens(self, rng, name))
        given = self.config["policy"]
        if rng.random() < (0.15 if given["fallback"] else 0.03):
            self.troubles.arm("prepare", rng.choice(("refuse", "refuse", "another")), 1)
        if rng.random() < (0.12 if given["fallback"] else 0.03):
            self.troubles.arm("go", "refused", 1)
        if rng.random() < 0.06:
            self.troubles.standing = rng.uniform(1.0, 5.0) * given["interval"]
        choice = rng.random()
        if choice < 0.1:
            self.machine.cut(self.world.now, *unseen(rng, len(self.machine.keys), grace))
        elif choice < 0.2:
            rest = grace + 900.0
            self.machine.cut(self.world.now, *short(rng, len(self.machine.keys), given["interval"], rest))
        elif choice < 0.25:
            self.world.after(
                rng.uniform(0.0, grace), lambda: self.stands_still(given["interval"] * rng.uniform(2.0, 5.0))
            )

    def told(self, kind: str) -> None:
        """People were told something; now and then they do something about it."""
        if kind == "unknown_alarm" and self.rng.random() < 0.3:
            self.world.after(self.rng.uniform(5.0, 600.0), lambda: happens(self, self.rng, "hold"))

    def works(self) -> bool:
        """Whether a GPU works now."""
        phase = self.machine.phase(self.world.now)
        return any(phase.load_of(gpu) > 0.05 for gpu in range(len(self.machine.keys)))

    def rests(self, *, worked: bool = False) -> float:
        """Nobody works for long enough for all that comes of that; ``worked``: before that somebody does, for as long as arms. Seconds of that work."""
        given, more = self.config["policy"], self.next_of(SHORT_RESTS) if self.bent.brisk else self.rng.choice(RESTS)
        rest = Phase(given["kill_duration"] + given["grace"] + more, 0.002, "idle")
        work = 1.2 * (given["arm_duration"] or 0.0) + 120.0 if worked else 0.0
        self.machine.cut(self.world.now, *([Phase(work, 0.97, "job")] if worked else ()), rest)
        return work

    def stands_still(self, seconds: float) -> None:
        """The guard gets no CPU for a while."""
        if self.host.alive:
            self.troubles.count("stall")
            self.host.stall(seconds)
            self.judge.stalls(seconds)

    def crash_again(self, times: int) -> None:
        """The next guards are killed early as well."""
        self.crashes = times

    def reload(self, rng: random.Random, *, small: bool = False) -> None:
        """HUP, with a good or a bad configuration; ``small``: the same in which one thing is changed."""
        self.world.configuration = varied(rng, self.config) if small else self._owner() if rng.random() < 0.7 else None
        if rng.random() < 0.2:  # each plan is made anew
            self.troubles.arm("plan", rng.choice(OPERATIONS["plan"]), 1)
        self.host.signal("HUP")

    def edited(self) -> None:
        """Somebody changes the configuration and starts the guard again."""
        self.config = self._owner()
        if self.rng.random() < 0.2:
            self.troubles.arm("plan", self.rng.choice(OPERATIONS["plan"]), 1)
        self.host.signal("TERM")

    def ask(
        self, asked: dict[str, Any] | bytes, kind: str = "", seconds: float = 0.0, *, uid: int | None = None
    ) -> None:
        """A control client."""
        uid = self.rng.choice((0, USER)) if uid is None else uid
        client = self.host.request(uid, asked)
        if kind:
            self.judge.asked[client] = (kind, uid, seconds)
            if kind != "status":
                self.judge.holds.asked(uid)

    def hold(self, rng: random.Random, uid: int | None = None) -> None:
        """A person postpones."""
        seconds = rng.choice(SHORT_HOLDS if self.bent.brisk else HOLDS)
        self.ask({"command": "hold", "seconds": seconds, "reason": "a run"}, "hold", float(seconds), uid=uid)

    def extend(self, rng: random.Random, uid: int | None = None) -> None:
        """A person moves the deadline."""
        seconds = rng.choice((600, 1800, 3600, 7200, 21600, 90000))
        asked = {"command": "hold", "seconds": seconds, "reason": "a run", "past_deadline": True}
        self.ask(asked, "extend", float(seconds), uid=uid)

    def stop(self) -> None:
        """Root wants the machine to stop, whatever it does."""
        self.ask({"command": "stop"}, "stop", uid=0)

    def release(self, uid: int) -> None:
        """A person ends holds."""
        self.ask({"command": "release"}, "release", uid=uid)

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
        if self.given:
            again = f"python -m tests.simulation.programme --life {self.seed}"
        policy_now = {k: v for k, v in self.config["policy"].items() if v not in (None, "", ())}
        return "\n".join(["", *lines, f"policy: {policy_now}", f"seed {self.seed}; again: {again}"])


def tell(error: BaseException) -> str:
    """The story's end as text."""
    return "".join(traceback.format_exception(error))
