"""One job of Slurm, through its own programs: looked at, ended, seen ended, told. The programs are stand-ins, the processes real."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.cloud.api import Ticket
from costguard.plans import Result
from costguard.tasks.api import Place, SchedulerError, TaskFacts
from costguard_slurm import Slurm as PlugIn
from costguard_slurm import identity
from costguard_slurm.session import Job
from tests.schedulers.slurm.standin import Slurm, group

TICKET = Ticket("i1", "a1", 20.0)


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    """A controller with the job 1 of this user on this node, and the job 2 beside it."""
    made = Slurm(tmp_path / "slurm")
    made.add("1")
    made.add("2", gres="gpu:1(IDX:2)")
    return made


def place(slurm: Slurm, job: str = "1", procfs: str = "/nowhere", **environ: str) -> Place:
    return Place(slurm.environment(job, **environ), {"programs": str(slurm.folder)}, procfs)


def session(slurm: Slurm, job: str = "1", **environ: str) -> Job:
    where = place(slurm, job, **environ)
    opened = PlugIn().open(where, PlugIn().identify(where))
    assert isinstance(opened, Job)
    return opened


def test_the_job_is_seen_as_slurm_shows_it(slurm: Slurm) -> None:
    """State, owner, the GPUs of this node, and what tells it from a later job of the same number."""
    found = session(slurm).look(5.0)
    assert (found.state, found.said, found.owner, found.gpus, found.numbers) == (
        "running",
        "RUNNING",
        "alice",
        2,
        (0, 1),
    )
    assert (found.elsewhere, found.findings) == ("", ())
    slurm.change("1", StartTime="2026-11-24T00:00:00")
    assert session(slurm).look(5.0).stamp != found.stamp


def test_it_is_cancelled_and_seen_to_have_ended(slurm: Slurm) -> None:
    """One `scancel` of exactly this job; the other one on the node is not touched."""
    job = session(slurm)
    sent = job.end(job.look(5.0), TICKET)
    assert (sent.status, sent.proof, slurm.cancelled) == ("accepted", "scancel 1", [["1"]])
    seen = session(slurm).confirm(TICKET, sent)
    assert (seen.status, seen.proof) == ("done", "scancel 1")
    assert seen.detail.startswith("closed: ")
    assert slurm.job("2")["JobState"] == "RUNNING"


def test_of_an_array_only_the_member_ends(slurm: Slurm) -> None:
    """The last member of an array has the array's own number: `scancel` of that would end all of them."""
    slurm.add("30", ArrayJobId="30", ArrayTaskId="4")
    slurm.add("31", ArrayJobId="30", ArrayTaskId="3")
    job = session(slurm, "30", SLURM_ARRAY_JOB_ID="30", SLURM_ARRAY_TASK_ID="4")
    assert job.end(job.look(5.0), TICKET).status == "accepted"
    assert slurm.cancelled == [["30_4"]]
    assert (slurm.job("30")["JobState"], slurm.job("31")["JobState"]) == ("CANCELLED", "RUNNING")


def test_of_an_array_the_member_is_known_without_its_variables(slurm: Slurm) -> None:
    """What Slurm itself says of the number names the member."""
    slurm.add("30", ArrayJobId="30", ArrayTaskId="4")
    slurm.add("31", ArrayJobId="30", ArrayTaskId="3")
    job = session(slurm, "30")
    job.end(job.look(5.0), TICKET)
    assert slurm.cancelled == [["30_4"]]


def test_another_member_than_the_environment_names_is_not_ended(slurm: Slurm) -> None:
    """Variables that were exported from somewhere else must not choose what ends."""
    slurm.add("30", ArrayJobId="30", ArrayTaskId="4")
    with pytest.raises(SchedulerError, match="30_4") as refused:
        session(slurm, "30", SLURM_ARRAY_JOB_ID="30", SLURM_ARRAY_TASK_ID="7").look(5.0)
    assert refused.value.trouble == "changed"


