"""A real Slurm for `make test-slurm`, and costguard in and beside its jobs."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.testing.nvml import Script, write_sysfs
from tests.libraries import Libraries
from tests.slurm.cluster import GPUS, Cluster, missing

ADDRESSES = [f"0000:0{number}:00.0" for number in range(1, GPUS + 1)]
WATCH = (
    "interval=1s",
    "arm_duration=off",
    "kill_duration=5s",
    "grace=2s",
    "boot_grace=0s",
    "unused_after=off",
    "mode=live",
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One for all tests: to start it takes seconds."""
    if why := missing():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="slurm-"))
    made = Cluster(folder)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Guarded:
    """The node's GPUs, as a script moves them, and the command that watches a task on it."""

    def __init__(self, cluster: Cluster, folder: Path, library: Path) -> None:
        self.cluster, self.folder = cluster, folder
        folder.mkdir()
        self.gpus = Script(folder / "gpus", gpus=GPUS, name="NVIDIA H200")
        for index, address in enumerate(ADDRESSES):
            self.gpus.set(index, pci=address, util=90)
        self._sysfs = write_sysfs(folder / "sys", ADDRESSES)
        self._environment = self.gpus.environment(library) | {"PYTHONPATH": f"{Path.cwd()}:{Path.cwd()}/providers"}

    def command(self, name: str, *settings: str) -> str:
        """A line of a shell that starts a watcher in the background."""
        given = ("kill_action=end_task", *WATCH, f"host.sysfs={self._sysfs}", *settings)
        sets = " ".join(f"--set {one}" for one in given)
        own = " ".join(f"{key}='{value}'" for key, value in self._environment.items() if value != os.environ.get(key))
        return (
            f"{own} {sys.executable} -m costguard run --state-dir {self.folder}/{name} {sets} >{self.log(name)} 2>&1 &"
        )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def said(self, name: str, words: str) -> bool:
        """Whether the watcher has said so."""
        return self.log(name).exists() and words in self.log(name).read_text()


@pytest.fixture
def guarded(cluster: Cluster, libraries: Libraries) -> Iterator[Guarded]:
    """Four GPUs, all of them at work."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="guarded-"))
    yield Guarded(cluster, folder / "node", libraries.nvml())
    for job in cluster.ask("squeue", "-h", "-o", "%i").split():
        cluster.ask("scancel", job)
    cluster.until(lambda: not cluster.ask("squeue", "-h"))
    for name in ("prolog", "epilog"):
        cluster.script(name, "exit 0")
    shutil.rmtree(folder, ignore_errors=True)
