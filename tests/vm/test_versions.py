"""Another version of costguard in the middle of a countdown, put there as docs/service.md says: nothing is stopped without a new warning."""

import base64
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.vm.guarded import Guarded
from tests.vm.image import Image
from tests.vm.versions import FORMAT, MIGRATING, NEWER, another

pytestmark = pytest.mark.timeout(1500)

GRACE_SECONDS = 180.0
IDLE_SECONDS = 30.0
LIVE = f"""\
mode = "live"
preset = "gpu-sentinel"
kill_action = "shutdown"
interval = "2s"
arm_threshold = "5%"
arm_duration = "4s"
kill_threshold = "5%"
kill_duration = "{IDLE_SECONDS:.0f}s"
stop_below_load = false
aggregate = "all"
grace = "{GRACE_SECONDS:.0f}s"

[host]
sysfs = "/opt/standin/sys"

[notify]
local_only = true
"""
"""Short times, which a machine's end has only under such a preset; a countdown in which emulation can install a wheel."""

STORY_SECONDS = 400.0
INSTALL_SECONDS = 300.0


class Upgraded(Guarded):
    """A live machine on which alice sits, with wheels of two versions."""

    def __init__(self, image: Image, folder: Path) -> None:
        super().__init__(image, folder)
        present = image.wheel(folder)
        self.wheels = {"present": present, "newer": another(present, NEWER, MIGRATING)}

    def bring_wheels(self) -> None:
        """Both lie on the machine from now on."""
        for wheel in self.wheels.values():
            text = base64.b64encode(wheel.read_bytes()).decode()
            self.run("sh", "-c", 'base64 -d > "$1"', "sh", f"/srv/{wheel.name}", text=text)

    def install(self, version: str) -> str:
        """As docs/service.md says for a venv, but for the libraries, which no index has here; what `costguard install` said."""
        wheel = f"/srv/{self.wheels[version].name}[aws]"
        pip = ("/opt/costguard/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check")
        self.run(*pip, "--force-reinstall", "--no-deps", wheel, seconds=INSTALL_SECONDS)
        return self.run("costguard", "install", seconds=INSTALL_SECONDS).output

    def warned(self) -> dict[str, Any]:
        """Wait until a warning has reached people; its incident."""
        self.wait("warning: WARNING: ", STORY_SECONDS)
        self.until(lambda: (self.status()["incident"] or {}).get("due"))
        found: dict[str, Any] = self.status()["incident"]
        return found


@pytest.fixture(scope="module")
def upgraded(image: Image) -> Iterator[Upgraded]:
    """One machine, on which a countdown runs."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Upgraded(image, Path(folder)) as machine:
        machine.sits()
        machine.bring_wheels()
        machine.set_up(LIVE)
        idle_after_work(machine)
        yield machine


def idle_after_work(machine: Guarded) -> None:
    """Work until the guard has seen it, then none."""
    machine.move(util=90)
    machine.wait("ARMED: ")
    machine.move(util=0)


def incidents(machine: Guarded) -> list[str]:
    """The ids that the history knows."""
    return [one["id"] for one in json.loads(machine.shell("costguard history --json"))["incidents"]]


def test_an_upgrade_in_a_countdown_takes_it_back_and_warns_anew(upgraded: Upgraded) -> None:
    """The new version runs, knows that the machine has worked, and begins a whole countdown."""
    first = upgraded.warned()
    upgraded.install("newer")
    upgraded.until(upgraded.sees_gpus)
    report = upgraded.status()
    assert (report["agent"]["version"], report["armed"]) == (NEWER, True)
    upgraded.until(lambda: upgraded.told("shutdown cancelled"))
    second = upgraded.warned()
    assert second["due"] - second["warned"] > GRACE_SECONDS - 1.0
    assert second["id"] != first["id"]
    upgraded.until(lambda: {first["id"], second["id"]} <= set(incidents(upgraded)))


def test_a_step_back_in_a_countdown_says_what_it_cannot_read_and_stops_nothing(upgraded: Upgraded) -> None:
    """The state of the newer version is moved aside: no crash, people are told, and work must be seen again."""
    upgraded.install("present")
    upgraded.until(upgraded.sees_gpus)
    said = upgraded.journal()
    assert f"state.json has unknown version {FORMAT}: moved to /run/costguard/state.json.bad-1" in said
    upgraded.until(lambda: upgraded.told("costguard lost its state for this boot"))
    time.sleep(IDLE_SECONDS * 2)
    report = upgraded.status()
    assert (report["state"], report["armed"], report["incident"]) == ("IDLE", False, None)
    assert upgraded.shell("systemctl show -P NRestarts costguard") == "0\n"


def test_afterwards_it_ends_the_bill_after_a_whole_countdown(upgraded: Upgraded) -> None:
    """Work, idle, a warning, and its whole time until the machine is off."""
    idle_after_work(upgraded)
    upgraded.wait("warning: WARNING: ", STORY_SECONDS)
    begun = time.monotonic()
    upgraded.off(STORY_SECONDS)
    assert time.monotonic() - begun > GRACE_SECONDS
