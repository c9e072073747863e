"""What a worker says becomes exactly one outcome, and no worker ends for another one's sake."""

import json
import os
from typing import Any

import pytest

from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.workers import REACHED_LIMIT, Workers
from costguard.engine import time_limits
from costguard.engine.effects import Check, Confirm, Effect, Go, Prepare, Save, Tell
from costguard.engine.events import Outcome
from costguard.testing.simhost import Faults, SimHost, effective
from tests.unit.agent.crew import begin, ended, wrote

FINDING = {"code": "bill_ends", "text": "computing ends", "hint": ""}
FOUND = (("bill_ends", "computing ends", ""),)
FLEET = {"providers": ["x=costguard_x"], "cloud": {"spread": 1200.0, "action_spread": 600.0}}


class Silent(Faults):
    """Workers do nothing of their own accord, and nobody can be asked what became of a message."""

    def take(self, subject: str, host: SimHost) -> str:
        if subject == "spawn:recall":
            return "EAGAIN"
        return "" if subject.startswith("spawn:") or subject == "send" else "hang"


def workers(**config: Any) -> tuple[Workers, SimHost]:
    host = SimHost(seed=1, faults=Silent())
    return Workers(host, {**effective(), **config}, Jitter("dmi:1", attended=False)), host


def said(effect: Any, *lines: Any, go: bool = False) -> list[Outcome]:
    """The outcomes of a worker of this effect that writes these lines and ends."""
    crew, host = workers()
    assert begin(crew, effect, 10.0) is None
    (child,) = host.children
    found = []
    for number, line in enumerate(lines):
        found.append(wrote(crew, child, line if isinstance(line, bytes) else json.dumps(line).encode(), 11.0 + number))
        if go and number == len(lines) - 2:
            assert crew.go(Go("e1", "shutdown", "i1"), 12.0, Circumstances()) is None
    found.append(ended(crew, child, 0, 20.0))
    assert not crew.owns(child)
    return [one for one in found if one is not None]


TELL, CHECK, PREPARE = Tell("e1", "warning", "warning", {}), Check("e1", "shutdown"), Prepare("e1", "shutdown", "i1")
CONFIRM = Confirm("e1", "a1", "shutdown", "i1")


@pytest.mark.parametrize(
    ("answer", "status", "detail", "proof"),
    [
        (
            {"reached": {"wall": "2 terminals"}, "failed": {}},
            "delivered",
            "",
            "wall: 2 terminals",
        ),
        ({"reached": {"wall": "1 terminal", "ntfy": ""}}, "delivered", "", "wall: 1 terminal; ntfy"),
        ({"reached": {"wall": ""}, "failed": {"ntfy": "timeout"}}, "delivered", "ntfy: timeout", "wall"),
        (
            {"reached": {}, "failed": {"wall": "nobody", "ntfy": "timeout"}},
            "failed",
            "wall: nobody; ntfy: timeout",
            "",
        ),
        ({"error": "malformed job"}, "failed", "malformed job", ""),
        ({}, "failed", "", ""),
        ({"reached": {"x" * 900: ""}}, "delivered", "", "x" * REACHED_LIMIT),
    ],
)
def test_a_message_is_delivered_when_one_channel_took_it(
    answer: dict[str, Any], status: str, detail: str, proof: str
) -> None:
    """Whom it reached, and which channel failed and why."""
    reached, failed = (tuple(answer.get(part, {}).items()) for part in ("reached", "failed"))
    assert said(TELL, answer) == [Outcome(11.0, "e1", status, detail, proof=proof, reached=reached, failed=failed)]


@pytest.mark.parametrize("effect", [CHECK, PREPARE])
@pytest.mark.parametrize("verdict", ["go", "consequences", "another", "refuse", "failed"])
def test_a_plan_is_the_answer_of_a_check_and_only_a_veto_that_of_an_attempt(effect: Effect, verdict: str) -> None:
    """An attempt whose plan passes goes on to be ready, with what the plan found and its receipt."""
    plan = {"plan": {"action": "stop", "verdict": verdict, "findings": [FINDING], "receipt": {"instance": "m"}}}
    found = said(effect, plan, {"ready": True}) if effect is PREPARE else said(effect, plan)
    passes = verdict in {"go", "consequences"}
    if effect is PREPARE and passes:
        ready, ended = found
        assert ready == Outcome(12.0, "e1", "ready", "", FOUND, receipt='{"instance":"m"}')
        assert (ended.status, "exited without a result (exit code 0)" in ended.detail) == ("failed", True)
    else:
        assert found == [Outcome(11.0, "e1", verdict, "computing ends", FOUND)]


