"""Workers that fail: what the engine gets to hear, so that nothing is done twice."""

import json
from typing import Any

import pytest

from costguard.agent.workers import Workers
from costguard.engine.effects import Check, Confirm, Go, Prepare, Tell
from costguard.engine.events import Outcome
from costguard.testing.simhost import Faults, SimHost, effective

EFFECTS: dict[str, Tell | Check | Prepare | Confirm] = {
    "tell": Tell("e1", "warning", "warning", {}),
    "check": Check("e1", "shutdown"),
    "prepare": Prepare("e1", "shutdown", "i1"),
    "confirm": Confirm("e1", "a1", "shutdown", "i1"),
}
KINDS = [("tell", "failed"), ("check", "failed"), ("prepare", "failed"), ("act", "unknown"), ("confirm", "unknown")]
"""An action that may have been carried out is unknown, never failed: after a failure the next one would follow."""


class NoProcesses(Faults):
    """The machine has no room for another process."""

    def take(self, subject: str, host: SimHost) -> str:
        return "EAGAIN" if subject.startswith("spawn:") else ""


class Silent(Faults):
    """Workers that do nothing of their own accord."""

    def take(self, subject: str, host: SimHost) -> str:
        return "" if subject.startswith("spawn:") or subject == "send" else "hang"


def started(kind: str) -> tuple[Workers, int]:
    """A worker of this kind that runs, and its number."""
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, effective())
    effect = EFFECTS["prepare" if kind == "act" else kind]
    assert workers.start(effect, 10.0, {}) is None
    (child,) = host.children
    if kind == "act":
        assert workers.go(Go("e1", "shutdown", "i1"), 20.0) is None
    return workers, child


@pytest.mark.parametrize(("kind", "status"), [kind for kind in KINDS if kind[0] != "act"])
def test_a_worker_that_cannot_be_started(kind: str, status: str) -> None:
    """No process to ask with proves nothing about the action that was asked about."""
    outcome = Workers(SimHost(seed=1, faults=NoProcesses()), effective()).start(EFFECTS[kind], 10.0, {})
    assert outcome is not None
    assert (outcome.effect, outcome.status) == ("e1", status)
    assert "could not be started" in outcome.detail


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_a_worker_that_ends_without_a_word(kind: str, status: str) -> None:
    """Whatever ended it."""
    workers, child = started(kind)
    outcome = workers.ended(child, -9, 30.0)
    assert outcome is not None
    assert outcome.status == status


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_a_worker_past_its_deadline(kind: str, status: str) -> None:
    """It is killed, and said to be late."""
    workers, _ = started(kind)
    assert [outcome.status for outcome in workers.late(1e6)] == [status]


@pytest.mark.parametrize(("kind", "status"), KINDS)
@pytest.mark.parametrize("line", [b"Segmentation fault", b'{"plan":7}', b'{"outcome":{}}', b'{"error":"no such job"}'])
def test_a_worker_that_makes_no_sense(kind: str, status: str, line: bytes) -> None:
    """Garbage, and a worker that says itself that it could not work."""
    workers, child = started(kind)
    outcome = workers.line(child, line, 30.0)
    assert outcome is not None
    assert outcome.status == status


RENTED = {**effective(), "providers": ["x=costguard_x"], "cloud": {"spread": 300.0}}


def plan_of(verdict: str, kind: str) -> tuple[Workers, int, Outcome | None]:
    """What the engine hears of a plan with a receipt."""
    workers, child = started(kind)
    plan = {"action": "stop", "verdict": verdict, "findings": [], "receipt": {"instance": "m", "cloud": "X"}}
    return workers, child, workers.line(child, json.dumps({"plan": plan}).encode(), 11.0)


def test_a_plan_that_could_not_be_checked_is_a_failure() -> None:
    """It may pass: the check is made again, the attempt is tried again, then the next action follows."""
    for kind in ("check", "prepare"):
        _, _, outcome = plan_of("failed", kind)
        assert outcome is not None
        assert outcome.status == "failed"


