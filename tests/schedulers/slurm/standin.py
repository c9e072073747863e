"""A stand-in of `scontrol` and `scancel`: real programs on a small file of jobs, which refuse what Slurm refuses, in its words.

Seen with 22.05: their output, exit codes and messages are those of the real programs.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

NODE = "node7"

PROGRAM = '''#!{python} -S
import fcntl, json, os, sys, time

FOLDER, NAME, ME = {folder!r}, os.path.basename(sys.argv[0]), str(os.geteuid())

def end(code, error="", output=""):
    sys.stdout.write(output)
    sys.stderr.write(error and error + "\\n")
    sys.exit(code)

with open(FOLDER + "/state", "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    state = json.load(file)
    state["calls"].append([NAME, *sys.argv[1:]])
    fault = state["faults"].get(NAME)
    if isinstance(fault, list):  # one for each call
        fault = fault.pop(0) if fault else None

    def keep():
        file.seek(0)
        file.truncate()
        json.dump(state, file)
        file.flush()

    keep()
    assert os.environ["LC_ALL"] == "C"
    jobs = state["jobs"]

    def found(name):
        """Jobs as Slurm finds them: the number of an array is also that of its last member, and means all."""
        array, _, index = name.partition("_")
        if index:
            return [job for job in jobs if job.get("ArrayJobId") == array and job.get("ArrayTaskId") == index]
        return [job for job in jobs if name in (job["JobId"], job.get("ArrayJobId"), job.get("HetJobId"))]

    def cancel(name):
        for job in found(name):
            if job["JobState"] in ("RUNNING", "PENDING", "SUSPENDED"):
                if state["me"] not in (job["uid"], "0"):
                    end(210, "scancel: error: Kill job error on job id %s: Access/permission denied" % name)
                job["JobState"] = state["after"]
        keep()

    if fault == "down":
        time.sleep(state["patience"])
        prefix = "slurm_load_jobs error" if NAME == "scontrol" else "scancel: error: Kill job error on job id 1"
        end(1, prefix + ": Unable to contact slurm controller (connect failure)")
    if fault == "munge":
        end(1, "slurm_load_jobs error: Protocol authentication error")
    if NAME == "scancel":
        (name,) = sys.argv[1:]
        if fault == "slow-after":
            cancel(name)
        if fault in ("slow", "slow-after"):
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(60)
        if fault == "timed-out":
            end(1, "scancel: error: Kill job error on job id 1: Socket timed out on send/recv operation")
        if fault != "deaf":  # taken, and nothing happens
            cancel(name)
        end(0)
    if fault == "slow":
        fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(60)
    if sys.argv[1:3] == ["show", "hostnames"]:
        end(0, output="\\n".join(state["hostnames"][sys.argv[3]]) + "\\n")
    if sys.argv[1] == "notify":
        name, text = sys.argv[2:]
        (job,) = found(name)
        if state["me"] not in (job["uid"], "0"):
            end(1, "job notify failure: Invalid user id")
        job.setdefault("told", []).append(text)
        keep()
        end(0)
    words, name = sys.argv[1:-1], sys.argv[-1]
    assert words == ["-o", "-d", "show", "job"], sys.argv
    known = found(name)
    if not known:
        end(1, "slurm_load_jobs error: Invalid job id specified")
    end(0, output="".join(" ".join(
        "%s=%s" % (key, value) for key, value in job.items() if key[0].isupper()
    ) + " " + job["nodes"] + " MinCPUsNode=1 Command=/srv/job.sh\\n" for job in known))
'''


class Slurm:
    """A cluster's controller as its programs show it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        state: dict[str, Any] = {"jobs": [], "calls": [], "faults": {}, "me": str(os.geteuid()), "after": "CANCELLED"}
        self._write(state | {"patience": 0, "hostnames": {}})
        for name in ("scontrol", "scancel"):
            program = folder / name
            program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder)))
            program.chmod(0o755)

    def _write(self, state: dict[str, Any]) -> None:
        (self.folder / "state").write_text(json.dumps(state))

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.folder / "state").read_text())
        return state

    def set(self, **changes: Any) -> None:
        self._write(self.state | changes)

    def fails(self, **faults: Any) -> None:
        """``scancel="down"``; a list is one for each call."""
        self.set(faults=faults)

    def add(self, job: str, **fields: str) -> None:
        """A job that runs here, of this user, with GPUs 0 and 1."""
        uid = fields.pop("uid", str(os.geteuid()))
        gres, nodes = fields.pop("gres", "gpu:2(IDX:0-1)"), fields.pop("nodes", NODE)
        whole = {
            "JobId": job, "JobName": "train", "UserId": f"alice({uid})", "JobState": "RUNNING", "Restarts": "0",
            "SubmitTime": "2026-11-23T08:38:34", "StartTime": "2026-11-23T08:38:35", "BatchHost": NODE, "NumNodes": "1",
            "OverSubscribe": "OK", **fields, "uid": uid, "nodes": f"  Nodes={nodes} CPU_IDs=0 Mem=0 GRES={gres}",
        }  # fmt: skip
        self.set(jobs=[*self.state["jobs"], whole])

    def change(self, job: str, **fields: str) -> None:
        self.set(jobs=[one | fields if one["JobId"] == job else one for one in self.state["jobs"]])

    def job(self, job: str) -> dict[str, Any]:
        """What the controller knows of it."""
        (found,) = [one for one in self.state["jobs"] if one["JobId"] == job]
        assert isinstance(found, dict)
        return found

    @property
    def cancelled(self) -> list[list[str]]:
        """What `scancel` was called with."""
        return [call[1:] for call in self.state["calls"] if call[0] == "scancel"]

    def environment(self, job: str = "1", **more: str) -> dict[str, str]:
        """What Slurm gives to a job."""
        own = {"SLURM_JOB_ID": job, "SLURMD_NODENAME": NODE, "SLURM_CLUSTER_NAME": "test", "SLURM_JOB_USER": "alice"}
        return own | more


def group(procfs: Path, pid: str, job: str, *, version: int = 1) -> None:
    """Put a process into the control group of a job, as the two versions of them look."""
    (procfs / pid).mkdir(parents=True, exist_ok=True)
    first = f"9:name=systemd:/\n6:freezer:/slurm_{NODE}/uid_1000/job_{job}/step_batch\n5:devices:/slurm_{NODE}/uid_1000/job_{job}/step_batch/task_0\n0::/\n"
    second = f"0::/system.slice/{NODE}_slurmstepd.scope/job_{job}/step_batch/user/task_0\n"
    (procfs / pid / "cgroup").write_text(first if version == 1 else second)
