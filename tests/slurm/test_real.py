"""costguard beside a real Slurm. `make test-slurm`."""

import os
import shlex
import sys
from pathlib import Path

from tests.slurm.cluster import OTHER, Cluster
from tests.slurm.conftest import Guarded

WAITS = "sleep 300 & wait"


def numbers_of(cluster: Cluster, job: str) -> list[int]:
    """Which GPUs Slurm gave to a job."""
    found = cluster.ask("scontrol", "-o", "-d", "show", "job", job)
    listed = found.partition("(IDX:")[2].partition(")")[0]
    first, _, last = listed.partition("-")
    return list(range(int(first), int(last or first) + 1))


def test_an_idle_job_is_cancelled_and_no_other(cluster: Cluster, guarded: Guarded) -> None:
    """Its watcher runs in it; a job beside it, the node and their GPUs are not touched; its output says why."""
    other = cluster.submit(WAITS, user=OTHER, gpus=1)
    job = cluster.submit(f"{guarded.command('one')}\n{WAITS}", gpus=2)
    cluster.until(lambda: cluster.state(job) == "RUNNING" and guarded.said("one", "ARMED"))
    for number in numbers_of(cluster, job):
        guarded.gpus.set(number, util=0)
    cluster.until(lambda: cluster.state(job) == "CANCELLED")
    assert cluster.state(other) == "RUNNING"
    assert cluster.ask("sinfo", "-h", "-o", "%T") in ("mixed", "idle", "allocated")
    assert "will be ended" in cluster.output(job)
    assert f"job {job} of root" in cluster.output(job)
    assert "costguard" not in cluster.output(other)


def test_a_working_job_is_not_cancelled(cluster: Cluster, guarded: Guarded) -> None:
    """However idle the GPUs of others are."""
    job = cluster.submit(f"{guarded.command('one')}\n{WAITS}", gpus=1)
    cluster.until(lambda: cluster.state(job) == "RUNNING" and guarded.said("one", "ARMED"))
    (mine,) = numbers_of(cluster, job)
    for number in range(4):
        guarded.gpus.set(number, util=90 if number == mine else 0)
    rests = cluster.submit(f"{guarded.command('two')}\n{WAITS}", gpus=1)  # what is idle beside it ends, and no more
    cluster.until(lambda: cluster.state(rests) == "CANCELLED")
    assert cluster.state(job) == "RUNNING"
    assert not guarded.said("one", "WARNING")


def test_a_job_is_held_from_elsewhere_with_the_line_of_its_warning(cluster: Cluster, guarded: Guarded) -> None:
    """Its owner sits on a login node: `srun` takes the command to the guard, beside the job's own steps, though the job has all GPUs."""
    job = cluster.submit(f"{guarded.command('one', 'grace=2m')}\n{WAITS}", gpus=2)
    cluster.until(lambda: cluster.state(job) == "RUNNING" and guarded.said("one", "ARMED"))
    for number in numbers_of(cluster, job):
        guarded.gpus.set(number, util=0)
    cluster.until(lambda: "or from elsewhere `" in cluster.output(job))
    line = cluster.output(job).partition("or from elsewhere `")[2].partition("`")[0]
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    answer = cluster.ask("env", f"PATH={programs}", *shlex.split(line))
    assert answer.startswith("Held by "), answer
    cluster.until(lambda: guarded.said("one", "HELD"))
    assert cluster.state(job) == "RUNNING"


def test_of_an_array_one_member_ends(cluster: Cluster, guarded: Guarded) -> None:
    """Also that whose number is the number of the array."""
    text = f"if [ $SLURM_ARRAY_TASK_ID = 4 ]; then\n{guarded.command('one')}\nfi\n{WAITS}"
    array = cluster.submit(text, "--array=3-4", gpus=1)
    cluster.until(lambda: guarded.said("one", "ARMED"))
    cluster.until(lambda: cluster.state(f"{array}_3") == "RUNNING")
    for number in range(4):
        guarded.gpus.set(number, util=0)
    cluster.until(lambda: cluster.state(f"{array}_4") == "CANCELLED")
    assert cluster.state(f"{array}_3") == "RUNNING"


def test_a_prolog_guards_the_jobs_of_others(cluster: Cluster, guarded: Guarded) -> None:
    """Root's watcher, outside of the job: it outlives the job and sees its end, and the owner is told in the job's output."""
    line = guarded.command("prolog").removesuffix("&")
    scope = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=$SLURM_JOB_GPUS"
    pid = f"{guarded.folder}/$SLURM_JOB_ID.pid"
    of_other = f'[ "$SLURM_JOB_USER" = {OTHER} ] || exit 0'
    started = cluster.script("start", f"echo $$ >{pid}\n{scope} exec env {line}")
    cluster.script("prolog", f"{of_other}\nsetsid {started} </dev/null &\nuntil [ -s {pid} ]; do sleep 0.1; done")
    ended = cluster.script("end", f"touch {pid}.end; sleep 10; kill $(cat {pid})")
    cluster.script(
        "epilog", f"{of_other}\nsetsid {ended} </dev/null >/dev/null 2>&1 &\nuntil [ -e {pid}.end ]; do sleep 0.1; done"
    )
    job = cluster.submit(WAITS, user=OTHER, gpus=1)
    cluster.until(lambda: cluster.state(job) == "RUNNING" and guarded.said("prolog", "ARMED"))
    guarded.gpus.set(numbers_of(cluster, job)[0], util=0)
    cluster.until(lambda: cluster.state(job) == "CANCELLED")
    cluster.until(lambda: guarded.said("prolog", "has ended (Slurm says CANCELLED)"))
    assert f"job {job} of {OTHER}" in cluster.output(job)
    assert "will be ended" in cluster.output(job)
    cluster.until(lambda: guarded.said("prolog", "stopped; this task is not guarded"))


def test_a_wrong_scope_is_refused(cluster: Cluster, guarded: Guarded) -> None:
    """A watcher that sees fewer GPUs than Slurm gave would not see the work on the others."""
    line = guarded.command("one")
    job = cluster.submit(f"export CUDA_VISIBLE_DEVICES=${{CUDA_VISIBLE_DEVICES%%,*}}\n{line}\n{WAITS}", gpus=2)
    for number in range(4):
        guarded.gpus.set(number, util=0)
    cluster.until(lambda: guarded.said("one", "2 GPUs of this machine"))
    assert cluster.state(job) == "RUNNING"


def test_a_controller_that_is_down_is_waited_for(cluster: Cluster, guarded: Guarded) -> None:
    """Nothing is known meanwhile, and nothing is claimed; when it is back the job is cancelled."""
    job = cluster.submit(f"{guarded.command('one')}\n{WAITS}", gpus=1)
    cluster.until(lambda: cluster.state(job) == "RUNNING" and guarded.said("one", "ARMED"))
    cluster.stop_controller()
    for number in range(4):
        guarded.gpus.set(number, util=0)
    cluster.until(
        lambda: guarded.said("one", "Unable to contact slurm controller") or guarded.said("one", "did not answer")
    )
    cluster.controller()
    cluster.until(lambda: cluster.state(job) == "CANCELLED", 120.0)
