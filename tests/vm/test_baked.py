"""An image that bake.sh made, as Packer runs it, and two instances of it: nobody's machine, until the first boot makes it somebody's. Needs terraform."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terraform.checks.conftest import HERE, Terraform
from tests.vm.clouds import Aws, Rented
from tests.vm.guarded import DROP_IN, Guarded
from tests.vm.image import WHEELS_LABEL, Image
from tests.vm.user_data import drive, seed

pytestmark = pytest.mark.timeout(3600)

BAKE_SECONDS = 1800.0
"""pip alone took 690 s where other work left QEMU a quarter of a core."""
BUILDER, SECRET = "i-0b111de5000000001", "correct-horse-battery-staple"
RELEASE = "/tmp/bake"
SCRIPTS = ("images/bake.sh", "images/dry-run.toml", "machine/provision.sh")
COMMAND = f"bash {RELEASE}/bake.sh --extra aws --release {RELEASE}/release --config {RELEASE}/dry-run.toml --air-gapped"
READ = ("/etc", "/var", "/root", "/home", "/opt", "/srv", "/tmp")
"""Folders of a disk in which a machine leaves something of itself; the rest is the distribution's."""

OWNERS = "#cloud-config\nlocale: false\n"
SETTINGS = {"kill_duration": "45m"}


def bake(image: Image, folder: Path) -> tuple[Image, dict[str, str], str]:
    """The image, what was the builder's own by its name, and what the script said."""
    cloud_config = {
        "locale": False,
        "write_files": [{"path": "/srv/.cloud", "content": f"{SECRET}\n"}],
        "runcmd": [["rm", "/srv/.cloud"]],
    }
    seed(folder / "seed", BUILDER, "#cloud-config\n" + json.dumps(cloud_config))
    with Guarded(image, folder, [*drive(image.wheels), *drive(folder / "seed")]) as builder:
        builder.run("cloud-init", "status", "--wait", check=False, seconds=BAKE_SECONDS)
        own = {"machine id": builder.shell("cat /etc/machine-id").strip(), "instance": BUILDER, "secret": SECRET}
        builder.shell("mkdir -p /etc/ssh && echo builder-key > /etc/ssh/ssh_host_ed25519_key")
        builder.put("/etc/systemd/system/costguard.service.d/standin.conf", DROP_IN)  # the owner's, for the driver
        builder.put("/etc/costguard/config.d/50-owner.toml", '[host]\nsysfs = "/opt/standin/sys"\n')
        for script in SCRIPTS:
            builder.put(f"{RELEASE}/{Path(script).name}", (HERE / script).read_text(encoding="utf-8"))
        wheel = image.wheel(folder)
        listed = f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel.name}\n"
        builder.put(f"{RELEASE}/release/SHA256SUMS", listed)
        mounted = f"{RELEASE}/release/wheels"
        builder.shell(
            f"mkdir {mounted} && mount -o ro -L {WHEELS_LABEL} {mounted} && cp {mounted}/{wheel.name} {mounted}/.."
        )
        said = builder.shell(f"cd / && {COMMAND}", seconds=BAKE_SECONDS)
        builder.shell(f"umount {mounted} && rm -rf {RELEASE}")  # as the template's last step
        builder.shut_down()
    made = image._replace(disk=folder / "baked")
    subprocess.run(["qemu-img", "convert", "-O", "raw", folder / "disk.qcow2", made.disk], check=True)
    return made, own, said


class Instance(Rented):
    """One of a baked image on EC2, with user data on a disk."""

    def __init__(self, image: Image, folder: Path, cloud: Aws, user_data: str) -> None:
        folder.mkdir(exist_ok=True)
        seed(folder / "seed", cloud.instance, user_data)
        super().__init__(image, folder, cloud, drive(folder / "seed"))

    def first_boot(self) -> None:
        """Nobody does anything but bring the GPUs of the test."""
        self.sits()
        self.move(util=0)
        self.run("cloud-init", "status", "--wait", check=False, seconds=BAKE_SECONDS)
        self.until(self.sees_gpus)


