"""Which GPUs a guard of a task judges."""

import pytest

from costguard.agent.granted import WITHHELD
from costguard.agent.task_gpus import TaskGpus
from costguard.engine.observation import Device, Known, Observation, Unknown
from costguard.host.ports import Unwatched

KEYS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
DEVICES = {key: Device(key, number, f"GPU-{number}aaa", "NVIDIA H200") for number, key in enumerate(KEYS)}
REST = Known(0.0)
ALL = Observation(KEYS, (REST, REST, REST))


class Said:
    """What was reported last."""

    def __init__(self) -> None:
        self.words: str | Unwatched | None = ""

    def __call__(self, subject: str, words: str | Unwatched | None) -> None:
        assert subject == "task"
        self.words = words


def test_only_the_gpus_that_the_environment_names_are_judged() -> None:
    """The others are none of its business, whatever they do."""
    task = TaskGpus({"CUDA_VISIBLE_DEVICES": "0,2"}, Said())
    assert task.narrow(ALL, DEVICES) == Observation((KEYS[0], KEYS[2]), (REST, REST))
    assert task.other_gpus == 1


def test_without_a_name_it_is_all_that_the_driver_shows() -> None:
    """In a container, or inside the scheduler's limits; what the driver withholds is another's."""
    seen = Observation(KEYS, (REST, Unknown(f"{WITHHELD} (container)"), REST))
    task = TaskGpus({}, Said())
    assert task.narrow(seen, DEVICES).gpus == (KEYS[0], KEYS[2])
    assert task.other_gpus == 0


def test_what_was_found_first_is_fixed() -> None:
    """A GPU that fails later stays in the scope, and is unknown; one that appears is another's."""
    task = TaskGpus({}, Said())
    task.narrow(Observation(KEYS[:2], (REST, REST)), DEVICES)
    lost = Unknown(f"{WITHHELD} any more")
    assert task.narrow(Observation(KEYS, (REST, lost, REST)), DEVICES) == Observation(KEYS[:2], (REST, lost))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, "allows no GPU"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, "allows no GPU"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-01234567-89ab-cdef"}, "a MIG instance, not the GPU"),
    ],
)
def test_a_scope_that_is_not_certain_judges_nothing(environment: dict[str, str], words: str) -> None:
    """Nothing is idle then, and it is said; as soon as it is certain, it counts."""
    said = Said()
    task = TaskGpus(environment, said)
    assert task.narrow(ALL, DEVICES) == Observation((), ())
    assert words in str(said.words)
    assert task.keys is None


def test_before_the_driver_answers_nothing_is_judged() -> None:
    """The scope of a reader that hangs is not what it saw last."""
    said = Said()
    task = TaskGpus({}, said)
    assert task.narrow(Observation(KEYS, (Unknown("no answer yet"),) * 3), DEVICES).gpus == ()
    assert (task.keys, said.words) == (None, "")


def test_the_same_observation_stays_the_same_value() -> None:
    """The engine's quick path rests on that."""
    task = TaskGpus({"CUDA_VISIBLE_DEVICES": "1"}, Said())
    assert task.narrow(ALL, DEVICES) is task.narrow(ALL, DEVICES)
