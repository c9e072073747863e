"""The action that ends a task, with plug-ins that do whatever a plug-in can do."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costguard.actions.base import Context, DryRunError
from costguard.actions.end_task import EndTask
from costguard.cloud.access import HostPaths
from costguard.engine.observation import Device
from costguard.plans import Plan, Result
from costguard.tasks.api import SchedulerError, Task, TaskFacts
from tests.unit.test_holders import process

TASK = Task("12", "job 12", "alice", {"job": "12"}, ("a fact",))
FACTS = TaskFacts("running", "RUNNING", "alice", 1, (0,), stamp="s")


class Wanted:
    """What the plug-in does: values, or errors that it raises."""

    look: Any = FACTS
    end: Any = Result("accepted", "it was taken", "proof-1")
    confirm: Any = Result("done", "closed: it has ended")
    task: Any = TASK
    recognises: Any = True


def answer(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


class Scripted:
    """A plug-in, and its session."""

    name = "Scripted"

    def recognises(self, place: Any) -> bool:
        return bool(answer(Wanted.recognises))

    def identify(self, place: Any) -> Task:
        found = answer(Wanted.task)
        assert isinstance(found, Task)
        return found

    def belongs(self, place: Any, task: Any, pid: int) -> bool:
        return False

    def open(self, place: Any, task: Any) -> "Scripted":
        return self

    def look(self, within: float) -> Any:
        return answer(Wanted.look)

    def end(self, facts: Any, ticket: Any) -> Any:
        assert facts is Wanted.look
        return answer(Wanted.end)

    def confirm(self, ticket: Any, recorded: Any) -> Any:
        return answer(Wanted.confirm)


@pytest.fixture(autouse=True)
def scripted() -> Iterator[None]:
    """The plug-in as an importable module, and its script as it was."""
    module = type(sys)("scripted_scheduler")
    module.PROVIDER = Scripted  # type: ignore[attr-defined] # a module is made here
    sys.modules["scripted_scheduler"] = module
    yield
    del sys.modules["scripted_scheduler"]
    Wanted.look, Wanted.end, Wanted.confirm = FACTS, Result("accepted", "it was taken", "proof-1"), Result("done", "closed: it has ended")  # fmt: skip
    Wanted.task, Wanted.recognises = TASK, True


def context(**changes: Any) -> Context:
    given = {"mode": "live", "job": "act", "devices": (Device("0000:01:00.0", 0),), "host": HostPaths("/nonexistent")}
    own = {"task": {"id": "12"}, "task_plug_ins": ("scripted=scripted_scheduler",), "deadline": 20.0}
    return Context("end_task", **{**given, **own, **changes})


def tried(**changes: Any) -> tuple[str, Result]:
    """The verdict, and what became of it."""
    action, job = EndTask(), context(**changes)
    plan = action.plan(action.facts(job))
    return plan.verdict, action.execute(plan, job)


def test_the_receipt_names_the_task_and_its_owner() -> None:
    """With what was sent, and when: that is what is left of it."""
    verdict, sent = tried()
    assert (verdict, sent.status, sent.proof) == ("go", "accepted", "proof-1")
    named = {name: sent.receipt[name] for name in ("scheduler", "task", "owner", "request")}
    assert named == {"scheduler": "Scripted", "task": "12", "owner": "alice", "request": "proof-1"}


def test_a_dry_run_sends_nothing() -> None:
    """Enforced where the effect is."""
    action, job = EndTask(), context(mode="dry-run")
    plan = action.plan(action.facts(job))
    assert plan.verdict == "go"
    with pytest.raises(DryRunError):
        action.execute(plan, job)


@pytest.mark.parametrize(
    ("error", "verdict", "code"),
    [
        (SchedulerError("unreachable", "down"), "failed", "unreachable"),
        (SchedulerError("denied", "no"), "refuse", "not_permitted"),
        (SchedulerError("changed", "another"), "refuse", "not_this_task"),
        (ImportError("no library"), "refuse", "scheduler_refused"),
        (KeyError("bug"), "failed", "scheduler_error"),
    ],
)
def test_whatever_a_plug_in_raises_becomes_a_finding(error: Exception, verdict: str, code: str) -> None:
    """Technical trouble may pass; the rest is a veto. Then nothing can be sent."""
    Wanted.look = error
    action = EndTask()
    plan = action.plan(action.facts(context()))
    assert (plan.verdict, [finding.code for finding in plan.findings], plan.may_act) == (verdict, [code], False)
    assert plan == Plan("end_task", plan.verdict, plan.findings, ends_bill=False), "nor is anything promised"
    assert action.execute(plan, context()).status == "failed"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SchedulerError("unreachable", "down"), "failed"),
        (SchedulerError("unreachable", "no answer", sent="silent"), "unknown"),
        (SchedulerError("denied", "no"), "refused"),
    ],
)
def test_what_became_of_a_request_that_failed(error: Exception, status: str) -> None:
    """Failed is said only where certainly nothing was accepted."""
    Wanted.end = error
    assert tried()[1].status == status


def test_another_task_than_that_of_the_start_is_nobody_s_business() -> None:
    """What this process belongs to may have changed since the guard began."""
    Wanted.task = TASK._replace(id="13", words="job 13")
    verdict, sent = tried()
    assert (verdict, sent.status) == ("refuse", "failed")
    assert EndTask().confirm(context(), None).status == "unknown"


def test_an_acceptance_alone_proves_nothing() -> None:
    """Where the scheduler cannot be asked what came of it, that is unknown; where it can, its word counts."""
    recorded = Result("accepted", "it was taken", "proof-1", {"task": "12"})
    assert EndTask().confirm(context(), recorded) == Result("done", "closed: it has ended", receipt={"task": "12"})
    Wanted.confirm = SchedulerError("unreachable", "down")
    asked = EndTask().confirm(context(), recorded)
    assert (asked.status, asked.proof, "cannot be asked: down" in asked.detail) == ("unknown", "proof-1", True)


@pytest.mark.parametrize(
    ("plug_ins", "settings", "code"),
    [
        ((), {}, "no_task"),
        (("scripted=scripted_scheduler", "again=scripted_scheduler"), {}, "task_ambiguous"),
        (("broken=no_such_module",), {}, "plugin_failed"),
        (("scripted=scripted_scheduler",), {"scheduler": "other"}, "no_task"),
        (("scripted=scripted_scheduler",), {"scheduler": "none"}, "no_task"),
    ],
)
def test_without_one_plug_in_that_knows_the_task_nothing_ends(
    plug_ins: tuple[str, ...], settings: dict[str, str], code: str, tmp_path: Path
) -> None:
    """And people read which it is."""
    action = EndTask()
    plan = action.plan(action.facts(context(task_plug_ins=plug_ins, task_settings=settings)))
    assert [finding.code for finding in plan.findings] == [code]
    assert plan == Plan("end_task", "refuse", plan.findings, ends_bill=False)


@pytest.mark.parametrize("step", ["recognises", "task"])
def test_a_plug_in_that_fails_is_named_and_ends_nothing(step: str) -> None:
    """Whatever it raises when it is asked for the task: people read which one it is, and what it said."""
    setattr(Wanted, step, RuntimeError("boom"))
    action = EndTask()
    (finding,) = action.plan(action.facts(context())).findings
    assert (finding.code, "scripted: RuntimeError: boom" in finding.text) == ("plugin_failed", True)


def test_a_plug_in_that_fails_does_not_hide_the_one_that_knows_the_task() -> None:
    """It belongs to another scheduler, perhaps."""

    class Broken(Scripted):
        def recognises(self, place: Any) -> bool:
            raise RuntimeError("boom")

    sys.modules["scripted_scheduler"].Broken = Broken  # type: ignore[attr-defined] # a module is made here
    plug_ins = ("broken=scripted_scheduler:Broken", "scripted=scripted_scheduler")
    assert tried(task_plug_ins=plug_ins)[1].status == "accepted"


def test_who_holds_its_gpus_is_known_by_their_devices(tmp_path: Path) -> None:
    """Of GPUs that the driver lists; a monitor holds every one and works on none, and who holds none is nobody here."""
    for minor, address in enumerate(("0000:01:00.0", "0000:02:00.0")):
        (tmp_path / f"driver/nvidia/gpus/{address}").mkdir(parents=True)
        (tmp_path / f"driver/nvidia/gpus/{address}/information").write_text(f"Device Minor: \t {minor}\n")
    process(tmp_path, 10, "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia7", name="train")
    process(tmp_path, 11, "/dev/nvidia1", name="nvidia-persiste")
    process(tmp_path, 12, "/dev/nvidia7", name="elsewhere")
    process(tmp_path, 13, "/dev/null", name="cat")
    process(tmp_path, 14, "/dev/nvidia1", name="eval")
    case = EndTask().facts(context(host=HostPaths(str(tmp_path)))).case
    assert case is not None
    held = [(one.words.partition(" of ")[0], one.gpus, one.ours) for one in case.holders]
    assert held == [
        ("process 10 (train", ("0000:01:00.0", "0000:02:00.0"), False),
        ("process 14 (eval", ("0000:02:00.0",), False),
    ]
    assert case.minors == {"0000:01:00.0": 0, "0000:02:00.0": 1}
    assert EndTask().facts(context()).case == case._replace(holders=(), minors={}), "without a driver nobody holds any"
