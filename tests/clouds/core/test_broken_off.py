"""Kill -9 of the worker, and the network cut, between every two steps of a cloud action."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clouds.core.conftest import Answers, Rented
from tests.contract.cloud_server import Cloud
from tests.forked import Forked


@contextmanager
def worker(rented: Rented) -> Iterator[Forked]:
    """A worker that is killed at the end."""
    started = rented.start(rented.job("act"))
    yield started
    os.kill(started.pid, signal.SIGKILL)
    started.wait(10)
    for pipe in (started.stdin, started.stdout):
        assert pipe
        pipe.close()


def line(started: Forked) -> Answers:
    assert started.stdout
    found = json.loads(started.stdout.readline())
    assert isinstance(found, dict)
    return found


def go(started: Forked) -> None:
    assert started.stdin
    started.stdin.write(b'{"go":true}\n')
    started.stdin.flush()


def test_killed_while_it_plans(rented: Rented, cloud: Cloud) -> None:
    """Nothing was sent, nothing is recorded, and the same attempt could still be made."""
    cloud.slow = 1.0
    with worker(rented):
        pass
    cloud.slow = 0.0
    assert cloud.asked == []
    assert rented.ask("act")["outcome"]["status"] == "accepted"


def test_killed_while_it_waits(rented: Rented, cloud: Cloud) -> None:
    """As before: the record begins with the release."""
    with worker(rented) as started:
        line(started)
        assert line(started) == {"ready": True}
    assert cloud.asked == []
    assert not (rented.root / "results/b-a1.json").exists()


def test_killed_while_the_request_is_out(rented: Rented, cloud: Cloud) -> None:
    """It took effect all the same: the cloud is asked, and nothing is sent a second time."""
    cloud.wait.clear()
    with worker(rented) as started:
        line(started)
        line(started)
        go(started)
        assert cloud.took.wait(10)
    cloud.wait.set()
    assert rented.ask("confirm")["outcome"]["status"] == "done"
    assert rented.ask("act")["outcome"]["status"] in {"unknown", "refused"}
    assert len(cloud.asked) == 1


def test_killed_while_the_request_is_out_and_lost(rented: Rented, cloud: Cloud) -> None:
    """It had no effect: that is unknown, never *done*, and never sent again under this attempt."""
    cloud.wait.clear()
    cloud.fail["/machines/m-42/stop"] = 0
    with worker(rented) as started:
        line(started)
        line(started)
        go(started)
        assert cloud.took.wait(10)
    cloud.wait.set()
    assert rented.ask("confirm")["outcome"]["status"] == "unknown"
    assert rented.ask("act")["outcome"]["status"] == "unknown"
    assert len(cloud.asked) == 1


def test_killed_after_the_answer(rented: Rented, cloud: Cloud) -> None:
    """The record says what became of it, with proof and receipt."""
    with worker(rented) as started:
        line(started)
        line(started)
        go(started)
        assert line(started)["outcome"]["status"] == "accepted"
    cloud.machine["status"] = "running"
    outcome = rented.ask("confirm")["outcome"]
    assert (outcome["status"], outcome["proof"]) == ("accepted", "r-b-a1")
    assert outcome["receipt"]["request"] == "r-b-a1"


@pytest.mark.parametrize("step", ["/machine", "/token", "/machines"])
def test_cut_before_the_plan_is_made(rented: Rented, cloud: Cloud, step: str) -> None:
    """Technical: the next try, or the next action of the list, may follow."""
    cloud.fail[step] = 0
    answers = rented.ask("act")
    assert answers["plan"]["verdict"] == "failed"
    assert answers["plan"]["findings"][0]["code"] == "unreachable"
    assert cloud.asked == []


def test_cut_when_the_request_is_sent(rented: Rented, cloud: Cloud) -> None:
    """Nobody can say whether it arrived: unknown, so the cloud is asked before anything follows."""
    cloud.fail["/machines/m-42/stop"] = 0
    outcome = rented.ask("act")["outcome"]
    assert outcome["status"] == "unknown"
    assert outcome["receipt"]["instance"] == "m-42"


def test_cut_after_it_took_effect(rented: Rented, cloud: Cloud) -> None:
    """The answer is lost and the machine stops: that is accepted, as the cloud shows."""
    cloud.mute.add("stop")
    outcome = rented.ask("act")["outcome"]
    assert outcome["status"] == "accepted"
    assert "the cloud shows the machine stopped" in outcome["detail"]


def test_cut_when_it_is_confirmed(rented: Rented, cloud: Cloud) -> None:
    """An acceptance that cannot be followed up is unknown, and told as such."""
    rented.ask("act")
    cloud.fail["/machines"] = 0
    assert rented.ask("confirm")["outcome"]["status"] == "unknown"


def test_accepted_and_nothing_happens(rented: Rented, cloud: Cloud) -> None:
    """It stays *accepted*; how long that may last is the engine's to say."""
    rented.ask("act")
    cloud.machine["status"] = "running"
    assert rented.ask("confirm")["outcome"]["status"] == "accepted"
