"""What a simulated machine lives through: its jobs, and the policies under which it is guarded."""

import random
from collections.abc import Iterator
from typing import Any

from costguard.testing.simhost import Phase, effective

MINUTE, HOUR = 60.0, 3600.0
QUIET, BLIP = 0.002, 0.6


def script(rng: random.Random, gpus: int) -> Iterator[Phase]:
    """Jobs, sessions of people, idle spans, single bursts, broken GPUs; for ever. Nobody works right after a boot."""
    yield Phase(rng.uniform(MINUTE, 20 * MINUTE), QUIET, "boot")
    makers = (_job, _job, _session, _idle, _idle, _idle, _blip, _signs, _broken)
    while True:
        yield from rng.choice(makers)(rng, gpus)
        yield from _idle(rng, gpus)


def _job(rng: random.Random, gpus: int) -> Iterator[Phase]:
    busy = [rng.random() < 0.7 for _ in range(gpus)]
    busy[rng.randrange(gpus)] = True
    load = tuple(round(rng.uniform(0.25, 1.0), 2) if works else QUIET for works in busy)
    yield Phase(rng.uniform(10 * MINUTE, 6 * HOUR), load, "job")


def _session(rng: random.Random, gpus: int) -> Iterator[Phase]:
    for _ in range(rng.randint(3, 25)):
        load = [QUIET] * gpus
        load[rng.randrange(gpus)] = round(rng.uniform(0.25, 0.9), 2)
        yield Phase(rng.uniform(30.0, 10 * MINUTE), tuple(load), "session")
        yield Phase(rng.uniform(MINUTE, 15 * MINUTE), QUIET, "thinking")


def _idle(rng: random.Random, gpus: int) -> Iterator[Phase]:
    del gpus
    yield Phase(rng.choice((0.3, 1.0, 3.0, 3.0)) * rng.uniform(0.5, 2.0) * HOUR, QUIET, "idle")


def _blip(rng: random.Random, gpus: int) -> Iterator[Phase]:
    yield Phase(rng.uniform(5 * MINUTE, HOUR), QUIET, "idle")
    load = [QUIET] * gpus
    load[rng.randrange(gpus)] = BLIP
    yield Phase(rng.uniform(2.0, 40.0), tuple(load), "blip")
    yield Phase(rng.uniform(5 * MINUTE, HOUR), QUIET, "idle")


def _signs(rng: random.Random, gpus: int) -> Iterator[Phase]:
    del gpus
    yield Phase(rng.uniform(10 * MINUTE, 3 * HOUR), QUIET, "copying", signs=("12 GB/s over PCIe",))


def _broken(rng: random.Random, gpus: int) -> Iterator[Phase]:
    lost = {number: "NVML 15: GPU is lost" for number in range(gpus) if rng.random() < 0.6}
    load = rng.choice((QUIET, 0.8))
    yield Phase(rng.choice((0.2, 1.0, 6.0)) * rng.uniform(0.5, 2.0) * HOUR, load, "broken", unknown=lost)


ACTIONS = (
    ("shutdown", ()),
    ("stop", ("shutdown",)),
    ("stop", ("terminate", "shutdown")),
    ("hibernate", ()),
    ("reboot", ()),
    ("command", ()),
    ("command", ("shutdown",)),
    ("end_process", ()),
)


def policy(rng: random.Random) -> dict[str, Any]:
    """A configuration that an owner could have, as its worker gives it."""
    kill_action, fallback = rng.choice(ACTIONS)
    share = rng.random() < 0.6
    machine = kill_action not in {"command", "end_process"} or bool(fallback)
    rented = {"providers": ["simulated=none"], "cloud": {"tag_settings": rng.random() < 0.5, "spread": 300.0}}
    made = effective(
        mode="live" if rng.random() < 0.8 else "dry-run",
        interval=rng.choice((30.0, *[60.0] * 7)),
        arm_duration=rng.choice((60.0, 60.0, 300.0, None)),
        kill_duration=rng.choice((10.0, 20.0, 30.0, 60.0, 90.0)) * MINUTE,
        window_rule="share" if share else "unbroken",
        window_share=rng.choice((0.01, 0.05)),
        aggregate="all" if machine else rng.choice(("all", "any", "mean")),
        stop_below_load=machine and rng.random() < 0.1,
        grace=rng.choice((1.0, 5.0, 10.0, 30.0)) * MINUTE,
        boot_grace=rng.choice((10.0, 20.0, 40.0)) * MINUTE,
        unused_after=rng.choice((2 * HOUR, 4 * HOUR, None)),
        unknown_alarm=rng.choice((15.0, 60.0)) * MINUTE,
        lifetime=rng.choice((None, None, None, 20 * HOUR)),
        stop_busy=rng.random() < 0.2,
        hold_max=rng.choice((4 * HOUR, 24 * HOUR)),
        hold_total=48 * HOUR,
        price_per_hour=rng.choice((None, 3.5)),
        kill_action=kill_action,
        fallback=fallback,
        admin_hold="billing tests" if rng.random() < 0.03 else "",
    )
    return made | rented if rng.random() < 0.7 else made
