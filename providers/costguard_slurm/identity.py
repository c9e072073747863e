"""Which job this process belongs to: by its control group, which Slurm made, and by the environment that Slurm gave it."""

import re
from collections.abc import Mapping

from costguard.files import text_of
from costguard.tasks.api import Advice, Place, SchedulerError, Task

_GROUP = re.compile(r"slurm[^/\n]*(?:/[^/\n]+)*?/job_(\d+)(?:/|$)", re.MULTILINE)
"""Below `slurm_NODE/uid_1000` (version 1) or `NODE_slurmstepd.scope` (version 2). Source: Slurm's cgroup.conf and `ls`."""

_NUMBER = re.compile(r"[1-9]\d{0,9}")


def job_of(procfs: str, pid: str) -> str:
    """The number of the job in whose control group a process is; empty for none."""
    found = {match[1] for match in _GROUP.finditer(text_of(f"{procfs}/{pid}/cgroup", limit=-1))}
    return found.pop() if len(found) == 1 else ""


def named(environ: Mapping[str, str]) -> str:
    """The number of the job that the environment names; empty for none."""
    said = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    return said if _NUMBER.fullmatch(said) else ""


def identify(place: Place) -> Task:
    """The job. Raises SchedulerError where the two facts do not agree: then nobody knows whose GPUs are seen."""
    group, said = job_of(place.procfs, "self"), named(place.environ)
    if group and said and group != said:
        text = f"this process is in the control group of job {group}, but SLURM_JOB_ID names job {said}"
        raise SchedulerError(
            "changed", text, hint="start costguard in the job that it is to guard, without variables of another one"
        )
    job = group or said
    if not job:
        hint = "start it from the job's script or from a prolog, as docs/tasks.md shows"
        raise SchedulerError("refused", "no control group and no SLURM_JOB_ID says which job this is", hint=hint)
    member = _member(place.environ) if said else ""
    evidence = (f"control group of job {job}",) * bool(group) + (f"SLURM_JOB_ID={job}",) * bool(said)
    cluster, run = place.environ.get("SLURM_CLUSTER_NAME", ""), place.environ.get("SLURM_RESTART_COUNT", "")
    details = {"job": job, "cluster": cluster, "node": node(place.environ), "run": run}
    owner = place.environ.get("SLURM_JOB_USER", "")
    name = member or job
    own = {key: one for key, one in details.items() if one}
    return Task(name, f"job {name}", owner, own, evidence, _advice(name, job, details["node"]))


def _advice(name: str, job: str, node: str) -> Advice:
    """A step beside the job's own; of an array it takes the number of the member, and `scancel` the name. Source: srun(1), sacct(1)."""
    return Advice(
        reach=f"srun --jobid={job} --overlap -n1 -w {node} {{}}",
        end=f"`scancel {name}`",
        show=f"`sacct -j {name}` (for some minutes also `scontrol show job {job}`)",
        again="submit it as before (`sbatch`, `srun` or `salloc`)",
    )


def node(environ: Mapping[str, str]) -> str:
    """What Slurm calls this machine."""
    import socket

    return environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]


def _member(environ: Mapping[str, str]) -> str:
    """A member of an array: the number of the job alone may be that of the whole array, which `scancel` would end."""
    array, index = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    return f"{array}_{index}" if _NUMBER.fullmatch(array) and index.isdecimal() else ""
