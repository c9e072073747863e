"""Repeating a call: pauses, the end of all tries, and the limit for one of them."""

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from costguard.cloud.api import CloudError
from costguard.cloud.retry import FIRST_PAUSE_SECONDS, LEAST_TRY_SECONDS, LateError, bounded, pauses, until


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock moves by sleeping alone."""
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(naps))
    return naps


def failing(times: int, trouble: CloudError) -> Callable[[float], str]:
    """A call that works after so many failures."""
    left = [trouble] * times

    def call(_left: float) -> str:
        if left:
            raise left.pop()
        return "answer"

    return call


BUSY = CloudError("throttled", "slow down")


def test_pauses_double_up_to_a_cap_and_never_in_step() -> None:
    """Each lies between half of its step and the whole."""
    steps = [min(FIRST_PAUSE_SECONDS * 2**number, 2.0) for number in range(8)]
    found = list(itertools.islice(pauses(2.0), 8))
    assert all(step / 2 <= pause <= step for step, pause in zip(steps, found, strict=True))
    assert found != list(itertools.islice(pauses(2.0), 8))


def test_it_is_tried_until_it_answers(slept: list[float]) -> None:
    """One pause before each further try."""
    assert until(60.0, failing(4, BUSY), lambda _: 0.0) == "answer"
    assert len(slept) == 4


def test_a_longer_wait_is_the_clouds_to_ask(slept: list[float]) -> None:
    """And is granted where the time is there; the pause of the step stays the least."""
    assert until(60.0, failing(2, BUSY), lambda _: 7.0) == "answer"
    assert slept == [7.0, 7.0]


def test_a_wait_beyond_the_end_is_not_waited(slept: list[float]) -> None:
    """The error comes at once."""
    with pytest.raises(CloudError):
        until(5.0, failing(1, BUSY), lambda _: 7.0)
    assert slept == []


def test_the_end_holds(slept: list[float]) -> None:
    """The call hears how much is left."""
    heard: list[float] = []

    def call(left: float) -> str:
        heard.append(left)
        raise BUSY

    with pytest.raises(CloudError):
        until(10.0, call, lambda _: 0.0)
    assert sum(slept) < 10.0
    assert heard == sorted(heard, reverse=True)
    assert heard[-1] >= LEAST_TRY_SECONDS


def test_a_try_that_would_be_cut_off_is_not_begun(slept: list[float]) -> None:
    """Its failure would be an unknown one, and nobody may act on that."""
    with pytest.raises(CloudError):
        until(2.0 + LEAST_TRY_SECONDS / 2, failing(1, BUSY), lambda _: 2.0)
    assert slept == []


def test_what_may_not_be_repeated_is_not(slept: list[float]) -> None:
    """The plug-in says so."""
    with pytest.raises(CloudError):
        until(60.0, failing(1, BUSY), lambda _: None)
    assert slept == []


def test_only_so_many_tries(slept: list[float]) -> None:
    """However much time is left."""
    with pytest.raises(CloudError):
        until(60.0, failing(3, BUSY), lambda _: 0.0, tries=3)
    assert len(slept) == 2


def test_a_call_that_hangs_is_left_behind() -> None:
    """Whoever waits is back in time, and hears how long it was; it keeps no process from ending."""
    gate, before = threading.Event(), set(threading.enumerate())
    began = time.monotonic()
    with pytest.raises(LateError, match=r"within 0\.2 s"):
        bounded(gate.wait, 0.2)
    assert time.monotonic() - began < 1.0
    assert [thread.daemon for thread in threading.enumerate() if thread not in before] == [True]
    gate.set()


def test_a_call_without_time_is_not_made() -> None:
    """It could have its effect after everybody has gone."""
    made: list[int] = []
    with pytest.raises(LateError):
        bounded(lambda: made.append(1), 0.0)
    assert made == []


def test_answers_and_errors_come_through() -> None:
    """As if the call had been made here."""
    assert bounded(lambda: None, 1.0) is None
    with pytest.raises(ZeroDivisionError):
        bounded(lambda: 1 // 0, 1.0)
