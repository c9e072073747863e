"""What a simulated machine lives through: its jobs, and the policies under which it is guarded.

Everything happens soon, and around the lengths that the policy of the moment speaks of: a window is minutes rather
than an hour, pauses end shortly before it does or shortly after, bursts fill what it tolerates. A day holds as many
decisions as two weeks of a real machine.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from costguard.testing.simhost import Phase, effective

MINUTE, HOUR = 60.0, 3600.0
QUIET, BLIP = 0.002, 0.6
EPOCH = 1.7e9
BUSY = (0.06, 0.14, 0.3, 0.6, 0.97)
"""Loads that a job has: of some, policies differ whether they are work."""

MOODS = (BUSY, BUSY, BUSY, (0.97,), (0.06,), (0.06, 0.14), (0.3,), (0.14, 0.3))
"""Loads of the jobs that come after each other: some owners never load a GPU much."""


class Spent(NamedTuple):
    """What a machine has cost when somebody configures its guard: deadlines are set ahead of that."""

    ran: float = 0.0
    billed: float = 0.0  # running seconds since a budget began
    wall: float = EPOCH


class Rhythm:
    """How long things take, by the policy that is in force when they begin."""

    def __init__(self, rng: random.Random, gpus: int, policy: Callable[[], Mapping[str, Any]]) -> None:
        self.rng, self.gpus, self._policy = rng, gpus, policy
        self.loads: tuple[float, ...] = BUSY

    @property
    def window(self) -> float:
        """Seconds of quiet after which it is idle."""
        return float(self._policy()["kill_duration"])

    @property
    def grace(self) -> float:
        """Seconds from a warning to the action."""
        return float(self._policy()["grace"])

    @property
    def tolerance(self) -> float:
        """Seconds of work that a window may hold, or nearly a minute."""
        return max(50.0, float(self._policy()["window_share"]) * self.window)

    @property
    def arms(self) -> float:
        """Seconds of load that arm."""
        return float(self._policy()["arm_duration"] or 120.0)

    @property
    def unused(self) -> float:
        """Seconds without work after which a machine counts as unused."""
        return float(self._policy()["unused_after"] or HOUR)

    def one(self) -> tuple[float, ...]:
        """Load of one GPU."""
        load = [QUIET] * self.gpus
        load[self.rng.randrange(self.gpus)] = self.rng.choice(self.loads)
        return tuple(load)

    def lost(self) -> dict[int, str]:
        """Some GPUs cannot be read."""
        lost = {number: "NVML 15: GPU is lost" for number in range(self.gpus) if self.rng.random() < 0.5}
        return lost or {self.rng.randrange(self.gpus): "NVML 15: GPU is lost"}


WORKED, DECIDED = frozenset(("job", "session", "burst")), 0.6
"""What is followed, in that share of a brisk life, by a rest that is long enough for all that comes of it."""

BRISK = 0.8
"""Share of the phases of a brisk life that last no longer than a decision needs."""


def script(
    rng: random.Random, gpus: int, policy: Callable[[], Mapping[str, Any]], *, brisk: bool = False
) -> Iterator[Phase]:
    """Jobs, sessions of people, idle spans, single bursts, broken GPUs; for ever. Nobody works right after a boot.

    ``brisk``: most phases are over once all has come of them that can.
    """
    rhythm = Rhythm(rng, gpus, policy)
    for phase in _phases(rng, rhythm):
        enough = 1.2 * rhythm.window + rhythm.grace + 3 * MINUTE
        long = brisk and phase.seconds > enough and rng.random() < BRISK
        yield phase._replace(seconds=enough * rng.uniform(0.8, 1.2)) if long else phase
        if brisk and phase.name in WORKED and rng.random() < DECIDED:
            yield Phase(rng.uniform(1.1, 1.4) * rhythm.window + rhythm.grace + 3 * MINUTE, QUIET, "idle")


def _phases(rng: random.Random, rhythm: Rhythm) -> Iterator[Phase]:
    yield Phase(rng.uniform(MINUTE, 15 * MINUTE), QUIET, "boot")
    makers = (
        _job, _job, _session, _idle, _blip, _twice, _filled, _filled, _burst, _burst, _signs, _signs, _broken, _broken, _flaps,
        _flaps,
    )  # fmt: skip
    while True:
        if rng.random() < 0.2:
            rhythm.loads = rng.choice(MOODS)
        yield from rng.choice(makers)(rhythm)
        if rng.random() < 0.7:  # else what comes next follows at once
            yield from _idle(rhythm)


def unattended(made: Mapping[str, Any]) -> bool:
    """Whether a machine that nobody uses would soon be stopped under a configuration."""
    given = made["policy"]
    soon = (given["unused_after"] or 2 * HOUR) <= HOUR if given["arm_duration"] else given["kill_duration"] <= HOUR
    return bool(given["kill_action"] == "stop" and given["mode"] == "live" and soon and not given["admin_hold"])


def varied(rng: random.Random, made: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration, in which its owner has changed one thing."""
    given = made["policy"]
    name, value = rng.choice((
        ("grace", given["grace"] + 60.0), ("kill_duration", 2 * given["kill_duration"]), ("unknown_alarm", 900.0),
        ("mode", "live" if given["mode"] == "dry-run" else "dry-run"), ("boot_grace", 660.0), ("hold_max", 2.5 * HOUR),
    ))  # fmt: skip
    return {**made, "policy": {**given, name: value}}


