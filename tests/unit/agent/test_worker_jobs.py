"""What the guard gives each worker to do, how long it waits for it, and what it makes of every answer."""

import json
import os
from typing import Any

import pytest

from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.workers import REACHED_LIMIT, RECEIPT_LIMIT, Workers
from costguard.engine import time_limits
from costguard.engine.effects import Check, Confirm, Go, Prepare, Save, Tell
from costguard.engine.events import Outcome
from costguard.host.ports import SpawnFailed
from tests.unit.agent.crew import begin, ended, wrote

NOW = 100.0
CONFIG: dict[str, Any] = {
    "policy": {"mode": "live", "fallback": ["shutdown"]},
    "paths": {"runtime": "/run/x"},
    "host": {"procfs": "/p", "sysfs": "/s", "devfs": "/d"},
    "notify": {"channels": ["a", "b"], "price": 7},
    "cloud": {"spread": 3600.0, "action_spread": 600.0},
    "sink": {"url": "u"},
    "heartbeat": {"url": "h"},
    "providers": ["x=y"],
    "actions": {"stop": {"timeout": 240.0, "more": 1}, "command": {"run": ["c"]}},
}
HOOK = {"pre_stop": ["save"], "timeout": 90.0}
GIVEN = Circumstances("idle", "s", 7.0, ("g1",), "i-1")
FACTS = {"reason": "idle", "sentence": "s"}
PREPARE, CHECK, CONFIRM = Prepare("e1", "stop", "i1"), Check("e1", "stop"), Confirm("e2", "a1", "stop", "i1")
TELL, SAVE = Tell("e1", "warning", "critical", {"x": 1}), Save("e1", "stop", 30.0)


class Port:
    """Processes of which only what is asked of them is known."""

    def __init__(self) -> None:
        self.spawned: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.killed: list[int] = []
        self.full = self.deaf = False

    def spawn(self, program: str, job: bytes) -> int:
        if self.full:
            raise SpawnFailed("no room for another process")
        assert job == json.dumps(json.loads(job), separators=(",", ":")).encode(), "as short as it can be"
        self.spawned.append((program, json.loads(job)))
        return len(self.spawned)

    def send(self, child: int, line: bytes) -> bool:
        self.sent.append((child, line))
        return not self.deaf

    def kill(self, child: int) -> None:
        self.killed.append(child)


Effect = Tell | Check | Prepare | Confirm | Save


class Crew:
    """Workers of a guard with one effect started."""

    def __init__(self, effect: Effect | None = None, *, attended: bool = False, **config: Any) -> None:
        self.port = Port()
        moments = Jitter("dmi:1", attended=attended)
        self.workers = Workers(self.port, {**CONFIG, **config}, moments)  # type: ignore[arg-type] # of a host it uses these three
        if effect is not None:
            assert begin(self.workers, effect, NOW, GIVEN, FACTS) is None

    @property
    def job(self) -> dict[str, Any]:
        return self.port.spawned[-1][1]

    def hears(self, said: object, now: float = NOW + 1.0, child: int = 1) -> Outcome | None:
        return wrote(self.workers, child, json.dumps(said).encode(), now)


