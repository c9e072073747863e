"""When the summary is due: nine in the morning, whatever the zone and its clocks do."""

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.notify.schedule import next_due

DAY = 86400.0


@pytest.fixture(params=["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "IST-5:30", "NZST-12NZDT,M9.5.0,M4.1.0/3"])
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Zones without the system's files."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TZ", request.param)
    time.tzset()
    yield
    patch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@given(after=st.floats(1.5e9, 2.5e9), every=st.sampled_from(["daily", "weekly"]))
def test_it_is_the_next_morning_at_nine(after: float, every: str) -> None:
    """Later than asked for, by a day or a week at most (and an hour, when the clocks change)."""
    due = next_due(after, every)
    at = time.localtime(due)
    assert (at.tm_hour, at.tm_min, at.tm_sec) == (9, 0, 0)
    assert after < due <= after + (7 if every == "weekly" else 1) * DAY + 7200.0
    assert every == "daily" or at.tm_wday == 0
    assert next_due(due, every) > due