def forgotten(
    rng: random.Random, unused: float | None, gpus: int, arms: float | None, longer: float, *, looked_at: bool
) -> tuple[Phase, ...]:
    """Nobody works on a machine that a timer has started; or somebody looks at it, too short to arm it. ``longer``: seconds, at most, that it is left as it is then."""
    whole = (unused or HOUR) * rng.uniform(0.7, 2.0) + rng.uniform(0.0, longer)
    if not looked_at or not arms or arms < 3 * MINUTE:
        return (Phase(whole, QUIET, "forgotten"),)
    load = [QUIET] * gpus
    load[rng.randrange(gpus)] = 0.97
    first = (unused or HOUR) * rng.uniform(0.05, 0.5)
    glance = Phase(rng.choice((20.0, arms * rng.uniform(0.3, 0.8))), tuple(load), "a glance")
    return (Phase(first, QUIET, "forgotten"), glance, Phase(whole, QUIET, "forgotten"))


def _job(its: Rhythm) -> Iterator[Phase]:
    rng = its.rng
    busy = [rng.random() < 0.5 for _ in range(its.gpus)]
    busy[rng.randrange(its.gpus)] = True
    load = tuple(rng.choice(its.loads) if works else QUIET for works in busy)
    yield Phase(rng.choice((8 * MINUTE, 20 * MINUTE, 1.2 * its.window)) * rng.uniform(0.5, 2), load, "job")


def _session(its: Rhythm) -> Iterator[Phase]:
    for _ in range(its.rng.randint(2, 6)):
        yield Phase(its.rng.uniform(30.0, 6 * MINUTE), its.one(), "session")
        yield Phase(its.rng.uniform(MINUTE, 1.1 * its.window), QUIET, "thinking")


def _idle(its: Rhythm) -> Iterator[Phase]:
    """Shorter than a window, or long enough for all that comes after it."""
    rng = its.rng
    long = its.window + rng.choice((0.0, its.grace, its.grace + 8 * MINUTE))
    seconds = rng.choice((0.6 * its.window, 0.6 * its.window, long, long, long, its.unused)) * rng.uniform(0.7, 1.3)
    yield Phase(seconds, QUIET, "idle")


def _blip(its: Rhythm) -> Iterator[Phase]:
    for _ in range(its.rng.randint(1, 4)):
        yield Phase(its.rng.uniform(0.2, 1.2) * its.window, QUIET, "idle")
        yield Phase(its.rng.uniform(2.0, 90.0), its.one(), "blip")


def _twice(its: Rhythm) -> Iterator[Phase]:
    """Bursts each of which a window tolerates, and not both."""
    for _ in range(its.rng.randint(2, 4)):
        yield Phase(its.rng.uniform(0.3, 0.85) * its.window, QUIET, "idle")
        yield Phase(its.rng.uniform(0.5, 1.0) * its.tolerance, its.one(), "burst")


def _filled(its: Rhythm) -> Iterator[Phase]:
    """After work, bursts anywhere in one window: together about as long as that tolerates."""
    rng, bursts = its.rng, its.rng.randint(2, 4)
    yield Phase(rng.uniform(0.5, 1.5) * its.arms + 3 * MINUTE, its.one(), "job")
    work = its.tolerance * rng.uniform(0.8, 1.7)
    rest = max(0.0, its.window * rng.uniform(0.7, 1.0) - work)
    places = sorted(rng.uniform(0.0, rest) for _ in range(bursts))
    for before, place in zip([0.0, *places], places, strict=False):
        yield Phase(place - before, QUIET, "idle")
        yield Phase(work / bursts, its.one(), "burst")
    yield Phase(its.window * rng.uniform(0.5, 1.0) + its.grace, QUIET, "idle")