def requeued(slurm: Slurm) -> None:
    slurm.change("1", Restarts="1", StartTime="2026-11-23T09:00:00")


def ends_itself(slurm: Slurm) -> None:
    slurm.change("1", JobState="COMPLETED")


def forgotten(slurm: Slurm) -> None:
    slurm.set(jobs=[slurm.job("2")])


def suspended(slurm: Slurm) -> None:
    slurm.change("1", JobState="SUSPENDED")


def is_ending(slurm: Slurm) -> None:
    slurm.change("1", JobState="COMPLETING")


@pytest.mark.parametrize(
    ("meanwhile", "status"),
    [
        (requeued, "refused"),
        (ends_itself, "done"),
        (forgotten, "done"),
        (suspended, "refused"),
        (is_ending, "accepted"),
    ],
)
def test_right_before_the_request_it_is_looked_at_again(
    slurm: Slurm, meanwhile: Callable[[Slurm], None], status: str
) -> None:
    """The number may be another job's by now, or the job may have ended: then nothing is sent."""
    job = session(slurm)
    facts = job.look(5.0)
    meanwhile(slurm)
    assert job.end(facts, TICKET).status == status
    assert slurm.cancelled == []


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("PENDING", "waiting"), ("CONFIGURING", "waiting"), ("SUSPENDED", "waiting"), ("REQUEUED", "waiting"),
        ("RUNNING", "running"), ("COMPLETING", "ending"), ("CANCELLED", "ended"), ("TIMEOUT", "ended"), ("COMPLETED", "ended"),
    ],
)  # fmt: skip
def test_every_state_of_slurm_has_its_meaning(slurm: Slurm, state: str, found: str) -> None:
    """A job that is suspended does not run: its GPUs are idle for another reason."""
    slurm.change("1", JobState=state)
    assert session(slurm).look(5.0).state == found


def test_a_state_that_nobody_knows_is_no_state(slurm: Slurm) -> None:
    """It may mean anything, so nothing follows from it."""
    slurm.change("1", JobState="DREAMING")
    with pytest.raises(SchedulerError, match="DREAMING") as unknown:
        session(slurm).look(5.0)
    assert unknown.value.technical


def test_a_job_that_slurm_does_not_know_has_ended(slurm: Slurm) -> None:
    """Its record is kept for some minutes only."""
    assert session(slurm, "77").look(5.0).state == "ended"


def test_a_job_of_several_nodes_is_more_than_is_seen(slurm: Slurm) -> None:
    """So is a heterogeneous one, whose parts end together."""
    slurm.change("1", NumNodes="4")
    slurm.add("50", HetJobId="50", HetJobOffset="0")
    assert session(slurm).look(5.0).elsewhere == "it runs on 4 nodes"
    assert "heterogeneous job 50" in session(slurm, "50").look(5.0).elsewhere


def test_the_gpus_are_those_of_this_node(slurm: Slurm) -> None:
    """Of several nodes each has its own; a list of nodes is opened by Slurm itself."""
    here = "Nodes=node[1-3] CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:7)   Nodes=node[6-8] CPU_IDs=0 Mem=0 GRES=gpu:a100:3(IDX:0-1,4),nic:1(IDX:0)"
    slurm.change("1", nodes=here)
    slurm.set(hostnames={"node[1-3]": ["node1", "node2", "node3"], "node[6-8]": ["node6", "node7", "node8"]})
    found = session(slurm).look(5.0)
    assert (found.gpus, found.numbers) == (3, (0, 1, 4))


@pytest.mark.parametrize(
    ("gres", "shares", "gpus"),
    [("", "OK", 0), ("", "NO", None), ("shard:2(1/4,1/4)", "OK", None), ("gpu:1(IDX:3)", "NO", 1)],
)
def test_what_slurm_does_not_count_is_not_known(slurm: Slurm, gres: str, shares: str, gpus: int | None) -> None:
    """A node that is the job's alone may have GPUs that Slurm knows nothing of; a job without any has none."""
    slurm.add("9", gres=gres, OverSubscribe=shares)
    assert session(slurm, "9").look(5.0).gpus == gpus


