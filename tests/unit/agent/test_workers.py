"""Workers that fail: what the engine gets to hear, so that nothing is done twice."""

import json

import pytest

from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.workers import Workers
from costguard.engine.effects import Check, Confirm, Go, Prepare, Tell
from costguard.engine.events import Outcome
from costguard.testing.simhost import Faults, SimHost, effective
from tests.unit.agent.crew import begin, ended, wrote

EFFECTS: dict[str, Tell | Check | Prepare | Confirm] = {
    "tell": Tell("e1", "warning", "warning", {}),
    "check": Check("e1", "shutdown"),
    "prepare": Prepare("e1", "shutdown", "i1"),
    "confirm": Confirm("e1", "a1", "shutdown", "i1"),
}
ALONE = Jitter("dmi:1", attended=False)
KINDS = [("tell", "failed"), ("check", "failed"), ("prepare", "failed"), ("act", "unknown"), ("confirm", "unknown")]
"""An action that may have been carried out is unknown, never failed: after a failure the next one would follow."""


class NoProcesses(Faults):
    """The machine has no room for another process."""

    def take(self, subject: str, host: SimHost) -> str:
        return "EAGAIN" if subject.startswith("spawn:") else ""


class Silent(Faults):
    """Workers that do nothing of their own accord, and nobody who could be asked what became of a message."""

    def take(self, subject: str, host: SimHost) -> str:
        if subject == "spawn:recall":
            return "EAGAIN"
        return "" if subject.startswith("spawn:") or subject == "send" else "hang"


def started(kind: str) -> tuple[Workers, int]:
    """A worker of this kind that runs, and its number."""
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, effective(), ALONE)
    effect = EFFECTS["prepare" if kind == "act" else kind]
    assert begin(workers, effect, 10.0) is None
    (child,) = host.children
    if kind == "act":
        assert workers.go(Go("e1", "shutdown", "i1"), 20.0, Circumstances()) is None
    return workers, child


@pytest.mark.parametrize(("kind", "status"), [kind for kind in KINDS if kind[0] != "act"])
def test_a_worker_that_cannot_be_started(kind: str, status: str) -> None:
    """No process to ask with proves nothing about the action that was asked about."""
    crew = Workers(SimHost(seed=1, faults=NoProcesses()), effective(), ALONE)
    outcome = begin(crew, EFFECTS[kind], 10.0)
    assert outcome is not None
    assert (outcome.effect, outcome.status) == ("e1", status)
    assert "cannot start" in outcome.detail


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_a_worker_that_ends_without_a_word(kind: str, status: str) -> None:
    """Whatever ended it."""
    workers, child = started(kind)
    outcome = ended(workers, child, -9, 30.0)
    assert outcome is not None
    assert outcome.status == status


@pytest.mark.parametrize(("kind", "status"), KINDS)
def test_a_worker_past_its_deadline(kind: str, status: str) -> None:
    """It is killed, and said to be late."""
    workers, _ = started(kind)
    assert [outcome.status for outcome in workers.late(1e6)] == [status]


@pytest.mark.parametrize(("kind", "status"), KINDS)
@pytest.mark.parametrize(
    "line",
    [
        b"Segmentation fault",
        b'{"plan":7}',
        b'{"outcome":{}}',
        b'{"outcome":{"status":"done","detail":"","receipt":7}}',
        b'{"error":"no such job"}',
    ],
)
def test_a_worker_that_makes_no_sense(kind: str, status: str, line: bytes) -> None:
    """Garbage, and a worker that says itself that it could not work."""
    workers, child = started(kind)
    outcome = wrote(workers, child, line, 30.0)
    assert outcome is not None
    assert outcome.status == status


def plan_of(verdict: str, kind: str) -> tuple[Workers, int, Outcome | None]:
    """What the engine hears of a plan with a receipt."""
    workers, child = started(kind)
    plan = {"action": "stop", "verdict": verdict, "findings": [], "receipt": {"instance": "m", "cloud": "X"}}
    return workers, child, wrote(workers, child, json.dumps({"plan": plan}).encode(), 11.0)


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
    ready = wrote(workers, child, b'{"ready":true}', 12.0)
    assert ready is not None
    assert (ready.status, json.loads(ready.receipt)) == ("ready", {"instance": "m", "cloud": "X"})


def test_a_receipt_that_is_too_long_is_none() -> None:
    """It never keeps an outcome from being heard."""
    workers, child = started("act")
    said = {"outcome": {"status": "accepted", "detail": "", "proof": "p", "receipt": {"x": "y" * 5000}}}
    outcome = wrote(workers, child, json.dumps(said).encode(), 30.0)
    assert outcome is not None
    assert (outcome.status, outcome.proof, outcome.receipt) == ("accepted", "p", "")


def test_checks_run_one_after_another_in_the_order_of_the_actions() -> None:
    """A shutdown is a fallback only where the cloud's plan, which takes longer, has shown what it would do."""
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, effective(), ALONE)
    for number, action in enumerate(("stop", "shutdown", "reboot")):
        assert workers.submit(Check(f"c{number}", action), 10.0, Circumstances()) is None
    for number in range(2):
        assert (len(host.children), workers.take_due(1e9)) == (number + 1, None)
        assert workers.deadline > 10.0, "nothing is due meanwhile"
        assert workers.submit(Prepare(f"a{number}", "shutdown", "i1"), 10.0, Circumstances()) is None
        host.children.popitem()  # what acts waits for no check
        wrote(workers, max(host.children), b'{"plan":{"verdict":"go","findings":[]}}', 12.0)
        assert workers.deadline == 10.0
        ripe = workers.take_due(12.0)
        assert ripe == Check(f"c{number + 1}", ("stop", "shutdown", "reboot")[number + 1])
        assert workers.start(ripe, 12.0, Circumstances()) is None


def test_a_check_waits_for_one_that_is_put_off() -> None:
    """The cloud is asked at a moment of each machine's own; what rests on the answer is asked afterwards."""
    config = {**effective(), "providers": ["x=costguard_x"], "cloud": {"spread": 600.0}}
    host = SimHost(seed=1, faults=Silent())
    workers = Workers(host, config, ALONE)
    for number, action in enumerate(("stop", "shutdown")):
        assert workers.submit(Check(f"c{number}", action, 10.0), 10.0, Circumstances()) is None
    assert (len(host.children), workers.take_due(10.0)) == (0, None)
    due = workers.deadline
    assert due == ALONE.due_at(Check("c0", "stop", 10.0), 10.0, config, "")
    first = workers.take_due(due)
    assert first == Check("c0", "stop", 10.0)
    assert workers.start(first, due, Circumstances()) is None
    assert workers.take_due(due) is None