def test_the_receipt_of_a_plan_comes_with_ready() -> None:
    """The message that announces the act has it, before anything is sent."""
    workers, child, outcome = plan_of("go", "prepare")
    assert outcome is None
    ready = workers.line(child, b'{"ready":true}', 12.0)
    assert ready is not None
    assert (ready.status, json.loads(ready.receipt)) == ("ready", {"instance": "m", "cloud": "X"})


@pytest.mark.parametrize("receipt", [None, 7, [], {}, "text", {"x": "y" * 5000}])
def test_a_receipt_that_makes_no_sense_is_none(receipt: object) -> None:
    """It never keeps an outcome from being heard."""
    workers, child = started("act")
    said = {"outcome": {"status": "accepted", "detail": "", "proof": "p", "receipt": receipt}}
    outcome = workers.line(child, json.dumps(said).encode(), 30.0)
    assert outcome is not None
    assert (outcome.status, outcome.proof, outcome.receipt) == ("accepted", "p", "")


def waits(action: str, at: float, config: dict[str, Any], instance: str = "dmi:1") -> tuple[float, float]:
    """How long a check waits, and the deadline that it gets."""
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, config)
    assert workers.start(Check("e1", action), at, {"context": {"instance": instance}}) is None
    (program,) = host.children.values()
    return float(program.job.get("spread", 0.0)), workers.deadline - at


def test_the_checks_of_a_fleet_are_spread() -> None:
    """Five hundred machines that boot together ask over five minutes; none is taken for hung because it waited."""
    found = [waits("stop", 30.0, RENTED, f"dmi:{number:032x}") for number in range(500)]
    tenths = [sum(1 for wait, _ in found if tenth * 30 <= wait < (tenth + 1) * 30) for tenth in range(10)]
    assert sum(tenths) == 500
    assert max(tenths) <= 100
    assert {round(deadline - wait) for wait, deadline in found} == {60}


def test_who_asks_alone_waits_little_or_not() -> None:
    """Long after boot a tenth; an action that asks no cloud, and a machine without plug-ins, not at all."""
    whole, _ = waits("stop", 30.0, RENTED)
    later, _ = waits("stop", 90000.0, RENTED)
    assert later == pytest.approx(whole / 10.0)
    assert waits("shutdown", 30.0, RENTED)[0] == 0.0
    assert waits("stop", 30.0, effective())[0] == 0.0


def test_the_daily_check_takes_the_whole_time_and_the_last_plan_a_fifth() -> None:
    """Machines that were started, or fall idle, together; a person's own command waits for nobody."""
    whole, _ = waits("stop", 30.0, RENTED)
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, RENTED)
    mine = {"context": {"instance": "dmi:1"}}
    workers.start(Check("e1", "stop"), 90000.0, mine)
    workers.start(Check("e2", "stop"), 176400.0, mine)
    workers.start(Prepare("a1", "stop", "i1"), 176500.0, {**mine, "reason": "idle"})
    workers.start(Prepare("a2", "stop", "i2"), 176500.0, {**mine, "reason": "person"})
    found = [float(program.job["spread"]) for program in host.children.values()]
    assert found == pytest.approx([whole / 10.0, whole, whole / 5.0, 0.0])


def test_no_fleet_is_throttled_by_its_own_checks() -> None:
    """Five hundred machines, eight calls each, against a bucket of 100 calls that gains 20 a second: none is refused."""
    calls = sorted(
        waits("stop", 30.0, RENTED, f"dmi:{n:032x}")[0] + call * 0.1 for n in range(500) for call in range(8)
    )
    left, before, refused = 100.0, 0.0, 0
    for at in calls:
        left, before = min(100.0, left + (at - before) * 20.0), at
        refused += left < 1.0
        left -= left >= 1.0
    assert refused == 0