@pytest.mark.parametrize("status", ["accepted", "done", "failed", "refused", "unknown"])
@pytest.mark.parametrize("effect", [PREPARE, CONFIRM])
def test_an_outcome_is_handed_on_as_it_is(effect: Effect, status: str) -> None:
    """Once: whatever the worker writes after it, and its end, are no news."""
    outcome = {"outcome": {"status": status, "detail": "words", "proof": "r-1", "receipt": {"request": "r-1"}}}
    more = [{"outcome": {"status": "done", "detail": ""}}, {"error": "no"}, b"Segmentation fault"]
    assert said(effect, outcome, *more) == [
        Outcome(11.0, "e1", status, "words", proof="r-1", receipt='{"request":"r-1"}')
    ]
    assert said(effect, {"outcome": {"status": status, "detail": ""}}) == [Outcome(11.0, "e1", status)]


@pytest.mark.parametrize(
    "line", [{}, {"ready": False}, {"plan": {"action": "stop", "verdict": "go"}}, {"of another version": 1}]
)
def test_what_is_no_answer_waits_for_one(line: object) -> None:
    """Nothing follows from it; the worker may still say what it found."""
    first, *rest = said(CONFIRM, line, {"outcome": {"status": "done", "detail": "x"}})
    assert (first, rest) == (Outcome(12.0, "e1", "done", "x"), [])


def test_the_price_that_a_plan_learnt_stays_until_another_is_known() -> None:
    """A plan without one takes none away."""
    crew, host = workers()
    for number, price in enumerate([{"per_hour": 2.0}, {}, {}, {"per_hour": 3.0}]):
        begin(crew, Check(f"c{number}", "shutdown"), 10.0)
        plan: dict[str, Any] = {"action": "stop", "verdict": "go", "findings": [], "price": price}
        wrote(crew, list(host.children)[-1], json.dumps({"plan": plan}).encode(), 11.0)
        assert crew.price == ({"per_hour": 2.0} if number < 3 else {"per_hour": 3.0})


def test_only_the_worker_that_is_meant_is_ended() -> None:
    """Neither another effect's, nor one that acts: that one is out of reach."""
    crew, host = workers()
    for effect in (
        TELL._replace(id="m1"),
        PREPARE._replace(id="a1"),
        PREPARE._replace(id="a2"),
        CHECK._replace(id="c1"),
    ):
        begin(crew, effect, 10.0)
    tell, one, two, check = host.children
    crew.go(Go("a2", "shutdown", "i1"), 20.0, Circumstances())
    crew.abandon("a1")
    crew.abandon("a2")
    assert [crew.owns(child) for child in (tell, one, two, check)] == [True, False, True, True]
    assert list(host.children) == [tell, two, check]
    crew.abandon_all("prepare", "tell")
    assert list(host.children) == [two, check]
    crew.abandon_all("prepare", "check", "confirm", "tell", "act")
    assert list(host.children) == [two]


def test_each_kind_has_its_own_time() -> None:
    """And it ends a moment before: what is late is killed, told once, and is out of the list."""
    for effect, limit in (
        (TELL, time_limits.TELL.killed),
        (CHECK, time_limits.CHECK.killed),
        (PREPARE, time_limits.prepare(0.0).killed),
        (CONFIRM, time_limits.CONFIRM.killed),
        (Save("e1", "stop", 30.0), time_limits.save(0.0).killed),
    ):
        crew, host = workers()
        begin(crew, effect, 10.0)
        assert crew.deadline == 10.0 + limit
        assert crew.late(10.0 + limit - 0.1) == []
        assert [(one.effect, "killed" in one.detail) for one in crew.late(10.0 + limit)] == [("e1", True)]
        assert (crew.late(1e9), host.children, crew.deadline) == ([], {}, float("inf"))