def _burst(its: Rhythm) -> Iterator[Phase]:
    """Work that is a little too short to arm, or a little longer."""
    yield Phase(its.rng.uniform(0.5, 2.0) * its.arms + its.rng.uniform(0.0, 2 * MINUTE), its.one(), "burst")


def _signs(its: Rhythm) -> Iterator[Phase]:
    yield Phase(its.rng.uniform(0.7, 2.5) * its.window, QUIET, "copying", signs=("12 GB/s over PCIe",))


def _broken(its: Rhythm) -> Iterator[Phase]:
    """A GPU that cannot be read, beside others at rest or at work."""
    seconds = its.rng.choice((its.window, its.window, 0.5 * HOUR, 1.5 * HOUR)) * its.rng.uniform(0.5, 1.5)
    yield Phase(seconds, its.rng.choice((QUIET, 0.8)), "broken", unknown=its.lost())


def unseen(rng: random.Random, gpus: int, grace: float) -> tuple[Phase, Phase]:
    """A GPU that cannot be read, and does not work, for longer than a countdown; and can be read again."""
    lost = {rng.randrange(gpus): "NVML 15: GPU is lost"}
    return (
        Phase(grace + rng.uniform(0.0, 40 * MINUTE), QUIET, "unseen", unknown=lost),
        Phase(grace + rng.uniform(0.0, 20 * MINUTE), QUIET, "idle"),
    )


def beside_the_unseen(rng: random.Random, gpus: int, given: Mapping[str, Any]) -> tuple[Phase, ...]:
    """Somebody works beside a GPU that cannot be read, for about as long as arms; nobody works before, and perhaps for a window after that."""
    arms, long = given["arm_duration"] or 2 * MINUTE, 1.3 * given["kill_duration"] + given["grace"]
    hidden = rng.randrange(gpus)
    lost = {hidden: "NVML 15: GPU is lost"}
    load = tuple(QUIET if number == hidden else 0.97 for number in range(gpus))
    return (
        Phase(rng.uniform(2.0, 10.0) * MINUTE, QUIET, "lost", unknown=lost),
        Phase(
            rng.choice((rng.uniform(10.0, 150.0), arms * rng.uniform(0.8, 2.0) + MINUTE)), load, "work", unknown=lost
        ),
        Phase(rng.choice((rng.uniform(2.0, 10.0) * MINUTE, long)), QUIET, "lost", unknown=lost),
    )


def lost_at_boot(rng: random.Random, gpus: int, given: Mapping[str, Any]) -> tuple[Phase, ...]:
    """A GPU cannot be read from the boot on; perhaps others work meanwhile, and then none for as long as a decision takes."""
    if rng.random() < 0.5:
        lost = {rng.randrange(gpus): "NVML 15: GPU is lost"}
        return (Phase(rng.uniform(5.0, 30.0) * MINUTE, QUIET, "boot", unknown=lost),)
    rest = 1.3 * given["kill_duration"] + given["grace"] + given["boot_grace"]
    return (*beside_the_unseen(rng, gpus, given), Phase(rest, QUIET, "idle"))


def short(rng: random.Random, gpus: int, interval: float, rest: float) -> tuple[Phase, ...]:
    """Somebody who was warned works for less than it takes to look, and no more."""
    load = [QUIET] * gpus
    load[rng.randrange(gpus)] = rng.choice(BUSY)
    first = interval * rng.uniform(0.05, 0.4)
    return (
        Phase(first, QUIET, "idle"),
        Phase(interval * rng.uniform(0.1, 0.4), tuple(load), "short work"),
        Phase(rest, QUIET, "idle"),
    )


def _flaps(its: Rhythm) -> Iterator[Phase]:
    """A GPU that cannot be read for minutes, while nothing else works."""
    for _ in range(its.rng.choice((1, 2, 4, 8))):
        yield Phase(its.rng.uniform(2 * MINUTE, 1.1 * its.window), QUIET, "idle")
        yield Phase(its.rng.uniform(MINUTE, 9 * MINUTE), its.rng.choice((QUIET, 0.8)), "flap", unknown=its.lost())


PRICE = 3.5
"""Of an hour."""