BASE = {
    "step": "pre_stop",
    "action": "stop", "mode": "live", "settings": CONFIG["actions"]["stop"], "cloud": CONFIG["cloud"],
    "sink": {"url": "u"}, "heartbeat": {"url": "h"}, "providers": ["x=y"], "results": "/run/x/results",
    "host": CONFIG["host"], "gpus": ["g1"], **{n: getattr(GIVEN, n) for n in GIVEN._fields if n not in {"gpus", "devices", "beside"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("effect", "config", "own", "killed"),
    [
        (CHECK, {}, {"job": "plan", "attempt": "e1", "deadline": 45.0}, 165.0),
        (PREPARE, {}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 240.0}, 175.0),
        (PREPARE, {"hooks": HOOK}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 240.0, "hook": HOOK}, 265.0),
        (PREPARE, {"hooks": {"pre_stop": ["x"]}}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 240.0, "hook": {"pre_stop": ["x"]}}, 235.0),
        (PREPARE, {"hooks": {"timeout": 90.0}}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 240.0, "hook": {"timeout": 90.0}}, 175.0),
        (CONFIRM, {}, {"job": "confirm", "attempt": "a1", "incident": "i1", "deadline": 100.0}, 210.0),
        (SAVE, {"hooks": HOOK}, {"job": "hook", "attempt": "e1", "deadline": 30.0, "hook": HOOK}, 110.0),
        (Save("e1", "stop", 500.0), {"hooks": HOOK}, {"job": "hook", "attempt": "e1", "deadline": 90.0, "hook": HOOK}, 110.0),
        (Save("e1", "stop", 0.2), {"hooks": HOOK}, {"job": "hook", "attempt": "e1", "deadline": 1.0, "hook": HOOK}, 110.0),
        (Prepare("e1", "shutdown", "i1"), {}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 60.0, "action": "shutdown", "settings": None, "fallback": True}, 175.0),
        (Prepare("e1", "command", "i1"), {}, {"job": "act", "attempt": "e1", "incident": "i1", "deadline": 60.0, "action": "command", "settings": {"run": ["c"]}}, 175.0),
    ],
)  # fmt: skip
def test_the_job_of_an_action_worker(
    effect: Effect, config: dict[str, Any], own: dict[str, Any], killed: float
) -> None:
    """All that it needs and nothing else; each kind has its own time, and is ended a while after it."""
    crew = Crew(effect, **config)
    wanted = {name: value for name, value in {**BASE, **own}.items() if value is not None}
    assert crew.port.spawned == [("act", wanted)]
    assert crew.workers.deadline == NOW + killed
    assert (crew.workers.owns(1), crew.workers.owns(2), crew.workers.telling) == (True, False, False)


def test_the_job_of_a_message() -> None:
    """To all channels, with what is known; where the machine's files are goes with it, no more of the host."""
    crew = Crew(TELL)
    facts = {**FACTS, "x": 1}
    sent = {"id": "e1", "kind": "warning", "level": "critical", "facts": facts}
    assert crew.port.spawned == [
        ("notify", {
            "message": sent, "channels": ["a", "b"], "deadline": 25.0, "guard": os.getpid(),
            "settings": {"channels": ["a", "b"], "price": 7, "procfs": "/p", "devfs": "/d", "runtime": "/run/x"},
        })
    ]  # fmt: skip
    assert (crew.workers.deadline, crew.workers.telling) == (NOW + time_limits.TELL.killed, True)
    bare = Crew()
    bare.workers.config = {"policy": CONFIG["policy"], "paths": CONFIG["paths"]}
    assert bare.workers.tell(TELL, NOW, {"x": 0}) is None
    assert (bare.job["channels"], bare.job["message"]["facts"], bare.job["settings"]) == (
        [],
        {"x": 1},
        {"runtime": "/run/x"},
    )
    assert bare.workers.start(PREPARE, NOW, Circumstances()) is None
    assert set(bare.job) == {"action", "mode", "attempt", "incident", "host", "results", "deadline", "job", "step"}


def test_what_leads_to_the_cloud_goes_with_a_message_that_needs_it() -> None:
    """Where a channel has its addresses in the cloud's store; no other message is told of the cloud."""
    for urls, wanted in (("env:A", None), ("secret:team", CONFIG["providers"])):
        crew = Crew(TELL, notify={"channels": {"team": {"urls": urls}}})
        found = crew.job.get("access")
        assert (found and found["providers"]) == wanted
    assert found == {
        "providers": ["x=y"],
        "cloud": CONFIG["cloud"],
        "host": {"procfs": "/p", "sysfs": "/s", "devfs": "/d"},
    }


