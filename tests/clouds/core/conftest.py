"""A machine of Example Cloud, and the action worker as a real process on it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.cloud_server import Cloud, running
from tests.forked import Forked

Answers = dict[str, Any]  # JSON: each test looks at what it needs

EXAMPLE = Path(__file__).parents[2] / "contract" / "example"
NO_PAUSE = "import time; time.sleep = lambda _: None; "
"""Before a worker: what it waits for between two tries is over at once."""

WORKER = "import sys; from costguard.actions import worker; sys.exit(worker.main())"


class Rented:
    """Files of the machine, and workers that see only those."""

    def __init__(self, root: Path, cloud: Cloud) -> None:
        self.root = root
        self.cloud = cloud
        self.section: dict[str, object] = dict(cloud.settings)
        self.sink: dict[str, object] = {}
        self.providers = ["example=costguard_example"]
        for folder in ("sys/class/dmi/id", "proc/self", "proc/1", "proc/sys/kernel/random"):
            (root / folder).mkdir(parents=True)
        (root / "proc/1/cgroup").write_text("0::/init.scope\n")
        (root / "proc/self/mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        (root / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
        self.dmi(sys_vendor="Example Cloud", board_asset_tag="m-42")

    def dmi(self, **identity: str) -> None:
        """What the firmware says."""
        for name, value in identity.items():
            (self.root / "sys/class/dmi/id" / name).write_text(value + "\n")

    def job(self, kind: str, action: str = "stop", **more: object) -> Answers:
        """A job as the guard sends it."""
        host = {"procfs": str(self.root / "proc"), "sysfs": str(self.root / "sys")}
        base = {"job": kind, "action": action, "mode": "live", "incident": "b-i1", "attempt": "b-a1", "host": host}
        cloud = {"cloud": self.section, "sink": self.sink, "providers": self.providers}
        return {**base, **cloud, "results": str(self.root / "results"), "deadline": 5, **more}

    def start(self, job: Answers, more: str = "") -> Forked:
        """A worker with its job, on its way."""
        worker = Forked(more + WORKER, {**os.environ, "PYTHONPATH": str(EXAMPLE)})
        assert worker.stdin
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        return worker

    def ask(self, kind: str, action: str = "stop", *, before: str = "", **more: object) -> Answers:
        """One job to its end, released with *go* if it waits for that; all its answers in one mapping."""
        worker = self.start(self.job(kind, action, **more), before)
        out, _ = worker.communicate(b'{"go":true}\n', timeout=30)
        assert worker.returncode == 0
        answers: Answers = {}
        for line in out.splitlines():
            answers |= json.loads(line)
        return answers


def codes(answers: Answers) -> list[str]:
    """The codes of a plan's findings."""
    return [finding["code"] for finding in answers["plan"]["findings"]]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as started:
        yield started


@pytest.fixture
def rented(tmp_path: Path, cloud: Cloud) -> Rented:
    return Rented(tmp_path, cloud)
