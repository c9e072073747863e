"""An ordinary user of the machine who means harm: what he must not do is refused, what he leaves about is neither run nor followed, and however much he does, the bill ends in time.

One machine and one boot for all of it; each test goes on where the one before it ended.
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vm.guarded import Guarded
from tests.vm.image import Image

pytestmark = pytest.mark.timeout(3600)

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

[hold]
max = "20s"
total = "60s"

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

FLOODING = "/run/flooding"
UNDER_WAY_SECONDS = 1200.0
"""For bob, to begin: with a fifth of a core beneath the emulation five minutes were not enough. What the guard must do in time is measured from then on."""

WATCHDOG_SECONDS = 60.0
"""Of the unit: so long systemd waits for a guard that does not look."""

STOPPED_WITHIN_SECONDS = 30.0 + 45.0 + 60.0 + 45.0 + WATCHDOG_SECONDS
"""Idle, a countdown, what holds may be in sum, a countdown anew, and what a flood may cost."""

ROOTS_COMMANDS = "(cd /tmp; costguard config check; cd ~bob; costguard doctor) 2>&1"


@pytest.fixture(scope="module")
def live(image: Image) -> Iterator[Guarded]:
    """Armed and at work; alice sits at a terminal, and bob has nothing but an account."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Guarded(image, Path(folder), ["-m", "2048"]) as machine:
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
    return live.shell("cat /sys/fs/cgroup/costguard.service/cgroup.procs").split()


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


def answered(live: Guarded, user: str = "") -> dict[str, Any]:
    """The report, for somebody who asks again where others are before him."""
    end = time.monotonic() + WATCHDOG_SECONDS
    while not (report := live.status(user)):
        assert time.monotonic() < end, live.journal()
    return report


def flood(live: Guarded, unit: str, *kinds: str) -> None:
    """Let bob do all that at once, until the unit ends."""
    live.put(FLOODING, "", "666")
    by_bob(live, unit, "python3", "/srv/tricks.py", "flood", FLOODING, *kinds, wait=False)
    live.until(lambda: set(live.shell(f"cat {FLOODING}").split()) == set(kinds), UNDER_WAY_SECONDS)


def test_no_flood_keeps_it_from_looking_and_from_ending_the_bill(live: Guarded) -> None:
    """Full disks, and all kinds of floods at once: each look in its time, and no stop later than holds allow. Who asks gets an answer, unless somebody takes every place in the queue; root gets one even then."""
    before = main_pid(live)
    by_bob(live, "fill", "python3", "/srv/tricks.py", "fill", wait=True)
    assert "No space left" in live.shell("touch /var/tmp/x", user="alice", check=False)
    flood(live, "flood", "pieces", "requests", "holds", "forks", "crowd")
    for user in ("", "alice", "", "alice"):
        agent = answered(live, user)["agent"]
        assert agent["now"] - agent["ticked"] < WATCHDOG_SECONDS / 2.0
    flood(live, "queue", "connections")
    for _ in range(3):
        assert live.status()["agent"]["now"] > agent["now"]
    time.sleep(WATCHDOG_SECONDS * 1.5)
    assert (main_pid(live), live.shell("systemctl show -P NRestarts costguard")) == (before, "0\n")
    live.move(util=0)
    idle = time.monotonic()
    live.wait("acting: ", STOPPED_WITHIN_SECONDS)
    assert time.monotonic() - idle < STOPPED_WITHIN_SECONDS
    assert live.told("will be shut down")
    live.off()