# ---- answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "status", "detail", "proof"),
    [
        ({"reached": {"mail": "", "wall": ""}}, "delivered", "", "mail; wall"),
        ({"reached": {"mail": "ann, bob", "wall": ""}}, "delivered", "", "mail: ann, bob; wall"),
        ({"reached": {"mail": ""}, "failed": {"wall": "nobody", "chat": "503"}}, "delivered", "wall: nobody; chat: 503", "mail"),
        ({"failed": {"wall": "nobody"}, "error": "no job"}, "failed", "wall: nobody; no job", ""),
        ({"failed": {"wall": "nobody"}}, "failed", "wall: nobody", ""),
        ({}, "failed", "", ""),
        ({"reached": {"x" * 600: ""}}, "delivered", "", "x" * REACHED_LIMIT),
    ],
)  # fmt: skip
def test_who_was_reached(said: dict[str, Any], status: str, detail: str, proof: str) -> None:
    """One channel is enough; who could not be reached is told, and whom each one reached. Said once."""
    crew = Crew(TELL)
    found = crew.hears(said)
    reached, failed = (tuple(said.get(part, {}).items()) for part in ("reached", "failed"))
    assert found == Outcome(NOW + 1.0, "e1", status, detail, proof=proof, reached=reached, failed=failed)
    assert (crew.hears(said), crew.workers.telling) == (None, False)
    assert crew.workers.late(1e9) == []
    assert crew.port.killed == [1], "it is ended all the same when its time is over"


FINDINGS = [{"code": "c1", "text": "one"}, {"code": "2", "text": "two", "hint": "do"}]
FOUND = (("c1", "one", ""), ("2", "two", "do"))


@pytest.mark.parametrize("verdict", ["go", "consequences", "refuse", "another", "failed"])
@pytest.mark.parametrize("effect", [CHECK, PREPARE, CONFIRM])
def test_a_plan(effect: Effect, verdict: str) -> None:
    """That of a check is its outcome; that of an attempt only where it ends there, and else it comes with *ready*."""
    crew = Crew(effect)
    found = crew.hears(
        {
            "plan": {
                "action": "stop",
                "verdict": verdict,
                "findings": FINDINGS,
                "receipt": {"a": "1"},
                "price": {"amount": 2.0},
            }
        }
    )
    final = effect is CHECK or (effect is PREPARE and verdict in {"refuse", "another", "failed"})
    assert found == (Outcome(NOW + 1.0, effect.id, verdict, "one; two", FOUND) if final else None)
    assert crew.workers.price == {"amount": 2.0}
    ready = crew.hears({"ready": True}, NOW + 2.0)
    if effect is PREPARE and not final:
        assert ready == Outcome(NOW + 2.0, effect.id, "ready", findings=FOUND, receipt='{"a":"1"}')
        assert crew.workers.deadline == NOW + 2.0 + time_limits.READY_KILLED_SECONDS
    else:
        assert ready is None
    assert (ended(crew.workers, 1, 0, NOW + 3.0) is None) is final


def test_a_plan_that_heard_of_no_price_keeps_the_last() -> None:
    """It may not have asked."""
    crew = Crew(CHECK)
    crew.hears({"plan": {"action": "stop", "verdict": "go", "price": {"amount": 2.0}}})
    assert begin(crew.workers, CHECK, NOW) is None
    crew.hears({"plan": {"action": "stop", "verdict": "go"}}, child=2)
    assert crew.workers.price == {"amount": 2.0}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"outcome": {"status": "accepted", "detail": "d", "proof": "7", "receipt": {"a": "1"}}}, Outcome(NOW + 1.0, "e2", "accepted", "d", proof="7", receipt='{"a":"1"}')),
        ({"outcome": {"status": "pending", "detail": ""}}, Outcome(NOW + 1.0, "e2", "pending", "")),
        ({"outcome": {"status": "done", "detail": "", "receipt": {}}}, Outcome(NOW + 1.0, "e2", "done", "")),
        ({"error": "5"}, Outcome(NOW + 1.0, "e2", "unknown", "5")),
        ({"ready": True}, None), ({"other": 1}, None),
    ],
)  # fmt: skip
def test_an_outcome(said: object, found: Outcome | None) -> None:
    """Is said once; what is none leaves the worker its time."""
    crew = Crew(CONFIRM)
    assert crew.hears(said) == found
    gone = ended(crew.workers, 1, 3, NOW + 5.0)
    how = "the worker failed: its process exited without a result (exit code 3)"
    assert gone == (Outcome(NOW + 5.0, "e2", "unknown", how) if found is None else None)
    assert ended(crew.workers, 1, 3, NOW + 5.0) is None
    assert crew.hears(said) is None


