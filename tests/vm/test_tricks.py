"""An ordinary user of the machine who means harm: what he must not do is refused, and what he leaves about is neither run nor followed.

One machine and one boot for all of it; each test goes on where the one before it ended.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.guarded import Guarded
from tests.vm.image import Image

pytestmark = pytest.mark.timeout(1800)

LIVE = """\
mode = "live"
preset = "gpu-sentinel"
kill_action = "shutdown"
interval = "2s"
arm_threshold = "5%"
arm_duration = "4s"
kill_threshold = "5%"
kill_duration = "30s"
stop_below_load = false
aggregate = "all"
grace = "45s"

[host]
sysfs = "/opt/standin/sys"

[notify]
local_only = true

# What reads in the folders of users and starts processes as them; the others would count what the test itself does as work.
[senses]
enabled = true

[senses.jupyter]
enabled = true
required = false
"""
OFF = ("terminals", "ssh", "traffic", "serving", "cluster", "cpu")
CONFIGURATION = LIVE + "".join(f"\n[senses.{name}]\nenabled = false\n" for name in OFF)

OWNED = "/var/owned"
PLANTED = f"import posix\nif posix.geteuid() == 0: open({OWNED!r}, 'a').write(__file__ + chr(10))\n"
"""Says that root ran it."""

ROOTS_COMMANDS = "(cd /tmp; costguard config check; cd ~bob; costguard doctor) 2>&1"


@pytest.fixture(scope="module")
def live(image: Image) -> Iterator[Guarded]:
    """Armed and at work; alice sits at a terminal, and bob has nothing but an account."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Guarded(image, Path(folder), ["-m", "1024"]) as machine:
        machine.shell("echo -950 > /proc/$PPID/oom_score_adj")  # what runs the test's own commands is no part of it
        machine.sits()
        machine.put("/srv/tricks.py", Path(__file__).with_name("tricks.py").read_text())
        machine.put(OWNED, "", "666")
        machine.set_up(CONFIGURATION)
        machine.move(util=90)
        machine.wait("ARMED: ")
        yield machine


def guards(live: Guarded) -> list[str]:
    """The guard and what it has started."""
    return live.shell("cat /sys/fs/cgroup/system.slice/costguard.service/cgroup.procs").split()


def main_pid(live: Guarded) -> str:
    """Of the guard that runs; empty while none does."""
    return live.shell("systemctl show -P MainPID costguard").strip().removeprefix("0")


def by_bob(live: Guarded, unit: str, *argv: str, wait: bool) -> str:
    """Run something as bob, with what a login gives him: a slice of his own."""
    words = [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        "--uid=bob",
        "--slice=user-1001.slice",
        "-pWorkingDirectory=/tmp",
    ]
    return live.run(*words, *(["--pipe", "--wait"] if wait else []), *argv, check=not wait).output


def test_what_he_must_not_do_is_refused(live: Guarded) -> None:
    """Files, locks, signals, other processes, systemd, the control socket: each trick that worked would be named."""
    before = main_pid(live)
    assert by_bob(live, "refused", "python3", "/srv/tricks.py", "refused", *guards(live), wait=True) == ""
    assert main_pid(live) == before
    assert live.status()["armed"]


def test_what_he_plants_is_neither_run_nor_followed(live: Guarded) -> None:
    """By the guard, which starts anew beside it, and by root's own commands in his folders."""
    live.run("python3", "/srv/tricks.py", "plant", PLANTED, user="bob")
    live.run("systemctl", "restart", "costguard")
    live.until(live.sees_gpus)
    said = live.shell(ROOTS_COMMANDS, check=False)
    for word in ("/tmp", "/dev/shm", "/home", "end_process"):
        assert word not in said, said
    assert "bob's Jupyter cannot be asked" in said  # a link to what is not his, of a notebook that is none
    assert live.shell(f"cat {OWNED}") == ""
    report = live.status()
    assert (report["mode"], report["action"], report["armed"]) == ("live", "shutdown", True)
