"""Short-lived processes of the host reader: real ones, on virtual time; none is ever waited for."""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import pytest

from costguard.readers.host import errand as module
from costguard.readers.host.errand import LEAVES_WITHIN_SECONDS, UNREAPED_LIMIT, Errand, ErrandError, collect
from costguard.readers.host.errand_jobs import ProbeEnd, ProbeJob
from tests.unit.readers.host.servers import WITHIN
from tests.unit.readers.host.starved import starved

A = TypeVar("A")
NOW = 1000.0
SLEEPS = ProbeJob(("sleep", "60"), "", 1000.0)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    gone(NOW + 10 * LEAVES_WITHIN_SECONDS)
    assert not module._leaving


def gone(now: float) -> None:
    """Wait until those that were told to end have ended, or are late at that time."""
    end = time.monotonic() + WITHIN
    while module._leaving and time.monotonic() < end:
        collect(now)
        time.sleep(0.001)


def answer_of(one: Errand[A], now: float = NOW) -> A:
    while (found := one.look(now)) is None:
        assert select.select([one.fileno()], [], [], WITHIN)[0]
    return found


def test_an_answer_comes_when_it_is_there() -> None:
    """Looks before that say nothing, and take no time."""
    one = Errand("probe", ProbeJob(("true",), "", 5.0), ProbeEnd, NOW, 10.0)
    assert one.look(NOW) is None
    assert answer_of(one) == ProbeEnd()


def test_one_that_does_not_end_is_ended() -> None:
    """At its time, with what it has started."""
    one = Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0)
    assert one.look(NOW + 9.9) is None
    with pytest.raises(ErrandError, match="does not end"):
        one.look(NOW + 10.0)
    gone(NOW + 10.0)
    assert not os.path.exists(f"/proc/{one._pid}")


def test_one_that_dies_has_no_answer() -> None:
    """Unknown, and no dead reader."""
    one = Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0)
    os.kill(one._pid, signal.SIGKILL)
    with pytest.raises(ErrandError, match="ended without an answer"):
        answer_of(one)


def test_one_that_does_not_heed_is_killed() -> None:
    """A stopped process takes no SIGTERM; until it is gone it counts, and with too many of them none is started."""
    made = [Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0) for _ in range(UNREAPED_LIMIT)]
    for one in made:
        os.kill(one._pid, signal.SIGSTOP)
        one.stop(NOW)
        one.stop(NOW)
    with pytest.raises(ErrandError, match="earlier tries hang"):
        Errand("probe", SLEEPS, ProbeEnd, NOW + LEAVES_WITHIN_SECONDS - 0.1, 10.0)
    gone(NOW + LEAVES_WITHIN_SECONDS)
    assert (
        answer_of(Errand("probe", ProbeJob(("true",), "", 5.0), ProbeEnd, NOW + 60.0, 10.0), NOW + 60.0) == ProbeEnd()
    )


def test_a_job_that_makes_no_sense_is_answered() -> None:
    """The package may have been replaced while the reader runs."""
    one = Errand("notebook", ProbeJob(("true",), "", 5.0), ProbeEnd, NOW, 10.0)
    assert "malformed job" in answer_of(one).error


def test_an_answer_of_another_form_is_none() -> None:
    """The package may have been replaced while the reader runs: the sense is unknown, and the reader goes on."""

    class Other(NamedTuple):
        code: str

    one = Errand("probe", ProbeJob(("false",), "", 5.0), Other, NOW, 10.0)
    with pytest.raises(ErrandError, match="ended without an answer"):
        answer_of(one)


def test_one_that_cannot_be_started_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of files, or of the program."""
    before = len(os.listdir("/proc/self/fd"))
    with starved(), pytest.raises(ErrandError, match=r"cannot be done \(Too many open files\)"):
        Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ErrandError, match=r"cannot be done \(No such file or directory\)"):
        Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_one_that_somebody_else_has_taken_leave_of_is_forgotten() -> None:
    """It is gone, whoever heard of it."""
    one = Errand("probe", SLEEPS, ProbeEnd, NOW, 10.0)
    os.kill(one._pid, signal.SIGKILL)
    os.waitpid(one._pid, 0)
    one.stop(NOW)
    assert module._leaving == {}