@pytest.mark.parametrize(("code", "how"), [(0, "exit code 0"), (7, "exit code 7"), (-9, "signal 9")])
def test_how_a_worker_ended(code: int, how: str) -> None:
    """In words."""
    gone = ended(Crew(PREPARE).workers, 1, code, NOW)
    assert gone == Outcome(NOW, "e1", "failed", f"the worker failed: its process exited without a result ({how})")


@pytest.mark.parametrize("receipt", [{"a": "x" * (RECEIPT_LIMIT - 8)}, {"a": "x" * (RECEIPT_LIMIT - 7)}])
def test_a_receipt_has_its_limit(receipt: dict[str, str]) -> None:
    """One that is longer is none: half of it proves nothing."""
    crew = Crew(CONFIRM)
    found = crew.hears({"outcome": {"status": "done", "detail": "", "receipt": receipt}})
    text = json.dumps(receipt, separators=(",", ":"))
    assert found is not None
    assert found.receipt == (text if len(text) <= RECEIPT_LIMIT else "")
    assert len(text) in {RECEIPT_LIMIT, RECEIPT_LIMIT + 1}


def test_a_word_that_makes_no_sense_is_the_last() -> None:
    """Nothing that comes after it is believed, and the worker is not called lost a second time."""
    crew = Crew(CONFIRM)
    found = wrote(crew.workers, 1, b"garbage", NOW)
    assert found is not None
    assert found.detail == "the worker failed: it sent a malformed answer (it is not JSON)"
    assert crew.hears({"outcome": {"status": "done", "detail": ""}}) is None
    assert ended(crew.workers, 1, 0, NOW) is None
    assert wrote(Crew(CHECK).workers, 99, b"garbage", NOW) is None
    acting = Crew(PREPARE)
    assert acting.workers.go(Go("e1", "stop", "i1"), NOW, Circumstances()) is None
    found = wrote(acting.workers, 1, b"garbage", NOW)
    assert found is not None
    assert (found.status, acting.port.killed, acting.workers.owns(1)) == ("unknown", [], True), (
        "what acts is out of reach"
    )


# ---- release and end --------------------------------------------------------------------------


def test_a_release_goes_to_the_worker_of_that_attempt() -> None:
    """Once; from then on it has the time of the action, and nobody ends it."""
    crew = Crew(Prepare("other", "stop", "i1"))
    assert begin(crew.workers, PREPARE, NOW, GIVEN, FACTS) is None
    assert crew.workers.go(Go("e1", "stop", "i1"), NOW + 50.0, Circumstances()) is None
    assert crew.port.sent == [(2, b'{"go":true}')]
    crew.workers.abandon("other")
    assert crew.workers.deadline == NOW + 50.0 + time_limits.act(240.0).killed
    crew.workers.abandon("e1")
    crew.workers.abandon_all("prepare", "act", "check")
    assert crew.port.killed == [1]
    assert [one.status for one in crew.workers.late(1e9)] == ["unknown"]


@pytest.mark.parametrize("deaf", [True, False])
def test_a_worker_that_cannot_be_released_failed(deaf: bool) -> None:
    """It is ended, and nothing was done."""
    crew = Crew(PREPARE if deaf else None)
    crew.port.deaf = True
    gone = Outcome(NOW + 5.0, "e1", "failed", "the prepared worker was gone when it was needed")
    assert crew.workers.go(Go("e1", "stop", "i1"), NOW + 5.0, Circumstances()) == gone
    assert crew.port.killed == ([1] if deaf else [])
    assert not crew.workers.owns(1)


def test_workers_of_other_kinds_stay() -> None:
    """Only what is named is ended."""
    crew = Crew()
    for effect in (TELL, Check("c", "stop"), Prepare("p", "stop", "i1"), CONFIRM):
        assert begin(crew.workers, effect, NOW) is None
    crew.workers.abandon("nobody")
    crew.workers.abandon_all("check")
    assert crew.port.killed == [2]
    crew.workers.abandon_all("prepare", "confirm")
    assert (crew.port.killed, crew.workers.telling) == ([2, 3, 4], True)
    crew.workers.abandon("e1")
    assert (crew.port.killed, crew.workers.deadline) == ([2, 3, 4, 1], float("inf"))