def test_a_worker_that_waits_ready_may_wait_and_one_that_was_released_has_the_time_of_its_action() -> None:
    """Longer than any countdown needs it; then as long as the configuration gives the action."""
    for timeout, given in ((None, time_limits.ACTION_SECONDS), (300, 300.0)):
        settings = {} if timeout is None else {"timeout": timeout}
        crew, host = workers(actions={"shutdown": settings})
        begin(crew, PREPARE, 10.0)
        (child,) = host.children
        assert host.children[child].job["deadline"] == given
        wrote(crew, child, b'{"plan":{"action":"shutdown","verdict":"go"}}', 11.0)
        wrote(crew, child, b'{"ready":true}', 12.0)
        assert crew.deadline == 12.0 + time_limits.READY_KILLED_SECONDS
        assert crew.go(Go("e1", "shutdown", "i1"), 50.0, Circumstances()) is None
        assert crew.deadline == 50.0 + time_limits.act(given).killed
        gone = ended(crew, child, -9, 60.0)
        assert gone == Outcome(
            60.0, "e1", "unknown", "the worker failed: its process exited without a result (signal 9)"
        )
        gone = crew.go(Go("e1", "shutdown", "i1"), 61.0, Circumstances())
        assert gone is not None
        assert (gone.effect, gone.status) == ("e1", "failed")


def test_what_was_reported_is_not_reported_again_when_its_worker_is_late() -> None:
    """It said its outcome and does not end: it is killed, and that is all."""
    crew, host = workers()
    begin(crew, CHECK, 10.0)
    (child,) = host.children
    assert wrote(crew, child, b'{"plan":{"action":"shutdown","verdict":"go"}}', 11.0) is not None
    assert crew.telling is False
    assert (crew.late(1e6), host.children) == ([], {})


def test_a_message_under_way_is_known_until_it_is_answered() -> None:
    """A guard that ends waits for it."""
    crew, host = workers()
    begin(crew, TELL, 10.0)
    (child,) = host.children
    told = [crew.telling]
    wrote(crew, child, b'{"reached":{"wall":""}}', 11.0)
    assert [*told, crew.telling] == [True, False]


def test_what_has_its_moment_later_is_started_then_or_replaced_or_dropped() -> None:
    """One check and one attempt of each action wait; a newer one takes the place of the same, and of no other."""
    crew, host = workers(**FLEET)
    assert crew.submit(Check("c1", "stop", 1000.0, known=True), 1000.0, Circumstances()) is None
    assert crew.submit(Check("c2", "terminate", 1000.0, known=True), 1000.0, Circumstances()) is None
    assert crew.submit(Prepare("a1", "stop", "i1"), 1000.0, Circumstances()) is None
    assert crew.submit(Check("c3", "stop", 1000.0, known=True), 1000.0, Circumstances()) is None
    assert host.children == {}
    assert 1000.0 < crew.deadline < 1000.0 + 1200.0
    assert crew.take_due(crew.deadline - 0.1) is None
    waited = []
    while (found := crew.take_due(1e6)) is not None:
        waited.append(found.id)
    assert sorted(waited) == ["a1", "c2", "c3"]
    for kinds, kept in ((("check",), ["a1"]), (("prepare",), ["c1"]), (("tell",), ["a1", "c1"])):
        crew, _ = workers(**FLEET)
        crew.submit(Check("c1", "stop", 1000.0, known=True), 1000.0, Circumstances())
        crew.submit(Prepare("a1", "stop", "i1"), 1000.0, Circumstances())
        crew.abandon_all(*kinds)
        found_ids = []
        while (found := crew.take_due(1e6)) is not None:
            found_ids.append(found.id)
        assert sorted(found_ids) == kept
    crew, host = workers(**FLEET)
    crew.submit(Prepare("a1", "stop", "i1"), 1000.0, Circumstances())
    crew.abandon("a1")
    assert crew.take_due(1e6) is None
    crew.submit(Prepare("a2", "stop", "i1"), 1000.0, Circumstances(reason="person"))
    assert len(host.children) == 1


def test_a_message_has_what_its_channels_need() -> None:
    """Its own facts before those of the moment; where the machine's files are; the channels as configured."""
    notify = {"channels": ["wall"], "attempts": 3}
    crew, host = workers(notify=notify, host={"procfs": "/host/proc", "sysfs": "/sys"})
    crew.tell(Tell("m1", "warning", "critical", {"gpus": ["a"], "sentence": "own"}), 10.0, {"sentence": "x", "more": 1})
    (program,) = host.children.values()
    assert program.job == {
        "message": {
            "id": "m1", "kind": "warning", "level": "critical", "facts": {"gpus": ["a"], "sentence": "own", "more": 1},
        },
        "channels": ["wall"],
        "settings": {**notify, "procfs": "/host/proc", "runtime": "/simulated/runtime"},
        "deadline": time_limits.DELIVERY_SECONDS,
        "history": "/simulated/state",
        "guard": os.getpid(),
    }  # fmt: skip
