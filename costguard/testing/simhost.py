"""The guard's host on virtual time: the real loop runs on it, a day in a blink, and twice the same.

Without faults, for a demonstration or a test of one story::

    machine = Machine(gpus=2, script=[Phase(600, 0.0, "boot"), Phase(7200, (0.97, 0.92), "training", jitter=0.03)])
    class Screen(Watch):
        def message(self, now, message, delivered): ...    # facts for costguard.notify.compose
        def ticked(self, now, gpus): ...                   # what the reader answered, see SPEC of the reader
    host = SimHost(machine, seed=1, start_wall=1.7e9, until=86400.0, watch=Screen())
    loop = Loop(host, effective(kill_duration=1800.0, mode="dry-run"), host.start())
    code = loop.run()                                      # SimOff is raised when an action ended the machine

``Watch.turned`` is called whenever the loop waits, with the time that it will wait for: there a screen can be drawn
(``loop.last.sentence``, ``loop.last.state``) and real time be slept. ``host.machine.phase(host.now).name`` is the act
that plays. ``host.request(uid, {...})`` is a control client, ``host.signal("TERM")`` a signal; ``host.world.at(when,
call)`` lets anything happen at a virtual moment. ``until`` sends TERM at that moment (seconds since the start).

Simulations with faults make a `World` that outlives guards, and a `SimHost` of it for each guard.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costguard.engine.policy import Policy
from costguard.host.files import COMMITMENTS, STATE, Start, wrap
from costguard.host.ports import Ended, HostEvent, Instant, Line, Request, Signal, SpawnFailed
from costguard.readers.cloud.job import CloudAnswer
from costguard.readers.host.sense import Sight
from costguard.testing.simmachine import Machine, Phase
from costguard.testing.simprograms import PROGRAMS, Program, encode
from costguard.testing.simworld import SimCrash, SimOff, World

__all__ = ["Faults", "Machine", "Phase", "SimCrash", "SimHost", "SimOff", "Watch", "World", "effective", "sensing"]

FOREVER = 366 * 86400.0
ROUNDING = 1e-6
"""Seconds: the boot clock must have reached the moment that was waited for."""

SPINS = 1000
"""So often in a row the loop may not wait at all."""


class Watch:
    """Callbacks for whoever looks on; each does nothing until it is overridden. ``now`` holds all clocks."""

    def said(self, now: Instant, line: str) -> None:
        """The guard wrote a line to its journal."""

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:  # a callback
        """A notification worker had a message (id, kind, level, facts) and did or did not deliver it."""

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        """The guard asked for a child, whether or not it could be started."""

    def configured(self, now: Instant, effective: dict[str, Any]) -> None:
        """The guard got a checked configuration, under which it works from this moment on."""

    def planned(self, now: Instant, job: dict[str, Any], verdict: str) -> None:
        """An action worker said what its plan says: go, consequences, another, refuse."""

    def saved(self, now: Instant, *, done: bool) -> None:
        """The guard saved its state; ``done``: nothing went wrong with that."""

    def released(self, now: Instant, job: dict[str, Any]) -> None:
        """The guard said *go* to a waiting action worker."""

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        """An action was really carried out; ``job`` is its worker's job."""

    def reported(self, now: Instant, job: dict[str, Any], outcome: dict[str, Any]) -> None:
        """An action worker said what became of an attempt, or of the question about it."""

    def ticked(self, now: Instant, gpus: list[list[object]]) -> None:
        """The reader answered: [key, load or None, signs, covered seconds, words] for each GPU."""

    def unsaid(self, now: Instant) -> None:
        """It kept that answer to itself, for the guard hears of it with the next one."""

    def announced(self, now: Instant, answer: CloudAnswer) -> None:
        """The cloud reader answered."""

    def sensed(self, now: Instant, senses: Mapping[str, Sight]) -> None:
        """The host reader answered."""

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        """A control client got its answer."""

    def stored(self, now: Instant, data: dict[str, Any]) -> None:
        """The commitments reached the disk."""

    def served(self, now: Instant, message: str) -> None:
        """The service manager got a message."""

    def turned(self, now: Instant, until: float) -> None:
        """The loop has nothing to do until the boot clock reads ``until``, or something happens."""