def test_the_right_to_cancel_is_seen_beforehand(slurm: Slurm) -> None:
    """Root's and the owner's; nobody else's. Here this user may be root, to whom every job belongs."""
    slurm.add("9", uid="4294")
    found = session(slurm, "9").look(5.0).findings
    assert [finding.code for _, finding in found] == ([] if os.geteuid() == 0 else ["not_permitted"])


def test_a_refusal_of_slurm_is_a_veto(slurm: Slurm) -> None:
    """What Slurm says when the time comes counts, whatever the preflight saw."""
    slurm.set(me="4294")
    job = session(slurm)
    with pytest.raises(SchedulerError, match="permission denied") as refused:
        job.end(job.look(5.0), TICKET)
    assert (refused.value.technical, refused.value.in_doubt) == (False, False)
    assert slurm.job("1")["JobState"] == "RUNNING"


def test_a_controller_that_is_down_is_technical(slurm: Slurm) -> None:
    """Nothing was accepted then, so the same may be sent again."""
    slurm.fails(scontrol="down")
    with pytest.raises(SchedulerError, match="Unable to contact") as down:
        session(slurm).look(5.0)
    assert (down.value.technical, down.value.in_doubt, "scontrol ping" in down.value.hint) == (True, False, True)
    slurm.fails(scancel="down")
    job = session(slurm)
    with pytest.raises(SchedulerError) as sent:
        job.end(job.look(5.0), TICKET)
    assert (sent.value.technical, sent.value.in_doubt) == (True, False)


def test_credentials_that_are_not_accepted_are_technical(slurm: Slurm) -> None:
    """`munged` may be started again."""
    slurm.fails(scontrol="munge")
    with pytest.raises(SchedulerError) as error:
        session(slurm).look(5.0)
    assert (error.value.trouble, error.value.technical) == ("credentials", True)


def test_a_controller_that_hangs_is_not_waited_for(slurm: Slurm) -> None:
    """A call has its own end, and then nothing is known."""
    slurm.fails(scontrol="slow")
    with pytest.raises(SchedulerError, match="did not answer within 0") as late:
        session(slurm).look(0.3)
    assert late.value.trouble == "unreachable"


@pytest.mark.parametrize("fault", ["slow", "timed-out"])
def test_a_request_without_an_answer_is_in_doubt(slurm: Slurm, fault: str) -> None:
    """It may have been taken; a look shows that the job still runs, so nobody knows."""
    slurm.fails(scancel=fault)
    job = session(slurm)
    facts = job.look(5.0)
    with pytest.raises(SchedulerError) as doubt:
        job.end(facts, TICKET._replace(deadline=2.0))
    assert doubt.value.in_doubt
    assert slurm.cancelled == [["1"]]


def test_a_look_that_fails_takes_no_doubt_away(slurm: Slurm) -> None:
    """The controller hangs with the request, and cannot be asked what came of it: that is not *nothing was accepted*."""
    slurm.fails(scancel="slow", scontrol=[None, None, "down"])
    job = session(slurm)
    facts = job.look(5.0)
    with pytest.raises(SchedulerError, match="scancel") as doubt:
        job.end(facts, TICKET._replace(deadline=2.0))
    assert doubt.value.in_doubt


def test_a_request_without_an_answer_is_accepted_when_the_job_ends(slurm: Slurm) -> None:
    """A look decides."""
    slurm.fails(scancel=["slow-after"])
    slurm.set(after="COMPLETING")
    job = session(slurm)
    facts = job.look(5.0)
    sent = job.end(facts, TICKET._replace(deadline=8.0))
    assert (sent.status, sent.proof) == ("accepted", "scancel 1")


def test_what_was_accepted_and_does_not_happen_is_said(slurm: Slurm) -> None:
    """The job still runs; that is what people read."""
    slurm.fails(scancel="deaf")
    job = session(slurm)
    sent = job.end(job.look(5.0), TICKET)
    again = session(slurm).confirm(TICKET, sent)
    assert (again.status, "still runs" in again.detail) == ("accepted", True)
    slurm.change("1", JobState="COMPLETING")
    assert session(slurm).confirm(TICKET, sent).status == "pending"


