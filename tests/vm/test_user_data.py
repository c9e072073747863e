"""Terraform's user data on a distribution's own image: cloud-init runs it at the first boot, as on every cloud. Needs terraform."""

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.testing.nvml import NA
from terraform.checks.conftest import HERE, Terraform
from tests.vm.guarded import DROP_IN, GPUS, Guarded
from tests.vm.image import WHEELS_LABEL, Image
from tests.vm.user_data import drive, seed

pytestmark = pytest.mark.timeout(1500)

WHEELS = "/srv/wheels"
SETTINGS = {
    "mode": "dry-run", "kill_action": "shutdown", "kill_duration": "20m", "host.sysfs": "/opt/standin/sys", "notify.local_only": "true",
}  # fmt: skip
MINE = "/srv/mine"
PROVISION_SECONDS = 900.0


def others(gpus: str) -> str:
    """What the owner's user data does beside it: here it also brings the disk with the wheels, and the stand-in's library."""
    files = {"/etc/systemd/system/costguard.service.d/standin.conf": DROP_IN, "/srv/gpus": gpus, GPUS: gpus}
    written = [{"path": path, "content": text} for path, text in files.items()]
    steps = [["mkdir", "-p", WHEELS], ["mount", "-o", "ro", "-L", WHEELS_LABEL, WHEELS]]
    return "#cloud-config\n" + json.dumps(
        {"write_files": written, "bootcmd": steps, "runcmd": [["touch", MINE]], "locale": False}
    )


class Started(Guarded):
    """A machine from the plain image, and the disk on which a data centre leaves user data for cloud-init."""

    def __init__(self, image: Image, folder: Path, machine: Terraform) -> None:
        self._seed, self._machine = folder / "seed", machine
        super().__init__(image, folder, [*drive(image.wheels), *drive(self._seed)])
        for index in range(2):
            self.gpus.set(index, energy=NA, util=0)
        self._wheel = image.wheel(folder)

    def seed(self, instance: str, **settings: str) -> None:
        """What the machine finds at its next boot."""
        data = self._machine.apply(
            extra="aws", wheel=f"{WHEELS}/{self._wheel.name}", wheel_sha256=hashlib.sha256(self._wheel.read_bytes()).hexdigest(),
            wheels=WHEELS, settings=SETTINGS | settings, other_user_data=[others(self.gpus.text())],
        )["user_data"]  # fmt: skip
        seed(self._seed, instance, data)

    def provisioned(self) -> str:
        """Wait for the end of cloud-init in this boot; what the script said."""
        self.run("cloud-init", "status", "--wait", check=False, seconds=PROVISION_SECONDS)
        return self.shell("cat /var/log/cloud-init-output.log; : > /var/log/cloud-init-output.log")


@pytest.fixture(scope="module")
def started(plain: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Its first boot is over."""
    modules = tmp_path_factory.mktemp("modules") / "machine"
    subprocess.run(["cp", "-R", HERE / "machine", modules], check=True)
    machine = Terraform(modules, {})
    machine.run("init")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        one = Started(plain, Path(folder), machine)
        one.seed("i-first")
        with one:
            yield one


def test_the_first_boot_leaves_a_guarded_machine(started: Started) -> None:
    """From nothing but Python: installed, configured, running; and the owner's own part was run as well."""
    said = started.provisioned()
    assert "costguard: the service runs" in said, said[-3000:]
    started.until(started.sees_gpus)
    report = started.status()
    assert (report["mode"], report["action"]) == ("dry-run", "shutdown")
    assert started.shell(f"systemctl is-active costguard; ls {MINE}; cloud-init status").split() == [
        "active",
        MINE,
        "status:",
        "done",
    ]
    doctor = json.loads(started.run("costguard", "doctor", "--json", check=False).output)
    assert doctor["verdict"] == "WOULD BE GUARDED", doctor


def test_the_next_boot_installs_nothing_and_guards(started: Started) -> None:
    """Cloud-init runs a script once for each instance; the service is enabled."""
    before = started.shell("ls -d /opt/costguard/versions/*")
    started.shut_down()
    started.boot()
    assert "costguard:" not in started.provisioned()
    started.shell(f"mount -o ro -L {WHEELS_LABEL} {WHEELS}; cp /srv/gpus {GPUS}", check=False)
    started.until(started.sees_gpus)
    assert started.shell("ls -d /opt/costguard/versions/*") == before


def test_a_copy_of_the_disk_takes_the_settings_of_its_own_instance(started: Started) -> None:
    """As an image of this machine: what Terraform says there counts, and nothing is installed twice."""
    before = started.shell("ls -d /opt/costguard/versions/*")
    started.shut_down()
    started.seed("i-second", kill_duration="45m")
    started.boot()
    assert "costguard: the service runs" in started.provisioned()
    started.until(started.sees_gpus)
    assert started.status()["policy"]["kill_duration"] == 45 * 60
    assert started.shell("ls -d /opt/costguard/versions/*") == before


def test_what_somebody_changed_on_the_machine_stays(started: Started) -> None:
    """Terraform's later wish lies beside it, and that is said."""
    started.shell("sed -i 's/45m/30m/' /etc/costguard/config.toml")
    started.shut_down()
    started.seed("i-third", kill_duration="50m")
    started.boot()
    assert "was changed on this machine and stays" in started.provisioned()
    started.until(started.sees_gpus)
    assert started.status()["policy"]["kill_duration"] == 30 * 60
    assert "50m" in started.shell("cat /etc/costguard/config.toml.new")
