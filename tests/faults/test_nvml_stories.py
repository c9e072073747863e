"""What jobs and drivers do over time, from the library to the decision: each story ends as somebody who knows GPUs would say."""

from typing import NamedTuple

import pytest

from costguard.engine import Known, Observation, Policy, Reading, Tick, Unknown, initial, step
from costguard.readers.nvml.codes import NvmlError
from costguard.readers.nvml.gpu import UnreadableError
from costguard.testing.nvml import NA, Process, Values
from tests.faults.nvml_world import Machine

pytestmark = pytest.mark.thorough

TICK = 15.0
KEY = "0000:01:00.0"
POLICY = Policy(kill_duration=150.0, arm_duration=30.0, boot_grace=0.0, grace=600.0, interval=TICK)
HELD: Values = {"memory_used": 60_000, "processes": [Process(42, 60_000)]}
STILL = {2: 0.0, 5: 0.0, 10: 0.2, 20: 0.0, 21: 0.0, 60: 0.0, 61: 0.0}
GPM: Values = {"gpm": True, "gpm_metrics": STILL}
TRAINING: Values = {**HELD, "util": 96}
OVER: Values = {"util": 0, "memory_used": 0, "processes": []}
DIVIDED: Values = {"util": NA, "mig": 1, "power": NA, "energy": NA}


class Act(NamedTuple):
    """So many ticks, in which the GPU is like this and draws so many watts."""

    ticks: int
    values: Values
    watts: float = 70.0


class End(NamedTuple):
    """How it stands at the end: of the GPU, of the machine, and what people should know."""

    gpu: str
    phase: str
    findings: tuple[str, ...] = ()


IDLE, WORKS, UNKNOWN = End("quiet", "WARNING"), End("works", "WATCHING"), End("unknown", "WATCHING")
TRAINED = Act(4, TRAINING, 600)


def play(machine: Machine, acts: list[Act]) -> End:
    """Read the GPU tick by tick and let the engine decide on it."""
    state = initial("boot", "machine", None, machine.now)
    for act in acts:
        machine.script.set(**act.values)
        machine.watts = act.watts
        for _ in range(act.ticks):
            seen = look(machine)
            state = step(state, Tick(machine.now, Observation((KEY,), (seen,))), POLICY).state
    (track,) = state.tracks
    gpu = "unknown" if track.unknown_since is not None else "works" if track.busy else "quiet"
    return End(gpu, state.core.phase, tuple(code for code, _ in machine.gpu.findings))


def look(machine: Machine) -> Reading:
    try:
        load, signs, covers, words = machine.tick(1, TICK)
    except (NvmlError, UnreadableError) as error:
        return Unknown(str(error))
    return Known(load, tuple(signs), covers, words)


