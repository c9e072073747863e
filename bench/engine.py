"""How many ticks per second the engine carries, the observation built anew for each."""

import time
from typing import NamedTuple

from bench.world import GPUS
from costguard.agent.decode import readings
from costguard.engine.events import Tick
from costguard.engine.machine import step
from costguard.engine.observation import Observation
from costguard.engine.policy import Policy
from costguard.engine.state import initial

EVERY_RULE = Policy(
    mode="live",
    kill_action="shutdown",
    fallback=("command",),
    lifetime=10 * 86400.0,
    lease_until=2e9,
    budget=1e6,
    price_per_hour=30.0,
    unknown_stop_after=4 * 3600.0,
)
"""Idle, unused, lifetime, lease, budget and unknown are all on."""


class Speed(NamedTuple):
    """Steps per second: when little changes, and when every GPU goes up and down at random."""

    steady: float
    restless: float


def speed(steps: int) -> Speed:
    """8 GPUs, every rule on, decoding of the reader's answer included."""
    return Speed(_run(steps, restless=False), _run(steps, restless=True))


def _answer(number: int, restless: bool) -> dict[str, object]:
    noise = number * 2654435761 >> 7
    loads = [(noise >> gpu & 1) * 0.5 if restless else 0.97 for gpu in range(GPUS)]
    return {"gpus": [[f"0000:{gpu + 1:02x}:00.0", loads[gpu], [], 10.0, "GPU peak"] for gpu in range(GPUS)]}


def _run(steps: int, *, restless: bool) -> float:
    answers = [_answer(number, restless) for number in range(256)]
    state = initial("boot", "instance", now=1000.0)
    start = time.perf_counter()
    for number in range(steps):
        at = 1000.0 + 10.0 * number
        gpus, found = readings(answers[number % 256])
        state = step(state, Tick(at, Observation(gpus, found), wall=1.7e9 + at, synced=True), EVERY_RULE).state
    return steps / (time.perf_counter() - start)
