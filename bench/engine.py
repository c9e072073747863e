"""How many ticks per second the engine carries, the observation built anew for each."""

import time
from collections.abc import Callable
from typing import NamedTuple

from bench.world import GPUS
from costguard.agent.decode import readings
from costguard.engine.effects import Tell
from costguard.engine.events import Outcome, Tick
from costguard.engine.machine import step
from costguard.engine.observation import Observation
from costguard.engine.policy import Policy
from costguard.engine.saved import initial

EVERY_RULE = Policy(
    kill_action="shutdown",
    fallback=("command",),
    lifetime=1000 * 86400.0,  # further away than the run is long, as every deadline here
    lease_until=4e9,
    budget=1e9,
    price_per_hour=30.0,
    unknown_stop_after=4 * 3600.0,
)
"""Idle, unused, lifetime, lease, budget and unknown are all on."""


class Speed(NamedTuple):
    """Steps per second of CPU: a working day, steady load, and every GPU up and down at random."""

    day: float
    steady: float
    restless: float


def speed(steps: int) -> Speed:
    """8 GPUs, every rule on, from the reader's decoded answer to the new state."""
    return Speed(*(_run(steps, loads) for loads in (_day, _steady, _restless)))


def _day(number: int) -> list[float]:
    """Training with a pause of a tick in twenty, an hour in which half of the GPUs rest, and an idle third of the day."""
    hour = number // 360 % 24
    noise = number * 2654435761 >> 7 & 15
    if hour >= 16:
        return [0.0] * GPUS
    if number % 20 == 0:
        return [0.01 * noise / 16] * GPUS
    return [0.0 if hour == 12 and gpu % 2 else 0.8 + noise / 100 for gpu in range(GPUS)]


def _steady(_number: int) -> list[float]:
    return [0.97] * GPUS


def _restless(number: int) -> list[float]:
    noise = number * 2654435761 >> 7
    return [(noise >> gpu & 1) * 0.5 for gpu in range(GPUS)]


def _run(steps: int, loads: Callable[[int], list[float]]) -> float:
    keys = [f"0000:{gpu + 1:02x}:00.0" for gpu in range(GPUS)]
    answers = [
        {"gpus": [[key, load, [], 10.0, "GPU peak"] for key, load in zip(keys, loads(number), strict=True)]}
        for number in range(8640)
    ]
    state = initial("boot", "instance", now=1000.0)
    start = time.process_time()
    for number in range(steps):
        at = 1000.0 + 10.0 * number
        gpus, found = readings(answers[number % 8640])
        state, effects, _ = step(state, Tick(at, Observation(gpus, found), wall=1.7e9 + at, synced=True), EVERY_RULE)
        for effect in effects:
            if isinstance(effect, Tell):  # people hear of it, so that the countdown runs and ends
                state = step(state, Outcome(at, effect.id, "delivered"), EVERY_RULE).state
    return steps / (time.process_time() - start)
