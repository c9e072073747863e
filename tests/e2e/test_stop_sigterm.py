"""Programs that hold a GPU are told of a stop once the cloud has accepted it: on a machine whose only processes are the test's own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cloud_server import Cloud, running
from tests.e2e.conftest import COMMAND
from tests.e2e.test_stop import Machine

ALONE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
"""Processes and devices of their own: nobody else's program is seen, or told."""

GPU = """
mkdir -p "$0/dev" && mount -t tmpfs none "$0/dev" &&
for node in null zero urandom; do touch "$0/dev/$node" && mount --bind "/dev/$node" "$0/dev/$node" || exit 1; done
mknod "$0/dev/nvidia0" c 195 0 && mkdir "$0/dev/shm" && mount --bind /dev/shm "$0/dev/shm" && mount --rbind "$0/dev" /dev || exit 1
"$1" -c "$2" "$0" & shift 2
while [ ! -e "$0/began" ]; do kill -0 $! || exit 1; sleep 0.05; done
"$@"
code=$?
kill $! 2>/dev/null && echo left > "$0/left"
exit $code
"""
"""A device of a GPU, the program that holds it, and then the command."""

TRAINER = """
import os, pathlib, signal, sys
place = pathlib.Path(sys.argv[1])
gpu = os.open("/dev/nvidia0", os.O_PATH)  # there may be no driver behind it
signal.signal(signal.SIGTERM, lambda *_: ((place / "saved").write_text("told"), sys.exit(0)))
(place / "began").touch()
while True:
    signal.pause()
"""


pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make the node of a device")


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with running() as started:
        yield started


class Stopping:
    """``costguard stop`` beside a program that holds a GPU."""

    def __init__(self, folder: Path, cloud: Cloud, wished: str, action: str = "stop") -> None:
        self.folder = folder
        machine = Machine(folder, cloud)
        sets = [part for setting in (*machine.settings, f"hooks.sigterm={wished}") for part in ("--set", setting)]
        verb = ["stop", "--live", "--yes", "--action", action, "--state-dir", str(folder / "state"), *sets]
        self.process = subprocess.Popen(
            [*ALONE, "sh", "-c", GPU, str(folder), sys.executable, TRAINER, *COMMAND, *verb],
            env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    @property
    def told(self) -> bool:
        """Whether the program has heard of it."""
        return (self.folder / "saved").exists() and not (self.folder / "left").exists()

    def said(self) -> str:
        """What the verb wrote, once it has ended."""
        said, _ = self.process.communicate(timeout=60)
        return said


def test_they_are_told_once_the_cloud_has_accepted_and_not_before(tmp_path: Path, cloud: Cloud) -> None:
    """While the request is out nobody knows whether the machine stops."""
    cloud.wait.clear()
    stopping = Stopping(tmp_path, cloud, "true")
    assert cloud.took.wait(60)
    time.sleep(1.0)  # nothing shows that nothing happens
    assert not stopping.told
    cloud.wait.set()
    said = stopping.said()
    assert stopping.process.returncode == 0, said
    assert "SIGTERM was sent to 1 process that held a GPU" in said
    assert stopping.told


@pytest.mark.parametrize(
    ("wished", "refuses", "action"), [("false", False, "stop"), ("true", True, "stop"), ("true", False, "hibernate")]
)
def test_nobody_is_told_without_wish_acceptance_or_an_end(
    tmp_path: Path, cloud: Cloud, wished: str, refuses: bool, action: str
) -> None:
    """A machine that stays up, or keeps its programs as it sleeps, loses no work."""
    if refuses:
        cloud.fail["/machines/m-42/stop"] = 403
    stopping = Stopping(tmp_path, cloud, wished, action)
    said = stopping.said()
    assert len(cloud.asked) >= 1, said
    assert "SIGTERM was sent" not in said
    assert (tmp_path / "left").exists(), "the program had ended before the command did"