def test_who_is_late_is_ended_at_its_deadline() -> None:
    """And said to be, in the words of its kind; not earlier, and no other one."""
    crew = Crew(CHECK)
    assert begin(crew.workers, CONFIRM, NOW) is None
    assert crew.workers.late(NOW + time_limits.CHECK.killed - 0.1) == []
    end = NOW + time_limits.CHECK.killed
    late = Outcome(end, "e1", "failed", "the worker failed: it did not answer in time and was killed")
    assert (crew.workers.deadline, crew.workers.late(end)) == (end, [late])
    assert (crew.port.killed, crew.workers.owns(1), crew.workers.owns(2)) == ([1], False, True)
    assert crew.workers.late(end + 100.0) == [Outcome(end + 100.0, "e2", "unknown", late.detail)]


# ---- later ------------------------------------------------------------------------------------


def test_what_has_its_moment_later_waits_for_it() -> None:
    """The guard wakes up for it, and starts it once."""
    crew = Crew()
    check = Check("c", "stop", since=NOW, known=True)
    assert crew.workers.submit(check, NOW, GIVEN) is None
    due = crew.workers.deadline
    assert (crew.port.spawned, NOW < due < NOW + 3600.0) == ([], True)
    assert (crew.workers.take_due(due - 0.001), crew.workers.take_due(due), crew.workers.take_due(due)) == (
        None,
        check,
        None,
    )
    assert crew.workers.deadline == float("inf")


def test_what_is_due_is_started_at_once() -> None:
    """A person waits for nobody, nor does a guest action; a failure is told."""
    crew = Crew()
    assert crew.workers.submit(PREPARE, NOW, GIVEN._replace(reason="person")) is None
    assert crew.workers.submit(Prepare("e2", "shutdown", "i1"), NOW, GIVEN) is None
    assert len(crew.port.spawned) == 2
    crew.port.full = True
    found = crew.workers.submit(Prepare("e3", "shutdown", "i1"), NOW, GIVEN)
    assert found == Outcome(NOW, "e3", "failed", "no room for another process")


def test_an_effect_takes_the_place_of_one_that_waits_for_the_same() -> None:
    """Of the same kind and action; the engine no longer asks for the one before."""
    crew = Crew()
    kept: list[Check | Prepare] = [
        Check("c1", "stop", since=NOW, known=True),
        Check("c2", "terminate", since=NOW, known=True),
        Prepare("p1", "stop", "i1"),
    ]
    for effect in kept:
        crew.workers.submit(effect, NOW, GIVEN)
    newer = Check("c3", "stop", since=NOW, known=True)
    crew.workers.submit(newer, NOW, GIVEN)
    found = []
    while (ripe := crew.workers.take_due(1e9)) is not None:
        found.append(ripe)
    assert sorted(one.id for one in found) == ["c2", "c3", "p1"]


def test_what_waits_can_be_given_up() -> None:
    """By its id, or all of its kind."""
    crew = Crew()
    waiting: list[Check | Prepare] = [
        Check("c1", "stop", since=NOW, known=True),
        Prepare("p1", "stop", "i1"),
        Prepare("p2", "terminate", "i1"),
    ]
    for effect in waiting:
        crew.workers.submit(effect, NOW, GIVEN)
    crew.workers.abandon("p1")
    crew.workers.abandon_all("check", "confirm")
    ripe = crew.workers.take_due(1e9)
    assert (ripe is not None and ripe.id, crew.workers.take_due(1e9)) == ("p2", None)


def test_a_worker_that_is_ready_without_a_plan_found_nothing() -> None:
    """It waits all the same, with nothing to tell."""
    crew = Crew(PREPARE)
    assert crew.hears({"ready": True}) == Outcome(NOW + 1.0, "e1", "ready")
    assert crew.hears({"ready": False}) is None
