"""One-minute roll-ups."""

import pytest

from costguard.engine.observation import Known, Observation, Unknown
from costguard.engine.saved import initial
from costguard.engine.state import State
from costguard.engine.window import Track
from costguard.history.job import GpuMinute, MachineMinute
from costguard.history.rollup import Rollup

KEYS = ("a", "b")


def state(*tracks: Track) -> State:
    return initial("boot", "i-1")._replace(gpus=KEYS[: len(tracks)], tracks=tracks)


def track(*, loud: bool = False, lost: float | None = None) -> Track:
    return Track(loud, 0.0, 0.0, (), lost)


def seen(*loads: float | None) -> Observation:
    readings = tuple(Unknown("gone") if load is None else Known(load) for load in loads)
    return Observation(KEYS[: len(loads)], readings)


def test_a_minute_has_lowest_mean_highest_and_unknown_seconds() -> None:
    """The mean is weighted by time; unknown counts apart and is in no number."""
    rollup = Rollup()
    rollup.tick(600.0, 10.0, state(track(loud=True)), seen(0.9))
    rollup.tick(640.0, 40.0, state(track(loud=True)), seen(0.1))
    rollup.tick(650.0, 10.0, state(track(lost=640.0)), seen(None))
    assert rollup.gpus == [], "the minute is not over"
    rollup.tick(660.0, 10.0, state(track()), seen(0.0))
    assert rollup.gpus == [GpuMinute(600, "a", 50.0, 10.0, 0.1, 0.26, 0.9)]
    assert rollup.machine == [MachineMinute(600, 50.0, 0.0, 10.0)]


def test_a_minute_without_a_reading_has_no_numbers() -> None:
    """Unknown is never a 0."""
    rollup = Rollup()
    rollup.tick(0.0, 10.0, state(track(lost=0.0)), seen(None))
    rollup.close()
    assert rollup.gpus == [GpuMinute(0, "a", 0.0, 10.0, None, None, None)]


@pytest.mark.parametrize(
    ("tracks", "expected"),
    [
        ((track(), track()), (0.0, 10.0, 0.0)),
        ((track(loud=True), track(lost=1.0)), (10.0, 0.0, 0.0)),
        ((track(), track(lost=1.0)), (0.0, 0.0, 10.0)),
        ((track(loud=True, lost=1.0), track()), (0.0, 0.0, 10.0)),
        ((), (0.0, 0.0, 10.0)),
    ],
)
def test_the_machine_works_if_any_gpu_does_and_is_never_quiet_beside_an_unknown(
    tracks: tuple[Track, ...], expected: tuple[float, ...]
) -> None:
    """Work counts first, then unknown; quiet needs every GPU."""
    rollup = Rollup()
    rollup.tick(0.0, 10.0, state(*tracks), seen(*[0.0] * len(tracks)))
    rollup.close()
    assert rollup.machine == [MachineMinute(0, *expected)]


def test_a_date_that_was_set_back_loses_nothing() -> None:
    """Rows go by the date of their tick; two rows of one minute are added up when they are written."""
    rollup = Rollup()
    for wall in (120.0, 60.0, 125.0):
        rollup.tick(wall, 10.0, state(track()), seen(0.0))
    rollup.close()
    assert [row.minute for row in rollup.machine] == [120, 60, 120]
