"""A real Slurm on this machine: one node, a fake GPU resource, control groups where they can be had. Debian's packages are enough.

Three traps. With nothing but `lo` every client dies of "Name or service not known": there is a pair of interfaces with an address.
An empty cgroup.conf is an error. Packages that were only unpacked lack the link `slurmstepd`, so installed ones are asked for.
"""

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "slurmstepd", "scontrol", "sbatch", "munged", "ip")
PACKAGES = "slurmctld slurmd slurm-client munge iproute2"
OTHER = "games"
"""A user of every Debian, whose jobs they are."""

PATIENCE = 60.0
GPUS = 4

CONF = """
ClusterName=test
SlurmctldHost={node}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/{kind}
TaskPlugin=task/{task}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=5
GresTypes=gpu
Prolog={folder}/prolog
Epilog={folder}/epilog
NodeName={node} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=100 Gres=gpu:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={node} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def missing() -> str:
    """Why there can be no Slurm here; empty where there can."""
    if os.geteuid() != 0:
        return "a Slurm of its own needs root"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"{', '.join(lacking)} not installed: apt-get install {PACKAGES}" if lacking else ""


class Cluster:
    """Started with `start`, ended with `stop`. Its folder is open to every user: jobs write there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.node = folder, os.uname().nodename.partition(".")[0]
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.groups = os.path.isdir("/sys/fs/cgroup/freezer") and os.access("/sys/fs/cgroup/freezer", os.W_OK)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Write its files, start its daemons, wait for the node."""
        subprocess.run(
            "ip link add slurm0 type veth peer name slurm1 && ip addr add 192.0.2.1/24 dev slurm0 && ip link set slurm0 up",
            shell=True,
            capture_output=True,
            check=False,
        )
        folder = self.folder
        for name in ("state", "spool", "dev"):
            (folder / name).mkdir()
        folder.chmod(0o755)
        for number in range(GPUS):
            os.mknod(folder / "dev" / f"nvidia{number}", 0o020666, os.makedev(195, number))
        kind, task = ("cgroup", "cgroup") if self.groups else ("linuxproc", "none")
        text = CONF.format(folder=folder, node=self.node, kind=kind, task=task, cpus=os.cpu_count(), gpus=GPUS)
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/dev/nvidia[0-{GPUS - 1}]\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainDevices=no\n")
        self.script("prolog", "exit 0")
        self.script("epilog", "exit 0")
        (folder / "munge.key").write_bytes(os.urandom(1024))
        (folder / "munge.key").chmod(0o600)
        files = (
            ("key-file", "munge.key"),
            ("socket", "munge.socket"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        )
        self._run("munged", "--foreground", "--force", *[f"--{option}={folder / name}" for option, name in files])
        self.until((folder / "munge.socket").exists)
        self.controller()
        self._run("slurmd", "-D", "-N", self.node)
        self.until(lambda: self.ask("sinfo", "-h", "-o", "%T") in ("idle", "mixed"))

    def _run(self, *argv: str) -> None:
        with (self.folder / f"{argv[0]}.out").open("ab") as log:
            self._started.append(
                subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log, start_new_session=True)
            )

    def controller(self) -> None:
        """Start the controller, the first time or again."""
        self._run("slurmctld", "-D")
        self.until(lambda: "is UP" in self.ask("scontrol", "ping"))

    def stop_controller(self) -> None:
        """It saves what it knows; after a crash it may have forgotten the last jobs."""
        last = [one for one in self._started if one.args[0] == "slurmctld"][-1]  # type: ignore[index] # it was made of a list
        last.terminate()
        last.wait(30.0)

    def stop(self) -> None:
        """End every job and every daemon, in this order."""
        self.ask("scancel", "--state=RUNNING", "--full", "-u", f"root,{OTHER}")
        try:
            self.until(lambda: not self.ask("squeue", "-h"), 20.0)
        finally:
            for one in reversed(self._started):
                one.terminate()
                try:
                    one.wait(10.0)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()

    def script(self, name: str, text: str) -> Path:
        """An executable file in the cluster's folder."""
        path = self.folder / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path

    def ask(self, *argv: str, user: str = "", environ: Mapping[str, str] = {}) -> str:
        """The output of a program of Slurm."""
        account = pwd.getpwnam(user) if user else None
        done = subprocess.run(
            argv, env=self.environment | dict(environ), capture_output=True, text=True, timeout=30, check=False, cwd="/",
            user=account.pw_uid if account else None, group=account.pw_gid if account else None, extra_groups=[] if account else None,
        )  # fmt: skip
        return done.stdout.strip() or done.stderr.strip()

    def submit(self, text: str, *options: str, user: str = "", gpus: int = 1) -> str:
        """A job; its number."""
        script = self.script(f"job-{time.monotonic_ns()}", text)
        output = self.folder / "output"
        output.mkdir(exist_ok=True)
        output.chmod(0o1777)
        gres = (f"--gres=gpu:{gpus}",) * bool(gpus)
        said = self.ask("sbatch", "--parsable", *gres, "-o", f"{output}/%j", *options, str(script), user=user)
        assert said.isdecimal(), said
        return said

    def state(self, job: str) -> str:
        """The word of Slurm for a job; of a member of an array too."""
        found = self.ask("scontrol", "-o", "show", "job", job)
        words = [word.partition("=")[2] for word in found.split() if word.startswith("JobState=")]
        return words[0] if words else found

    def output(self, job: str) -> str:
        """What it wrote."""
        path = self.folder / "output" / job
        return path.read_text() if path.exists() else ""

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait for something that happens; what the daemons wrote, where it does not."""
        end = time.monotonic() + seconds
        while not holds():
            logs = [path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log")]
            assert time.monotonic() < end, "\n".join((*logs, self.ask("squeue"), self.ask("sinfo")))
            time.sleep(0.1)