class Faults:
    """What goes wrong. This one: nothing."""

    def take(self, subject: str, host: "SimHost") -> str:
        """What goes wrong with this very operation; empty when nothing does.

        ``subject``: nvml (a read), cloud (a read), host (a look), plan, prepare, go, confirm, hook, notify, persist, configure, history, beat, spawn (a child's name
        follows a colon), save, commitments (the state file and the runtime copy).
        """
        del subject, host
        return ""


def effective(policy: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """An effective configuration, as the guard gets it: the defaults with some fields of the policy changed."""
    return {
        "policy": {**Policy()._asdict(), **(policy or {}), **changes},
        "actions": {"command": {"run": ["true"], "timeout": 60}, "shutdown": {}, "reboot": {}},
        "notify": {"local": ["wall"], "attempts": 3},
        "host": {"procfs": "/proc", "sysfs": "/sys", "devfs": "/dev", "stands_for_host": False},
        "providers": [],
        "paths": {"state": "/simulated/state", "runtime": "/simulated/runtime"},
        "source": None,
        "arguments": {},
        "version": "simulated",
    }


def sensing(config: dict[str, Any], *names: str, required: bool = True) -> dict[str, Any]:
    """The same with senses that are switched on; what they see stands in `World.activities` and `World.unseen`."""
    sense = {"enabled": True, "required": required, "hatch": False}
    return {**config, "senses": {"enabled": True, **{name: dict(sense) for name in names}}}


class SimHost:
    """Implements `costguard.host.ports.Host` for one life of the guard."""

    def __init__(
        self,
        machine: Machine | None = None,
        *,
        seed: int = 0,
        start_wall: float = 1.7e9,
        until: float | None = None,
        world: World | None = None,
        watch: Watch | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.world = world or World(machine or Machine(), seed=seed, start_wall=start_wall)
        self.machine = self.world.machine
        self.watch = watch or Watch()
        self.faults = faults or Faults()
        self.children: dict[int, Program] = {}
        self.undead: list[tuple[float, str]] = []  # when children that SIGKILL does not end will go, and what they are
        self.doom = 0  # the guard dies at the so-many-eth call from now; 0: it lives
        self.alive = True
        self._inbox: deque[HostEvent] = deque()
        self._last_child = 0
        self._last_client = 0
        self._stalled_until = 0.0
        self._spins = 0
        if until is not None:
            self.world.at(until, lambda: self.signal("TERM"))

    # -- for whoever runs it ---------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """True seconds since the beginning."""
        return self.world.now

    def start(self) -> Start:
        """What the guard finds when it starts."""
        return self.world.start()

    def request(self, uid: int, asked: dict[str, Any] | bytes) -> int:
        """A control client asks; gives its number."""
        self._last_client += 1
        self._deliver(Request(self._last_client, uid, asked if isinstance(asked, bytes) else encode(asked)))
        return self._last_client

    def signal(self, name: str) -> None:
        """TERM, INT or HUP."""
        self._deliver(Signal(name))

    def stall(self, seconds: float) -> None:
        """The guard gets no CPU for a while; what happens meanwhile waits for it."""
        self._stalled_until = self.now + seconds

    def die(self) -> None:
        """The guard is gone: children see the end of their input; one that acts finishes."""
        self.alive = False
        for child in [number for number, program in self.children.items() if not program.outlives]:
            del self.children[child]

    # -- for programs ----------------------------------------------------------------------------------------

    def later(self, child: int, seconds: float, call: Callable[[], None]) -> None:
        """Do something after a while, if the child still lives then."""

        def happen() -> None:
            if child in self.children:
                call()

        self.world.after(seconds, happen)

    def emit(self, child: int, seconds: float, line: bytes) -> None:
        """A line of a child."""
        if seconds <= 0:
            self._deliver(Line(child, line))
            return

        def arrive() -> None:
            if child in self.children and self.alive:
                self._inbox.append(Line(child, line))

        self.world.after(seconds, arrive)

    def expire(self, child: int, seconds: float, code: int) -> None:
        """The end of a child."""

        def happen() -> None:
            del self.children[child]
            self._deliver(Ended(child, code))

        self.later(child, seconds, happen)

    # -- Host ------------------------------------------------------------------------------------------------

    def clock(self) -> Instant:
        """All clocks."""
        if self.doom:
            self._boundary()
        return self.world.instant()

    def wait(self, until: float) -> Sequence[HostEvent]:
        """Let time pass until something reaches the guard."""
        if self.doom:
            self._boundary()
        world = self.world
        self.watch.turned(world.instant(), until)
        end = min(until + world.boot_zero + ROUNDING, world.now + FOREVER)
        self._spins = self._spins + 1 if end <= world.now else 0
        if self._spins > SPINS:
            raise RuntimeError(f"the loop spins: it waits for a moment {world.now - end:.1f} s ago")
        while not self._inbox and world.now < end and world.happen(end):
            pass
        while self._stalled_until > world.now and world.happen(self._stalled_until):
            pass
        events = list(self._inbox)
        self._inbox.clear()
        return events

    def spawn(self, program: str, job: bytes) -> int:
        """Start a simulated program."""
        if self.doom:
            self._boundary()
        given = _decode(job)
        self.watch.started(self.world.instant(), program, given)
        if self.faults.take(f"spawn:{program}", self):
            raise SpawnFailed(f"cannot start {program}: Resource temporarily unavailable")
        self._last_child += 1
        number = self._last_child
        made = PROGRAMS[program]
        self.children[number] = made(self, number, given)
        return number

    def send(self, child: int, line: bytes) -> bool:
        """A line for a child."""
        if self.doom:
            self._boundary()
        program = self.children.get(child)
        if program is None or self.faults.take("send", self):
            return False
        program.line(line)
        return True

    def kill(self, child: int) -> None:
        """SIGKILL, at once or, for a child in the kernel's hands, some time later."""
        if self.doom:
            self._boundary()
        program = self.children.pop(child, None)
        if program is None:
            return
        program.killed = True
        record = self.world.results.get(program.job.get("attempt", ""))
        if record is not None and program.job["job"] == "act":
            record["running"] = False
        self._inbox = deque(event for event in self._inbox if getattr(event, "child", None) != child)
        if self.faults.take("kill", self):
            kind = next(name for name, made in PROGRAMS.items() if isinstance(program, made))
            self.undead.append((self.now + self.world.random.uniform(60.0, 7200.0), kind))

    def unreaped(self, program: str = "") -> int:
        """How many killed children the kernel still has."""
        if self.undead:
            self.undead = [(until, kind) for until, kind in self.undead if until > self.now]
        return len([kind for _, kind in self.undead if not program or kind == program])

    def answer(self, client: int, line: bytes) -> None:
        """An answer to a control client."""
        if self.doom:
            self._boundary()
        self.watch.answered(self.world.instant(), client, line)

    def save(self, data: bytes) -> str | None:
        """The state file."""
        if self.doom:
            self._boundary()
        failed = bool(self.faults.take("save", self))
        self.watch.saved(self.world.instant(), done=not failed)
        if failed:
            return "cannot write state.json: No space left on device"
        self.world.runtime[STATE] = wrap("boot_id", self.world.boot_id, data)
        return None

    def save_commitments(self, data: bytes) -> str | None:
        """The runtime copy of the commitments."""
        if self.doom:
            self._boundary()
        if self.faults.take("commitments", self):
            return "cannot write commitments.json: No space left on device"
        self.world.runtime[COMMITMENTS] = wrap("instance", self.world.instance, data)
        return None

    def say(self, line: str) -> None:
        """A line of the journal."""
        if self.doom:
            self._boundary()
        self.watch.said(self.world.instant(), line)

    def service(self, message: str) -> None:
        """A word to the service manager."""
        if self.doom:
            self._boundary()
        self.watch.served(self.world.instant(), message)

    # -- inside ----------------------------------------------------------------------------------------------

    def _deliver(self, event: HostEvent) -> None:
        if self.alive:
            self._inbox.append(event)

    def _boundary(self) -> None:
        self.doom -= 1
        if self.doom == 0:
            raise SimCrash


def _decode(job: bytes) -> dict[str, Any]:
    value = json.loads(job)
    assert isinstance(value, dict)
    return value