def test_without_a_record_nothing_is_claimed(slurm: Slurm) -> None:
    """An attempt of which nobody knows, while the job runs, is unknown."""
    assert session(slurm).confirm(TICKET, None).status == "unknown"


def test_the_owner_is_told_in_the_output_of_the_job(slurm: Slurm) -> None:
    """Where he looks; of an array in that of the member."""
    slurm.add("30", ArrayJobId="30", ArrayTaskId="4")
    slurm.add("31", ArrayJobId="30", ArrayTaskId="3")
    where = session(slurm, "30").tell("idle for an hour:\n cancelled at 15:40", 5.0)
    assert (slurm.job("30")["told"], slurm.job("31").get("told")) == (["idle for an hour: cancelled at 15:40"], None)
    assert where == "the output of job 30 of alice"


@pytest.mark.parametrize("version", [1, 2])
def test_the_control_group_names_the_job(slurm: Slurm, tmp_path: Path, version: int) -> None:
    """Also without variables, as under sudo; both versions of control groups."""
    group(tmp_path, "self", "1", version=version)
    where = Place({}, {}, str(tmp_path))
    assert PlugIn().recognises(where)
    found = PlugIn().identify(where)
    assert (found.id, found.details["job"], found.evidence) == ("1", "1", ("control group of job 1",))


def test_two_facts_that_do_not_agree_name_no_job(slurm: Slurm, tmp_path: Path) -> None:
    """Variables may come from another job, through `ssh` or `sbatch` in a job."""
    group(tmp_path, "self", "1")
    with pytest.raises(SchedulerError, match="job 1, but SLURM_JOB_ID names job 2") as changed:
        PlugIn().identify(place(slurm, "2", str(tmp_path)))
    assert changed.value.trouble == "changed"


@pytest.mark.parametrize("said", ["", "0", "12x", "1_4", "-1", "1;2"])
def test_what_is_no_number_names_no_job(slurm: Slurm, said: str) -> None:
    """Whatever stands in a variable goes into no command."""
    assert not PlugIn().recognises(Place({"SLURM_JOB_ID": said}, {}, "/nowhere"))
    assert identity.named({"SLURM_JOB_ID": said}) == ""


def test_whose_process_it_is(slurm: Slurm, tmp_path: Path) -> None:
    """By its control group; one of none is nobody's."""
    group(tmp_path, "10", "1")
    group(tmp_path, "11", "2")
    (tmp_path / "12").mkdir()
    (tmp_path / "12" / "cgroup").write_text("0::/system.slice/sshd.service\n")
    where = place(slurm, "1", str(tmp_path))
    task = PlugIn().identify(where)
    assert [PlugIn().belongs(where, task, pid) for pid in (10, 11, 12, 13)] == [True, False, None, None]


def test_without_slurms_programs_nothing_is_known(slurm: Slurm, tmp_path: Path) -> None:
    """And certainly nothing was sent; the hint names the option."""
    where = Place(slurm.environment(), {"programs": str(tmp_path)}, "/nowhere")
    with pytest.raises(SchedulerError, match="'scontrol' is not here") as error:
        PlugIn().open(where, PlugIn().identify(where)).look(5.0)
    assert not error.value.technical


def test_a_job_that_is_no_more_itself_is_never_ended(slurm: Slurm) -> None:
    """Facts of another look, of whatever job, do not fit."""
    assert session(slurm).end(TaskFacts("running", "RUNNING", stamp="2 other"), TICKET).status == "refused"
    assert slurm.cancelled == []


def test_a_result_that_was_recorded_stays(slurm: Slurm) -> None:
    """While the job runs, what is known of the attempt is its own record."""
    recorded = Result("failed", "could not be started")
    assert session(slurm).confirm(TICKET, recorded).status == "failed"
