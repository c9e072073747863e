"""A real agent on a stand-in NVIDIA library, and the verbs that talk to it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from costguard.cli import reach
from costguard.errors import CostguardError
from costguard.testing.nvml import Script, write_sysfs
from tests.clock import Clock

COMMAND = [sys.executable, "-m", "costguard"]
ADDRESSES = ["0000:01:00.0", "0000:02:00.0"]
PATIENCE = 60.0
"""Seconds within which anything here happens, also on one core that others use."""


Holds = Callable[[dict[str, Any]], bool]


def has_gpus(report: dict[str, Any]) -> bool:
    """Whether the agent has seen any."""
    return bool(report["gpus"])


class Agent:
    """``costguard run`` in a folder and a time of its own, with two GPUs that a script moves."""

    def __init__(self, folder: Path, library: Path, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.gpus = Script(folder / "gpus", gpus=2, machine=clock.boottime, name="NVIDIA H200")
        for index, address in enumerate(ADDRESSES):
            self.gpus.set(index, pci=address)
        sysfs = write_sysfs(folder / "sys", ADDRESSES)
        self.procfs = folder / "proc"  # what else runs on this machine is no matter of the test
        for name, text in {"1/cgroup": "0::/init.scope\n", "sys/kernel/random/boot_id": "b007b007-0001\n"}.items():
            (self.procfs / name).parent.mkdir(parents=True, exist_ok=True)
            (self.procfs / name).write_text(text)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("COSTGUARD_")}
        self.environment |= self.gpus.environment(library) | {"TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "100"}
        self.environment |= clock.environment()
        self.settings = [
            "interval=0.2s",
            "arm_duration=1s",
            f"host.sysfs={sysfs}",
            f"host.procfs={self.procfs}",
            "notify.local=[]",
            "notify.local_only=true",
            "cloud.spread=0s",
            "senses.enabled=false",  # whoever uses this machine is no matter of the test
        ]
        self.process: subprocess.Popen[str] | None = None

    def hurry(self, rate: int) -> None:
        """From now on, and before it is started, its time runs so much faster."""
        self.clock.run(rate)
        self.environment |= self.clock.environment()

    def start(self, *settings: str, options: Sequence[str] = (), enough: Holds = has_gpus) -> None:
        """Start it and wait until it answers, with enough in the answer."""
        given = [part for setting in (*self.settings, *settings) for part in ("--set", setting)]
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "run", "--state-dir", str(self.folder / "state"), *options, *given],
                env=self.environment, stdout=log, stderr=log, text=True,
            )  # fmt: skip
        self.until(enough)

    def ask(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a verb against this agent."""
        return subprocess.run(
            [*COMMAND, *arguments, "--state-dir", str(self.folder / "state")],
            env=self.environment | environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip

    def until(self, holds: Holds, seconds: float = PATIENCE) -> dict[str, Any]:
        """The first report for which something holds."""
        end = time.monotonic() + seconds
        while True:
            with suppress(CostguardError):
                report = self.report()
                if holds(report):
                    return report
            assert time.monotonic() < end, (self.folder / "log").read_text()
            time.sleep(0.05)

    def report(self) -> dict[str, Any]:
        """What `costguard status --json` prints, without a process for each question."""
        return reach.request(str(self.folder / "state"), {"command": "status"})

    def stop(self) -> None:
        """End it as a service manager would."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=PATIENCE) == 0, (self.folder / "log").read_text()
            self.process = None


@pytest.fixture
def agent(tmp_path: Path, nvml_library: Path, clock: Clock) -> Iterator[Agent]:
    """An agent that is not started yet."""
    made = Agent(tmp_path, nvml_library, clock)
    yield made
    made.stop()
    shutil.rmtree(tmp_path, ignore_errors=True)
