"""Which GPUs a command may use: CUDA's rules, and doubt where they cannot be followed."""

import pytest

from costguard.agent.granted import granted
from costguard.engine import Device, Known, Observation, Unknown

KEYS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
SAME = [Device(key, number, f"GPU-{number}a{number}b-0000", "H100") for number, key in enumerate(KEYS)]
MIXED = [*SAME[:2], SAME[2]._replace(name="T4")]
SEEN = Observation(KEYS, (Known(0.0), Known(0.0), Known(0.0)))


@pytest.mark.parametrize(
    ("visible", "picked"),
    [
        (None, (0, 1, 2)), ("0", (0,)), ("2,0", (2, 0)), (" 1 , 2", (1, 2)), ("1,-1,0", (1,)), ("0,7,1", (0,)), ("1,1", (1,)),
        ("GPU-1a1b-0000", (1,)), ("GPU-1a", (1,)), ("gpu-2A2B", (2,)), ("GPU-0a,GPU-2a", (0, 2)),
        ("MIG-GPU-1a1b-0000/1/0", (1,)), ("MIG-GPU-1a1b-0000/1/0,MIG-GPU-1a1b-0000/2/0", (1,)),
        ("", ()), ("-1", ()), ("none", ()), ("NoDevFiles", ()), ("7", ()), ("GPU-", ()), ("GPU-9", ()),
    ],
)  # fmt: skip
def test_what_the_environment_names(visible: str | None, picked: tuple[int, ...]) -> None:
    """Numbers, UUIDs and their beginnings; the list ends before what names nothing."""
    found = granted(SEEN, SAME, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert found.keys == tuple(KEYS[i] for i in picked)
    assert bool(found.why) == (not picked)
    assert not found.doubt


def test_numbers_of_several_models_are_doubtful() -> None:
    """CUDA puts the fastest first, unless told otherwise: then every GPU counts."""
    found = granted(SEEN, MIXED, {"CUDA_VISIBLE_DEVICES": "2"})
    assert (found.keys, bool(found.doubt)) == (KEYS, True)
    ordered = granted(SEEN, MIXED, {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    assert (ordered.keys, ordered.doubt) == (KEYS[2:], "")


def test_an_instance_without_its_gpu_is_doubtful() -> None:
    """The new names of instances do not tell which GPU they are part of."""
    found = granted(SEEN, SAME, {"CUDA_VISIBLE_DEVICES": "MIG-5a5a5a5a-0000-0000-0000-000000000000"})
    assert (found.keys, bool(found.doubt)) == (KEYS, True)


def test_what_the_driver_withholds_is_not_granted_and_what_is_sick_is() -> None:
    """In a job's group the driver lists its own GPUs alone; one that fails may be the one that works."""
    readings = (Known(0.0), Unknown("not listed by the driver (NVML 6, GetHandle)"), Unknown("the GPU is lost"))
    assert granted(Observation(KEYS, readings), SAME, {}).keys == (KEYS[0], KEYS[2])
    nothing = Observation(KEYS[1:2], readings[1:2])
    assert granted(nothing, SAME, {}).why == "the driver lists no GPU"


def test_numbers_are_not_known_while_a_gpu_cannot_be_opened() -> None:
    """Then every GPU counts."""
    found = granted(SEEN, [SAME[0], SAME[1], SAME[2]._replace(number=None)], {"CUDA_VISIBLE_DEVICES": "0"})
    assert (found.keys, bool(found.doubt)) == (KEYS, True)
