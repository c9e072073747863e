"""What a simulated machine lives through: its jobs, and the policies under which it is guarded.

Everything happens soon: a window is minutes rather than an hour, and work begins again before long. A day holds as
many decisions as a week of a real machine.
"""

import random
from collections.abc import Iterator
from typing import Any

from costguard.testing.simhost import Phase, effective

MINUTE, HOUR = 60.0, 3600.0
QUIET, BLIP = 0.002, 0.6
EPOCH = 1.7e9
BUSY = (0.06, 0.14, 0.3, 0.6, 0.97)
"""Loads that a job has: of some, policies differ whether they are work."""


def script(rng: random.Random, gpus: int) -> Iterator[Phase]:
    """Jobs, sessions of people, idle spans, single bursts, broken GPUs; for ever. Nobody works right after a boot."""
    yield Phase(rng.uniform(MINUTE, 15 * MINUTE), QUIET, "boot")
    makers = (_job, _job, _session, _idle, _idle, _blip, _burst, _burst, _signs, _broken, _flaps, _flaps)
    while True:
        yield from rng.choice(makers)(rng, gpus)
        yield from _idle(rng, gpus)


def _job(rng: random.Random, gpus: int) -> Iterator[Phase]:
    busy = [rng.random() < 0.5 for _ in range(gpus)]
    busy[rng.randrange(gpus)] = True
    load = tuple(rng.choice(BUSY) if works else QUIET for works in busy)
    yield Phase(rng.choice((10 * MINUTE, 30 * MINUTE)) * rng.uniform(0.5, 2), load, "job")


def _session(rng: random.Random, gpus: int) -> Iterator[Phase]:
    for _ in range(rng.randint(3, 10)):
        yield Phase(rng.uniform(30.0, 6 * MINUTE), _one(rng, gpus), "session")
        yield Phase(rng.uniform(MINUTE, 15 * MINUTE), QUIET, "thinking")


def _one(rng: random.Random, gpus: int) -> tuple[float, ...]:
    load = [QUIET] * gpus
    load[rng.randrange(gpus)] = rng.choice(BUSY)
    return tuple(load)


def _idle(rng: random.Random, gpus: int) -> Iterator[Phase]:
    del gpus
    yield Phase(rng.choice((0.2, 0.4, 0.8, 1.5)) * rng.uniform(0.5, 1.5) * HOUR, QUIET, "idle")


def _blip(rng: random.Random, gpus: int) -> Iterator[Phase]:
    pause = rng.choice((10 * MINUTE, 40 * MINUTE))
    for _ in range(rng.randint(1, 6)):
        yield Phase(rng.uniform(2 * MINUTE, pause), QUIET, "idle")
        yield Phase(rng.uniform(2.0, 90.0), _one(rng, gpus), "blip")


def _burst(rng: random.Random, gpus: int) -> Iterator[Phase]:
    """Work that is a little too short to arm, or a little longer."""
    yield Phase(rng.uniform(3.0, 12.0) * MINUTE, _one(rng, gpus), "burst")


def _signs(rng: random.Random, gpus: int) -> Iterator[Phase]:
    del gpus
    yield Phase(rng.uniform(10 * MINUTE, 1.5 * HOUR), QUIET, "copying", signs=("12 GB/s over PCIe",))


def _broken(rng: random.Random, gpus: int) -> Iterator[Phase]:
    yield Phase(
        rng.choice((0.2, 0.5, 1.5)) * rng.uniform(0.5, 1.5) * HOUR,
        rng.choice((QUIET, 0.8)),
        "broken",
        unknown=_lost(rng, gpus),
    )


def _flaps(rng: random.Random, gpus: int) -> Iterator[Phase]:
    """A GPU that cannot be read for minutes, while nothing else works."""
    for _ in range(rng.randint(1, 4)):
        yield Phase(rng.uniform(2 * MINUTE, 30 * MINUTE), QUIET, "idle")
        yield Phase(rng.uniform(MINUTE, 9 * MINUTE), rng.choice((QUIET, 0.8)), "flap", unknown=_lost(rng, gpus))


def _lost(rng: random.Random, gpus: int) -> dict[int, str]:
    lost = {number: "NVML 15: GPU is lost" for number in range(gpus) if rng.random() < 0.5}
    return lost or {rng.randrange(gpus): "NVML 15: GPU is lost"}


ACTIONS = (
    ("shutdown", ()),
    ("stop", ()),
    ("stop", ("shutdown",)),
    ("stop", ("terminate", "shutdown")),
    ("hibernate", ()),
    ("reboot", ()),
    *[("command", ())] * 5,
    ("command", ("shutdown",)),
    ("end_process", ()),
)


def policy(rng: random.Random, *, priced: bool) -> dict[str, Any]:
    """A configuration that an owner could have, as its worker gives it."""
    kill_action, fallback = rng.choice(ACTIONS)
    machine = kill_action not in {"command", "end_process"} or bool(fallback)
    rented = {"providers": ["simulated=none"], "cloud": {"tag_settings": rng.random() < 0.5, "spread": 300.0}}
    made = effective(
        mode="live" if rng.random() < 0.85 else "dry-run",
        interval=rng.choice((60.0, 60.0, 120.0)),
        arm_duration=rng.choice((60.0, 300.0, 420.0, None)),
        kill_threshold=rng.choice((0.05, 0.05, 0.1, 0.5)),
        kill_duration=rng.choice((10.0, 10.0, 15.0, 20.0, 30.0, 60.0)) * MINUTE,
        window_rule="share" if rng.random() < 0.6 else "unbroken",
        window_share=rng.choice((0.01, 0.1)),
        aggregate=rng.choice(("all", "any", "mean")),
        gpu_devices=rng.choice(
            ((), (), (), (), ("0",), ("GPU-00000000",), ("0", "7") if rng.random() < 0.4 else ("0",))
        ),
        stop_below_load=machine and rng.random() < 0.1,
        grace=rng.choice((1.0, 5.0, 5.0, 10.0)) * MINUTE,
        boot_grace=rng.choice((10.0, 10.0, 20.0)) * MINUTE,
        unused_after=rng.choice((0.5 * HOUR, 1 * HOUR, 2 * HOUR, None)),
        unknown_alarm=rng.choice((10.0, 20.0)) * MINUTE,
        lifetime=rng.choice((None, None, None, 3 * HOUR, 8 * HOUR)),
        lease_until=EPOCH + rng.uniform(0.0, 3.0) * 24 * HOUR if rng.random() < 0.2 else None,
        budget=rng.choice((None, None, 10.0, 50.0)) if priced else None,
        stop_busy=rng.random() < 0.2,
        hold_max=rng.choice((HOUR, 2 * HOUR, 24 * HOUR)),
        hold_total=48 * HOUR,
        price_per_hour=3.5 if priced else None,
        kill_action=kill_action,
        fallback=fallback,
        admin_hold="billing tests" if rng.random() < 0.06 else "",
    )
    made["actions"] = {name: {**given, "timeout": rng.choice((50, 60))} for name, given in made["actions"].items()}
    made["notify"] = {**made["notify"], "channels": rng.choice((["wall"], ["wall", "mail"]))}
    return made | rented if rng.random() < 0.7 else made
