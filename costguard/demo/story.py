"""What happens to the simulated machine, act by act, and how fast it is shown."""

import time
from collections.abc import Iterator
from typing import NamedTuple

from costguard.testing.simmachine import Phase

MINUTE, HOUR = 60.0, 3600.0
LENGTH = 24 * HOUR
"""Virtual time from boot until somebody comes back."""

PRICE = 7.0
"""USD an hour, an assumption: about what a cloud machine with two GPUs costs on demand."""

ACTION = "shutdown"
MACHINE = "gpu-box"


class Act(NamedTuple):
    """One act. ``seconds`` is how long it is shown; ``moral`` what costguard makes of it."""

    name: str
    title: str
    text: str
    moral: str
    seconds: float


ACTS = (
    Act("boot", "Boot", "The machine has just started.", "A machine that has just started is left alone.", 3.0),
    Act(
        "download",
        "Download",
        "A data set is fetched; the GPUs wait at 0 % for 75 minutes.",
        "A plain idle timer of one hour would have stopped this. costguard waits until it has seen work.",
        6.0,
    ),
    Act(
        "training",
        "Training",
        "Both GPUs work, with pauses for checkpoints and an evaluation on one GPU.",
        "Pauses start the idle clock, work resets it, and every GPU must be quiet.",
        7.5,
    ),
    Act(
        "crash",
        "Crash",
        "The training job dies, and GPU 1 cannot be read for 8 minutes.",
        "An unreadable GPU is unknown, and unknown is never idle: the clock waits.",
        4.0,
    ),
    Act(
        "idleness",
        "Idleness",
        "Everybody has gone home. The machine is billed and does nothing.",
        "Idle for an hour: people are warned; ten minutes later it would be shut down.",
        5.0,
    ),
)
"""In order; the names are those of the phases below."""


def script() -> Iterator[Phase]:
    """What the GPUs really do."""
    yield Phase(20 * MINUTE, 0.0, "boot")
    yield Phase(75 * MINUTE, 0.0, "download")
    both = Phase(45 * MINUTE, (0.96, 0.91), "training", jitter=0.04)
    checkpoint = Phase(6 * MINUTE, 0.0, "training")
    yield from (both, checkpoint, both, checkpoint)
    yield Phase(35 * MINUTE, (0.72, 0.0), "training", jitter=0.08)
    yield from (checkpoint, both, checkpoint, both)
    yield Phase(3 * MINUTE, 0.0, "crash")
    yield Phase(8 * MINUTE, 0.0, "crash", unknown={1: "the GPU is lost (simulated); the driver resets it"})
    yield Phase(3 * MINUTE, 0.0, "crash")
    yield Phase(2 * LENGTH, 0.0, "idleness")


def lengths() -> dict[str, float]:
    """Virtual seconds of each act; the last one lasts until the warning."""
    found: dict[str, float] = {}
    for phase in script():
        found[phase.name] = found.get(phase.name, 0.0) + phase.seconds
    return {**found, ACTS[-1].name: 46 * MINUTE}


def start_wall() -> float:
    """Half past eight in the morning, local time; the day does not matter."""
    return time.mktime((2026, 3, 2, 8, 30, 0, 0, 0, -1))


SPEEDS = {act.name: lengths()[act.name] / act.seconds for act in ACTS}
"""Virtual seconds per shown second."""

COUNTDOWN = 10 * MINUTE / 5.0
LAST_LOOK = 60.0
"""Right after the decision the clock is nearly still, for `LOOK_FOR` seconds."""

LOOK_FOR = 3.0
NIGHT = 15 * HOUR / 3.0


def speed(act: str, phase: str, since: float) -> float:
    """Virtual seconds per shown second: ``phase`` is the agent's, ``since`` virtual seconds since it began."""
    if phase == "WARNING":
        return COUNTDOWN
    if phase == "DONE":
        return LAST_LOOK if since < LAST_LOOK * LOOK_FOR else NIGHT
    return SPEEDS[act]
