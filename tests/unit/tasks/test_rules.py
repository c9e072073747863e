"""When a task may be ended: facts in, verdict and findings out."""

import pytest

from costguard.engine.observation import Device
from costguard.plans import PlanFinding, Verdict
from costguard.tasks.api import State, Task, TaskFacts
from costguard.tasks.rules import GpuHolder, TaskCase, plan

KEYS = ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")
GPUS = tuple(Device(key, number, f"GPU-{number}") for number, key in enumerate(KEYS))
TASK = Task("12", "job 12", "alice", {"job": "12"})
FACTS = TaskFacts("running", "RUNNING", "alice", 2, (0, 1), stamp="s")
CASE = TaskCase("Slurm", TASK, FACTS, GPUS[:2], 0)


def made(case: TaskCase) -> tuple[Verdict, list[str]]:
    """The verdict, and the codes in their order."""
    found = plan("end_task", case)
    return found.verdict, [finding.code for finding in found.findings]


def test_an_idle_task_may_be_ended_and_nothing_else_ends() -> None:
    """What people read says that the machine, its bill and other tasks go on."""
    found = plan("end_task", CASE)
    assert (found.verdict, found.ends_bill, found.keeps_disks) == ("go", False, True)
    assert [finding.code for finding in found.findings] == ["task_ends"]
    assert "job 12 of alice ends, and nothing else" in found.findings[0].text
    assert found.receipt == {"scheduler": "Slurm", "task": "12", "owner": "alice", "job": "12"}


@pytest.mark.parametrize(
    ("state", "code"), [("ended", "task_ended"), ("ending", "task_ending"), ("waiting", "task_waits")]
)
def test_a_task_that_does_not_run_is_not_ended(state: State, code: str) -> None:
    """One that was suspended holds GPUs that are idle for another reason."""
    assert made(CASE._replace(facts=FACTS._replace(state=state))) == ("refuse", [code])


def test_what_is_elsewhere_may_work() -> None:
    """Nobody sees it from here; the owner of the machine may say that this does not count."""
    case = CASE._replace(facts=FACTS._replace(elsewhere="it runs on 4 nodes"))
    assert made(case) == ("refuse", ["task_elsewhere"])
    assert made(case._replace(ends_elsewhere=True)) == ("consequences", ["task_elsewhere", "task_ends"])


@pytest.mark.parametrize(
    ("judged", "given", "numbers", "beside"),
    [
        (GPUS[:1], 2, (0, 1), 0),  # the task's work on the other would not be seen
        (GPUS, 2, (0, 1), 0),  # an idle GPU of somebody else would count
        (GPUS[1:], 2, (0, 1), 1),  # as many as it has, and others
        (GPUS[:2], 0, (), 0),  # a task without GPUs
    ],
)
def test_a_wrong_scope_is_refused(
    judged: tuple[Device, ...], given: int, numbers: tuple[int, ...], beside: int
) -> None:
    """The GPUs that are judged must be exactly those that the scheduler gave to the task."""
    facts = FACTS._replace(gpus=given, numbers=numbers)
    assert made(CASE._replace(facts=facts, judged=judged, beside=beside)) == ("refuse", ["task_scope"])


@pytest.mark.parametrize(
    ("judged", "given", "numbers", "beside"),
    [
        (GPUS[:2], 2, (4, 5), 0),  # inside its limits the driver numbers them anew
        (GPUS[1:], 2, (1, 2), 1),
        (GPUS[:2], None, (), 0),  # a container shows what it was given
    ],
)
def test_a_right_scope_passes(
    judged: tuple[Device, ...], given: int | None, numbers: tuple[int, ...], beside: int
) -> None:
    """By number where others are to be seen, by count where nothing else is."""
    facts = FACTS._replace(gpus=given, numbers=numbers)
    assert made(CASE._replace(facts=facts, judged=judged, beside=beside))[0] == "go"


def test_the_numbers_may_be_those_of_the_device_files() -> None:
    """A scheduler counts files; the driver counts by the bus, and the two need not be the same."""
    minors = dict(zip(KEYS, (2, 1, 0), strict=True))
    case = CASE._replace(facts=FACTS._replace(numbers=(1, 2)), beside=1, minors=minors)
    assert made(case)[0] == "go"
    assert made(case._replace(minors={}))[0] == "refuse"


def test_whose_gpus_the_others_are_is_said_to_be_unproven() -> None:
    """Where the scheduler says nothing of GPUs, and more of them are to be seen than judged."""
    case = CASE._replace(facts=FACTS._replace(gpus=None, numbers=()), beside=2)
    assert made(case) == ("consequences", ["task_scope_unproven", "task_ends"])


def test_a_count_alone_does_not_say_which_gpus() -> None:
    """Another GPU than the task's may have been judged: its own one may work."""
    case = CASE._replace(facts=CASE.facts._replace(gpus=1, numbers=()), judged=GPUS[:1], beside=7)
    assert made(case) == ("refuse", ["task_scope"])
    assert made(case._replace(beside=0)) == ("go", ["task_ends"])


def test_a_process_of_another_task_on_a_judged_gpu_is_a_veto() -> None:
    """The kernel's word counts, whatever the scheduler says; what is nobody's task says nothing."""
    holder = GpuHolder("process 9 (python of bob)", (KEYS[1],), False)
    assert made(CASE._replace(holders=(holder,))) == ("refuse", ["task_scope"])
    assert made(CASE._replace(holders=(holder._replace(gpus=(KEYS[2],)),)))[0] == "go"
    assert made(CASE._replace(holders=(holder._replace(ours=None),)))[0] == "go"


def test_the_task_s_work_on_a_gpu_that_is_not_judged_is_a_veto() -> None:
    """It would not be seen."""
    holder = GpuHolder("process 9 (python of alice)", (KEYS[0], KEYS[2]), True)
    assert made(CASE._replace(holders=(holder,))) == ("refuse", ["task_scope"])
    assert made(CASE._replace(holders=(holder._replace(gpus=KEYS[:2]),)))[0] == "go"


def test_before_the_first_reading_only_an_attempt_is_refused() -> None:
    """A preflight at the start says what it can; nothing is ever ended on GPUs that are not known."""
    assert made(CASE._replace(judged=()))[0] == "go"
    assert made(CASE._replace(judged=(), acting=True)) == ("refuse", ["task_scope"])


def test_what_the_plug_in_finds_counts() -> None:
    """The gravest finding stands first, and is the verdict."""
    denied: tuple[Verdict, PlanFinding] = "refuse", PlanFinding("not_permitted", "no", "ask")
    found = CASE._replace(facts=FACTS._replace(findings=(denied,), elsewhere="e"), ends_elsewhere=True)
    assert made(found) == ("refuse", ["not_permitted", "task_elsewhere"])
