"""What the machine's own files say of local disks, nodes and age."""

import os
from pathlib import Path

import pytest

from costguard.cloud.age import uptime
from costguard_aws import disks
from costguard_aws.disks import MODEL, Store

ROOT = "30 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw"
EFI = "31 30 259:2 / /boot/efi rw - vfat /dev/nvme0n1p15 rw"


class Files:
    """A machine's /proc and /sys."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("sys/block/nvme0n1/device/model", "Amazon Elastic Block Store")
        self.mounts(ROOT, EFI)
        (root / "proc/1/root").mkdir()

    def write(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(f"{text}\n")

    def mounts(self, *lines: str) -> None:
        self.write("proc/1/mountinfo", "\n".join(lines))

    def disk(self, name: str = "nvme1n1", number: str = "259:4") -> None:
        self.write(f"sys/block/{name}/device/model", f"{MODEL}          ")
        self.write(f"sys/block/{name}/dev", number)

    def holder(self, under: str, name: str, number: str, label: str = "") -> None:
        """A device on top of a disk or partition (``under`` is its folder below /sys/block)."""
        os.makedirs(self.root / f"sys/block/{under}/holders/{name}")
        self.write(f"sys/block/{name}/dev", number)
        if label:
            self.write(f"sys/block/{name}/dm/name", label)

    @property
    def store(self) -> Store | None:
        return disks.store(str(self.root / "proc"), str(self.root / "sys"))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_no_local_disk(files: Files) -> None:
    """Network disks are NVMe devices too; only the model tells."""
    assert files.store == Store((), ())


def test_an_unmounted_disk(files: Files) -> None:
    """It is there, and nothing uses it."""
    files.disk()
    assert files.store == Store(("nvme1n1",), ())


@pytest.mark.parametrize(
    "line",
    [
        "40 30 259:4 / /scratch rw - ext4 /dev/nvme1n1 rw",
        "40 30 259:4 / /scratch rw - ext4 /dev/disk/by-id/nvme-Amazon rw",
        "40 30 0:44 / /scratch rw - btrfs /dev/nvme1n1 rw",
    ],
    ids=["by name", "by number", "a number of its own"],
)
def test_a_mounted_disk(files: Files, line: str) -> None:
    """By device number, or by name where the file system has a number of its own."""
    files.disk()
    files.mounts(ROOT, line)
    assert files.store == Store(("nvme1n1",), ("/scratch",))


def test_a_partition(files: Files) -> None:
    """Its number is its own."""
    files.disk()
    files.write("sys/block/nvme1n1/nvme1n1p1/dev", "259:5")
    files.mounts(ROOT, "40 30 259:5 / /scratch rw - ext4 /dev/nvme1n1p1 rw")
    assert files.store == Store(("nvme1n1",), ("/scratch",))


def test_a_volume_group_over_two_disks(files: Files) -> None:
    """The deep learning images make one of all local disks."""
    files.disk("nvme1n1", "259:4")
    files.disk("nvme2n1", "259:5")
    files.holder("nvme1n1", "dm-0", "253:0", "vg.01-lv_ephemeral")
    os.makedirs(files.root / "sys/block/nvme2n1/holders/dm-0")
    files.mounts(ROOT, "40 30 253:0 / /opt/dlami/nvme rw - ext4 /dev/mapper/vg.01-lv_ephemeral rw")
    assert files.store == Store(("nvme1n1", "nvme2n1"), ("/opt/dlami/nvme",))
    os.makedirs(files.root / "proc/1/root/opt/dlami/nvme/lost+found")
    assert files.store == Store(("nvme1n1", "nvme2n1"), (), ("/opt/dlami/nvme",))


def test_a_raid_that_is_not_mounted(files: Files) -> None:
    """Somebody built it: that is use, too."""
    files.disk()
    files.holder("nvme1n1", "md0", "9:0")
    found = files.store
    assert found is not None
    assert found.used == ("md0 (not mounted, holds nvme1n1)",)


def test_a_zfs_pool(files: Files) -> None:
    """Its mounts name no device; partitions and a pool somewhere are the only trace."""
    files.disk()
    files.write("sys/block/nvme1n1/nvme1n1p1/dev", "259:5")
    files.mounts(ROOT, "40 30 0:50 / /tank rw - zfs tank rw")
    found = files.store
    assert found is not None
    assert found.used == ("nvme1n1p1 (perhaps of a ZFS pool, on nvme1n1)",)


def test_unseen_mounts_are_not_no_mounts(files: Files) -> None:
    """Unknown is never unused."""
    files.disk()
    (files.root / "proc/1/mountinfo").unlink()
    assert files.store is None


def test_unseen_disks(files: Files) -> None:
    """Then everything beside the root disk could be one."""
    files.mounts(
        ROOT, EFI, "40 30 202:80 / /data rw - ext4 /dev/xvdf1 rw", "41 30 7:0 / /snap/x ro - squashfs /dev/loop0 ro"
    )
    assert disks.store(str(files.root / "proc"), "/nonexistent") == Store(None, ("/data",))
    (files.root / "proc/1/root/data").mkdir()
    assert disks.store(str(files.root / "proc"), "/nonexistent") == Store(None, (), ("/data",))


def test_age(files: Files) -> None:
    """Seconds since boot; nonsense is no age."""
    files.write("proc/uptime", "350735.47 234388.90")
    assert uptime(str(files.root / "proc")) == 350735.47
    files.write("proc/uptime", "soon")
    assert uptime(str(files.root / "proc")) is None