def ids(machine: Guarded) -> tuple[str, str]:
    """What the system, and costguard, take this machine for."""
    machine.until(lambda: machine.status()["agent"]["instance"])
    return machine.shell("cat /etc/machine-id").strip(), machine.status()["agent"]["instance"]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Outside of pytest's own, which is kept: these are gigabytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def baked(plain: Image, folder: Path) -> tuple[Image, dict[str, str], str]:
    """Once for all tests."""
    return bake(plain, folder)


@pytest.fixture(scope="module")
def user_data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Terraform's for a machine whose image has costguard."""
    modules = tmp_path_factory.mktemp("modules") / "machine"
    shutil.copytree(HERE / "machine", modules)
    machine = Terraform(modules, {})
    machine.run("init")
    return str(machine.apply(extra="aws", settings=SETTINGS)["user_data"])


def test_nothing_of_the_builder_is_on_the_disk(baked: tuple[Image, dict[str, str], str], folder: Path) -> None:
    """Its names, its secret, its keys and its state are in no file; what it proved is said."""
    image, own, said = baked
    assert "costguard: the service started, and starts at each boot" in said
    assert said.endswith("costguard: baked: nothing of this machine is left in the image\n")
    tree = folder / "tree"
    tree.mkdir()
    for place in READ:
        subprocess.run(["debugfs", "-R", f"rdump {place} {tree}", image.disk], check=True, capture_output=True)
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000, "the disk was not read"
    found = {
        f"{what} in /{path.relative_to(tree)}"
        for path in files
        for body in [path.read_bytes()]
        for what, text in own.items()
        if text.encode() in body
    }
    assert found == set()
    assert (tree / "etc/machine-id").read_bytes() == b""
    gone = (
        "var/lib/costguard",
        "var/lib/systemd/random-seed",
        "var/lib/systemd/credential.secret",
        "etc/ssh/ssh_host_ed25519_key",
    )
    assert [path for path in gone if (tree / path).exists()] == []


@pytest.fixture(scope="module")
def first(baked: tuple[Image, dict[str, str], str], folder: Path, user_data: str) -> tuple[str, str]:
    """The names of an instance with Terraform's user data, which alice holds; its disk is left in ``folder/first``."""
    with (
        Aws.running(_empty(folder / "ec2-1")) as cloud,
        Instance(baked[0], folder / "first", cloud, user_data) as machine,
    ):
        machine.first_boot()
        assert machine.status()["policy"]["kill_duration"] == 45 * 60
        machine.run("costguard", "hold", "2h", "--reason", "mine", user="alice")
        names = ids(machine)
        assert names[1] == f"aws:{cloud.instance}"
        machine.shut_down()
    return names


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_two_instances_are_two_machines_whose_first_boot_does_the_rest(
    baked: tuple[Image, dict[str, str], str], first: tuple[str, str], folder: Path
) -> None:
    """One with Terraform's user data, one with nothing but its owner's: both are guarded, and neither knows of the other."""
    image, own, _ = baked
    with Aws.running(_empty(folder / "ec2-2")) as cloud, Instance(image, folder / "second", cloud, OWNERS) as second:
        second.first_boot()
        report = second.status()
        assert (report["mode"], report["action"], report["holds"]) == ("dry-run", "stop", [])
        assert report["policy"]["kill_duration"] == 60 * 60
        names = ids(second)
        assert names[1] == f"aws:{cloud.instance}"
    assert len({own["machine id"], names[0], first[0]}) == 3
    assert names[1] != first[1]


def test_a_copy_of_a_disk_that_ran_keeps_no_promise_of_the_other_instance(
    baked: tuple[Image, dict[str, str], str], first: tuple[str, str], folder: Path
) -> None:
    """A snapshot that somebody starts as another machine: alice's hold was for the first one, and that is said."""
    disk = folder / "copied"
    subprocess.run(["qemu-img", "convert", "-O", "raw", folder / "first/disk.qcow2", disk], check=True)
    image = baked[0]._replace(disk=disk)
    with Aws.running(_empty(folder / "ec2-3")) as cloud, Instance(image, folder / "third", cloud, OWNERS) as third:
        third.first_boot()
        assert third.status()["holds"] == []
        assert ids(third)[1] == f"aws:{cloud.instance}"
        assert f"is from another machine ({first[1]}; this one is aws:{cloud.instance})" in third.journal()
