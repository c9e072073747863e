"""The local disk: found by its device, judged by what is on it, and never taken for empty without a look."""

import os
import pathlib

import pytest

from costguard.cloud.local_disks import Use
from costguard_azure import disks
from costguard_azure.testing import FakeAzure


def look(azure: FakeAzure, size_kb: str = "184549376") -> Use | None:
    return disks.look(os.path.join(azure.folder, "proc"), os.path.join(azure.folder, "sys"), size_kb)


def state(azure: FakeAzure) -> str:
    use = look(azure)
    assert use is not None
    return use.state


def test_none(azure: FakeAzure) -> None:
    """The guest sees none, the metadata says none."""
    assert look(azure, "0") is None
    assert look(azure, "") is None


@pytest.mark.parametrize("device", ["sdb", "nvme0n1"])
def test_mounted(azure: FakeAzure, device: str) -> None:
    """The disk itself or one of its partitions; another disk's mount says nothing."""
    azure.local_disk(device)
    azure.mount("sdc1", "/data")
    assert state(azure) == "unused"
    azure.mount(device, "/scratch")
    assert look(azure) == Use("empty", ("/scratch",))
    (pathlib.Path(azure.folder) / "proc/1/root/scratch/data").write_text("x")
    assert look(azure) == Use("used", ("/scratch",))


def test_a_name_that_begins_alike(azure: FakeAzure) -> None:
    """``sdba1`` is no partition of ``sdb``."""
    azure.local_disk("sdb")
    azure.mount("sdba1", "/data")
    assert state(azure) == "unused"


def test_an_array_is_in_use(azure: FakeAzure) -> None:
    """What is built on the disk may be mounted under any name."""
    azure.local_disk("nvme0n1")
    os.mkdir(os.path.join(azure.folder, "sys/block/nvme0n1/holders/md0"))
    assert look(azure) == Use("used", ("md0 (not mounted, holds nvme0n1)",))
    azure.mount("nvme0n1p1", "/empty")
    assert state(azure) == "used"


def test_a_mount_that_cannot_be_looked_into(azure: FakeAzure) -> None:
    """Not known is not empty."""
    azure.local_disk("sdb")
    azure.mount("sdb1", "/mnt/my\\040disk")
    os.rmdir(os.path.join(azure.folder, "proc/1/root/mnt/my\\040disk"))
    assert look(azure) == Use("used", ("/mnt/my disk",))


def test_a_disk_that_is_not_seen_by_its_device(azure: FakeAzure) -> None:
    """The metadata says that there is one: the usual mount points count."""
    assert state(azure) == "unused"
    azure.mount("sdx1", "/mnt")
    assert state(azure) == "empty"


def test_nothing_can_be_read(tmp_path: pathlib.Path) -> None:
    """Without ``/proc`` nobody knows, unless the metadata says that there is none."""
    nowhere = str(tmp_path / "nowhere")
    assert disks.look(nowhere, nowhere, "100") == Use("unknown")
    assert disks.look(nowhere, nowhere, "0") is None