ACTIONS = (
    ("shutdown", ()),
    ("stop", ()),
    ("stop", ()),
    ("stop", ("shutdown",)),
    ("stop", ("terminate", "shutdown")),
    ("hibernate", ()),
    ("reboot", ()),
    *[("command", ())] * 5,
    ("command", ("shutdown",)),
    ("end_process", ()),
)

STEPS = ("warning", "cancelled", "undo")
"""At which an owner who saves work has a program run as well."""

PICKED = (*[()] * 9, ("0",), ("0",), ("0",), ("GPU-00000000",), ("GPU-00000000",), ("0", "7"))


def rented(*, tags: bool) -> dict[str, Any]:
    """What a configuration says of a machine that is a cloud's; ``tags``: these may change settings."""
    return {"providers": ["simulated=none"], "cloud": {"tag_settings": tags, "spread": 300.0}}


def policy(
    rng: random.Random, spent: Spent, *, priced: bool, always: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """A configuration that an owner could have, as its worker gives it; ``always``: options that this owner always sets.

    Of these ``rented`` is none of the policy: the machine is a cloud's, whose tags may change settings.
    """
    always, surely = {name: value for name, value in always.items() if name != "rented"}, "rented" in always
    kill_action, fallback = rng.choice(ACTIONS)
    together, picked = rng.choice(("all", "any", "any", "mean", "mean")), rng.choice(PICKED)
    if picked and "7" in picked:  # a GPU that is not there: only an action that any GPU decides could overlook that
        kill_action, fallback, together = "command", (), rng.choice(("any", "any", together))
    machine = kill_action not in {"command", "end_process"} or bool(fallback)
    of_a_cloud = rented(tags=surely or rng.random() < 0.5)
    made = partial(
        effective,
        mode="live" if rng.random() < 0.8 else "dry-run",
        interval=rng.choice((60.0, 60.0, 60.0, *[120.0] * 12, 30.0)),
        arm_duration=rng.choice((60.0, 300.0, 420.0, None)),
        kill_threshold=rng.choice((0.05, 0.05, 0.1, 0.5, 0.5)),
        kill_duration=rng.choice((10.0, 10.0, 15.0, 20.0, 30.0, 60.0)) * MINUTE,
        window_rule="share" if rng.random() < 0.6 else "unbroken",
        window_share=rng.choice((0.01, 0.1, 0.3, 0.3, 0.3)),
        aggregate=together,
        gpu_devices=picked,
        stop_below_load=machine and rng.random() < 0.1,
        grace=rng.choice((1.0, 5.0, 5.0, 10.0)) * MINUTE,
        boot_grace=rng.choice((10.0, 10.0, 20.0)) * MINUTE,
        unused_after=rng.choice((0.5 * HOUR, 1 * HOUR, 2 * HOUR, None)),
        unknown_alarm=rng.choice((10.0, 20.0)) * MINUTE,
        lifetime=spent.ran + rng.uniform(0.2, 5.0) * HOUR if rng.random() < 0.15 else None,
        lease_until=spent.wall + rng.uniform(0.0, 8.0) * HOUR if rng.random() < 0.15 else None,
        budget=PRICE * (spent.billed / HOUR + rng.uniform(0.2, 3.0)) if priced and rng.random() < 0.25 else None,
        budget_period=rng.choice((6 * HOUR, 12 * HOUR, 30 * 24 * HOUR)),
        unknown_stop_after=4 * HOUR if rng.random() < 0.3 else None,
        stop_busy=rng.random() < 0.35,
        hold_max=rng.choice((HOUR, HOUR, 2 * HOUR, 2 * HOUR, 24 * HOUR)),
        extend_max=rng.choice((0.5 * HOUR, 2 * HOUR, 24 * HOUR)),
        hold_total=rng.choice((2 * HOUR, 3 * HOUR, 48 * HOUR)),
        price_per_hour=PRICE if priced else None,
        kill_action=kill_action,
        fallback=fallback,
        admin_hold="billing tests" if rng.random() < 0.06 else "",
    )(**always)
    made["actions"] = {name: {**given, "timeout": rng.choice((50, 60, 110))} for name, given in made["actions"].items()}
    if rng.random() < 0.25:
        made["heartbeat"] = {"every": 600, "url": "https://watch.example/beat"}
    if rng.random() < 0.6:
        made["hooks"] = {"pre_stop": ["save"], "timeout": 20, **{step: ["tell"] for step in STEPS}}
    made["notify"] = {**made["notify"], "local": rng.choice((["wall"], ["wall", "mail"]))}
    return made | of_a_cloud if surely or rng.random() < 0.65 else made
