"""The job of the reader of NVML: what crosses the border arrives, and what makes no sense is as if nothing had been left."""

import pytest

from costguard.readers.nvml.job import NvmlJob

WHOLE = {
    "sysfs": "/s",
    "devfs": "/d",
    "counters": {"a": 1},
    "learnt": {"b": 2},
    "known": ("GPU-1", "GPU-2"),
    "holders": True,
    "sensors": True,
    "background_is_idle": True,
}
NOTHING = {"sysfs": "/sys", "devfs": "/dev", **NvmlJob._field_defaults}


def fields(job: NvmlJob) -> dict[str, object]:
    return {name: getattr(job, name) for name in NvmlJob._fields}


def test_each_part_arrives() -> None:
    """Lists of a line are what they were before."""
    assert fields(NvmlJob.of({**WHOLE, "known": ["GPU-1", "GPU-2"]})) == WHOLE


@pytest.mark.parametrize(
    "given",
    [{}, {"sysfs": "", "devfs": None, "known": "GPU-1", "holders": 1, "sensors": "yes", "background_is_idle": "no"}],
    ids=["missing", "nonsense"],
)
def test_what_makes_no_sense_is_as_if_nothing_had_been_left(given: dict[str, object]) -> None:
    """No word of a stranger makes a GPU count as idle."""
    assert fields(NvmlJob.of(given)) == NOTHING