STORIES = {
    "training": ([Act(16, TRAINING, 600)], WORKS),
    "training that ended": ([TRAINED, Act(14, OVER)], IDLE),
    "a notebook that keeps its memory after training": ([TRAINED, Act(14, {"util": 0}, 122)], IDLE),
    "a server that waits for requests from the start": ([Act(16, {**HELD, "util": 0}, 122)], End("quiet", "WATCHING")),
    "loader stalls": ([TRAINED, *[Act(3, {"util": 0}, 130), Act(1, {"util": 90}, 500)] * 4], WORKS),
    "a long stall, and it goes on": ([TRAINED, Act(8, {"util": 0}, 130), Act(2, {"util": 95}, 600)], WORKS),
    "decoding bound by memory": (
        [Act(18, {**HELD, **GPM, "util": 100, "gpm_metrics": STILL | {2: 60.0, 10: 70.0}}, 280)],
        WORKS,
    ),
    "one token now and then": ([TRAINED, Act(14, {"util": 4, "processes": [Process(42, 60_000, sm=4)]}, 180)], WORKS),
    "encoding alone": ([TRAINED, Act(14, {"util": 0, "encoder": 35}, 125)], WORKS),
    "decoding video alone": ([TRAINED, Act(14, {"util": 0, "decoder": 20}, 122)], WORKS),
    "pictures alone": ([TRAINED, Act(14, {"util": 0, "jpeg": 20}, 122)], WORKS),
    "optical flow alone": ([TRAINED, Act(14, {"util": 0, "ofa": 20}, 122)], WORKS),
    "copies alone": ([TRAINED, Act(14, {**GPM, "util": 0, "gpm_metrics": STILL | {20: 900.0}}, 122)], WORKS),
    "sparse kernels that no sample meets": (
        [TRAINED, Act(14, {**GPM, "util": 0, "gpm_metrics": STILL | {2: 3.0}}, 122)],
        WORKS,
    ),
    "a collective that spins": (
        [Act(3, {**HELD, **GPM, "util": 0}, 120),
         Act(5, {"util": 100, "gpm_metrics": STILL | {2: 80.0, 5: 40.0, 10: 50.0}}, 600),
         Act(46, {"util": 100, "gpm_metrics": STILL | {2: 12.0}}, 140)],
        End("works", "WATCHING", ("suspect_hung",)),
    ),
    "a slow collective": (
        [Act(3, {**HELD, **GPM, "util": 0}, 120),
         Act(5, {"util": 100, "gpm_metrics": STILL | {2: 80.0, 5: 40.0, 10: 50.0}}, 600),
         Act(46, {"util": 100, "gpm_metrics": STILL | {2: 12.0, 60: 400.0}}, 140)],
        WORKS,
    ),
    "the ghost of a killed kernel": (
        [TRAINED, Act(26, {**OVER, "util": 100}, 90)],
        End("quiet", "WARNING", ("ghost",)),
    ),
    "memory that a dead process left": ([TRAINED, Act(14, {**OVER, "memory_used": 30_000})], IDLE),
    "a ghost that keeps memory": ([TRAINED, Act(26, {**OVER, "util": 100, "memory_used": 30_000}, 90)], WORKS),
    "a ghost that somebody works beside": (
        [TRAINED, Act(14, {**OVER, "util": 100}, 90), Act(14, {"util": 100, **HELD}, 130)],
        WORKS,
    ),
    "one busy instance": (
        [Act(2, {**DIVIDED, "gpm": True, "instances": {1: {2: 0.0}, 5: {2: 0.0}}}),
         Act(14, {"instances": {1: {2: 0.0}, 5: {2: 70.0}}})],
        WORKS,
    ),
    "instances that became quiet": (
        [Act(6, {**DIVIDED, "gpm": True, "instances": {1: {2: 0.0}, 5: {2: 70.0}}}),
         Act(14, {"instances": {1: {2: 0.0}, 5: {2: 0.0}}})],
        IDLE,
    ),
    "an instance that decodes video": (
        [Act(6, {**DIVIDED, "gpm": True, "instances": {1: {2: 70.0}}}), Act(14, {"instances": {1: {2: 0.0, 31: 30.0}}})],
        WORKS,
    ),
    "instances without activity counters": ([TRAINED, Act(14, {**DIVIDED, "instances": {1: {}}})], UNKNOWN),
    "use that is not given any more": ([TRAINED, Act(14, {**OVER, "util": NA})], UNKNOWN),
    "garbage after training": ([TRAINED, Act(14, {**OVER, "util": 37100})], UNKNOWN),
    "off the bus after training": ([TRAINED, Act(14, {**OVER, "lost": True})], UNKNOWN),
    "off the bus, and back idle": (
        [TRAINED, Act(5, {**OVER, "lost": True}), Act(14, {"lost": False})],
        IDLE,
    ),
    "off the bus for a while in which no more energy was used than at rest": (
        [TRAINED, Act(8, OVER), Act(10, {"lost": True}), Act(5, {"lost": False})],
        IDLE,
    ),
    "off the bus for a while in which more energy was used": (
        [TRAINED, Act(8, OVER), Act(10, {"lost": True}, 120), Act(5, {"lost": False})],
        End("quiet", "WATCHING"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_each_story_ends_as_it_should(machine: Machine, story: str) -> None:
    """Work is never warned of, what is over is, and what cannot be seen is neither."""
    acts, end = STORIES[story]
    machine.begin_anew()
    assert play(machine, acts) == end
