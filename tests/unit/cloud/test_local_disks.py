"""Whether local disks hold data: from the files of a machine, one rule for every cloud."""

import os
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from costguard.cloud import local_disks, superblock
from costguard.cloud import mounts as tables
from costguard.cloud.access import HostPaths
from costguard.cloud.local_disks import Use

MIB = 1 << 20


class Box:
    """A machine with a root disk and two local disks, ``nvme1n1`` and ``nvme2n1``, that nothing uses yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc/1/root").mkdir(parents=True)
        (root / "dev").mkdir()
        self.rows = ["30 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw"]
        self.disk("nvme1n1", "259:4")
        self.disk("nvme2n1", "259:5")
        self.mounts()

    def disk(self, name: str, number: str, written: int = 0, below: str = "") -> None:
        folder = self.root / "sys/block" / below / name
        (folder / "holders").mkdir(parents=True)
        (folder / "dev").write_text(f"{number}\n")
        (folder / "stat").write_text(f"10 0 80 1 {written} 0 {written * 8} 1 0 1 1\n")

    def wrote(self, name: str) -> None:
        (self.root / "sys/block" / name / "stat").write_text("10 0 80 1 9 0 72 1 0 1 1\n")

    def on_top(self, name: str, number: str, *under: str, label: str = "") -> None:
        self.disk(name, number, written=9)
        for below in under:
            (self.root / "sys/block" / below / "holders" / name).mkdir()
        if label:
            (self.root / "sys/block" / name / "dm").mkdir()
            (self.root / "sys/block" / name / "dm/name").write_text(f"{label}\n")

    def mounts(self, *rows: str) -> None:
        self.rows += rows
        (self.root / "proc/1/mountinfo").write_text("\n".join(self.rows) + "\n")

    def folder(self, target: str, *names: str) -> None:
        """What a mount point shows; a name that ends with a slash is a folder."""
        place = self.root / "proc/1/root" / target.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).mkdir() if name.endswith("/") else (place / name).write_text("x")

    def device(self, name: str, content: bytes) -> None:
        (self.root / "dev" / name).write_bytes(content.ljust(4 * MIB, b"\0"))

    def use(self, *disks: str, nothing: Iterable[str] = (), foreign: Iterable[str] = (), devices: bool = True) -> Use:
        place = HostPaths(str(self.root / "proc"), str(self.root / "sys"), str(self.root / "dev") if devices else "")
        return local_disks.look(place, disks or ("nvme1n1", "nvme2n1"), tuple(nothing), tuple(foreign))


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def deep_learning_image(box: Box) -> None:
    """A volume group over both disks, ext4 in it, mounted."""
    box.on_top("dm-0", "253:0", "nvme1n1", "nvme2n1", label="vg.01-lv_ephemeral")
    box.mounts("40 30 253:0 / /opt/dlami/nvme rw - ext4 /dev/mapper/vg.01-lv_ephemeral rw")
    box.folder("/opt/dlami/nvme", "lost+found/")


def test_a_fresh_image_is_empty(box: Box) -> None:
    """It mounts its local disks before anybody has written a byte; nothing would be lost."""
    deep_learning_image(box)
    assert box.use() == Use("empty", ("/opt/dlami/nvme",))


@pytest.mark.parametrize("name", ["model.pt", ".hidden", "datasets/", "swapfile", "lost+found/recovered"])
def test_one_name_is_enough(box: Box, name: str) -> None:
    """Whatever it is: a file, a folder, something that a repair found, a file that is called like swap and is none."""
    deep_learning_image(box)
    box.folder("/opt/dlami/nvme", name)
    assert box.use() == Use("used", ("/opt/dlami/nvme",))


@pytest.mark.parametrize("stack", ["raid", "crypt on a partition", "raid over crypt"])
def test_layers_are_followed(box: Box, stack: str) -> None:
    """Whatever is built on the disks leads to the same file system."""
    if stack == "raid":
        box.on_top("md0", "9:0", "nvme1n1", "nvme2n1")
    elif stack == "crypt on a partition":
        box.disk("nvme1n1p1", "259:6", below="nvme1n1")
        box.disk("dm-3", "9:0", written=9)
        (box.root / "sys/block/nvme1n1/nvme1n1p1/holders/dm-3").mkdir()
    else:
        box.on_top("dm-1", "253:1", "nvme1n1")
        box.on_top("md127", "9:0", "dm-1", "nvme2n1")
    box.mounts("40 30 9:0 / /scratch rw - xfs /dev/whatever rw")
    box.folder("/scratch")
    assert box.use() == Use("empty", ("/scratch",))
    box.folder("/scratch", "epoch-1")
    assert box.use() == Use("used", ("/scratch",))


def test_a_file_system_over_several_disks_is_mounted_under_the_name_of_one(box: Box) -> None:
    """Btrfs: the other disks look as if nobody used them."""
    for name in ("nvme1n1", "nvme2n1"):
        (box.root / "sys/fs/btrfs/1234/devices" / name).mkdir(parents=True)
        box.wrote(name)
    box.mounts("40 30 0:44 / /scratch rw - btrfs /dev/nvme1n1 rw")
    box.folder("/scratch")
    assert box.use("nvme2n1") == Use("empty", ("/scratch",))
    box.folder("/scratch", "data")
    assert box.use("nvme2n1") == Use("used", ("/scratch",))


def test_what_cannot_be_looked_at_is_not_empty(box: Box) -> None:
    """No folder, a mount on top of it, a mount of a part of it: each counts as data."""
    box.mounts("40 30 259:4 / /scratch rw - ext4 /dev/nvme1n1 rw")
    assert box.use().state == "used"
    box.folder("/scratch")
    assert box.use().state == "empty"
    box.mounts("41 40 259:9 / /scratch rw - ext4 /dev/sdz rw")
    assert box.use().state == "used"


SSD = "40 30 259:4 / /data/ssd rw - ext4 /dev/nvme1n1 rw"


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([SSD, "41 30 8:1 / /data rw - ext4 /dev/sdz rw"], "used"),
        (["29 30 8:1 / /data rw - ext4 /dev/sdz rw", SSD], "used"),
        ([SSD, "41 30 8:1 / /data rw - ext4 /dev/sdz rw", "42 41 259:4 / /data/ssd rw - ext4 /dev/nvme1n1 rw"], "empty"),
        ([SSD, "41 40 259:4 /sub /data/ssd rw - ext4 /dev/nvme1n1 rw"], "used"),
        ([SSD, "41 40 0:50 / /data/ssd rw - tmpfs tmpfs rw"], "used"),
        (["29 30 0:49 / /data/ssd rw - autofs systemd-1 rw", SSD.replace("40 30", "40 29")], "empty"),
        (["29 30 8:1 / /data rw - ext4 /dev/sdz rw", SSD.replace("40 30", "40 29")], "empty"),
        ([SSD, "41 40 0:50 / /data/ssd/cache rw - tmpfs tmpfs rw", "42 30 0:51 / /data/ssd2 rw - tmpfs tmpfs rw"], "empty"),
        (["29 30 8:1 / /data rw - ext4 /dev/sdz rw", SSD.replace("40 30", "40 29"), "43 30 0:5 / / rw - tmpfs x rw"], "used"),
        ([SSD.replace("40 30", "30 1"), "30 1 8:1 / /data rw - ext4 /dev/sdz rw"], "used"),
    ],
    ids=[
        *("the parent's folder", "a mount that was moved", "mounted again where it is seen", "its own folder", "a tmpfs"),
        *("an automount", "in order", "mounts below and beside it", "the whole tree", "a table whose ids say nothing"),
    ],
)  # fmt: skip
def test_a_mount_that_another_one_hides_is_not_empty(box: Box, rows: list[str], state: str) -> None:
    """What is seen at its mount point, an empty folder, belongs to something else."""
    box.folder("/data/ssd")
    box.mounts(*rows)
    assert box.use("nvme1n1") == Use("used" if state == "used" else "empty", ("/data/ssd",))


def test_the_old_table_is_in_order(box: Box) -> None:
    """It has no ids: a later mount of a folder above hides what was mounted there."""
    box.folder("/data/ssd")
    (box.root / "proc/1/mountinfo").unlink()
    rows = ["/dev/nvme0n1p1 / ext4 rw 0 0", "/dev/sdz /data ext4 rw 0 0", "/dev/nvme1n1 /data/ssd ext4 rw 0 0"]
    (box.root / "proc/1/mounts").write_text("\n".join(rows))
    assert box.use("nvme1n1").state == "empty"
    (box.root / "proc/1/mounts").write_text("\n".join((rows[0], rows[2], rows[1])))
    assert box.use("nvme1n1").state == "used"


def test_what_is_no_data_by_its_name_is_what_the_name_says(box: Box) -> None:
    """A folder that is called like the image's swap file holds data, and so does a file called lost+found."""
    box.mounts("40 30 259:4 / /mnt rw - ext4 /dev/nvme1n1 rw")
    box.folder("/mnt", "swapfile")
    assert box.use("nvme1n1", nothing=("swapfile",)).state == "empty"
    (box.root / "proc/1/root/mnt/swapfile").unlink()
    box.folder("/mnt", "swapfile/")
    assert box.use("nvme1n1", nothing=("swapfile",)).state == "used"
    (box.root / "proc/1/root/mnt/swapfile").rmdir()
    box.folder("/mnt", "lost+found")
    assert box.use("nvme1n1").state == "used"
    (box.root / "proc/1/root/mnt/lost+found").unlink()
    (box.root / "proc/1/root/mnt/lost+found").symlink_to(box.root / "dev")
    assert box.use("nvme1n1").state == "used"


def test_a_part_of_a_file_system_says_nothing_of_the_rest(box: Box) -> None:
    """A folder that is mounted by itself is empty; where the whole is mounted decides."""
    box.mounts("40 30 259:4 /jobs/7 /job rw - ext4 /dev/nvme1n1 rw")
    box.folder("/job")
    assert box.use() == Use("used", ("/job",))
    box.mounts("41 30 259:4 / /scratch rw - ext4 /dev/nvme1n1 rw")
    box.folder("/scratch", "jobs/")
    assert box.use().state == "used"


def test_mounts_that_nobody_sees_are_unknown(box: Box) -> None:
    """Unknown is never unused."""
    (box.root / "proc/1/mountinfo").unlink()
    assert box.use() == Use("unknown")


def test_swap_is_no_data_and_is_named(box: Box) -> None:
    """Memory ends with the machine; who wants to keep the memory asks for it."""
    box.on_top("dm-0", "253:0", "nvme1n1")
    (box.root / "proc/swaps").write_text("Filename Type\n/dev/dm-0 partition 8 0 -2\n/scratch/a\\040swap file 8 0 -3\n")
    assert box.use("nvme1n1") == Use("unused", (), swap=True)
    box.mounts("40 30 259:5 / /scratch rw - ext4 /dev/nvme2n1 rw")
    box.folder("/scratch", "a swap")
    assert box.use("nvme2n1") == Use("empty", ("/scratch",), swap=True)


FOLDER, FILE, GONE = (0o40700, 2), (0o100644, 1), (0o40700, 0)


def ext(
    inodes: int = 65536, used: int = 11, state: int = 1, compatible: int = 0, incompatible: int = 0x42,
    first: tuple[int, int] = FOLDER, table: int = 2,
) -> bytes:  # fmt: skip
    """The beginning of an ext4 with blocks of 4 KiB: super block, descriptor of the first group, its inodes.

    ``first`` has the mode and the links of the first inode that is not reserved.
    """
    block = bytearray(16384)
    struct.pack_into("<I", block, 1024, inodes)
    struct.pack_into("<I", block, 1024 + 16, inodes - used)
    struct.pack_into("<I", block, 1024 + 24, 2)
    struct.pack_into("<HH", block, 1024 + 56, 0xEF53, state)
    struct.pack_into("<IH", block, 1024 + 84, 11, 256)
    struct.pack_into("<II", block, 1024 + 92, compatible, incompatible)
    struct.pack_into("<I", block, 4096 + 8, table)
    struct.pack_into("<H", block, 8192 + 10 * 256, first[0])
    struct.pack_into("<H", block, 8192 + 10 * 256 + 26, first[1])
    return bytes(block)


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (b"", "unused"),
        (ext(), "unused"),
        (ext(used=12, compatible=0x1000), "unused"),
        (b"\0" * 4086 + b"SWAPSPACE2", "unused"),
        (ext(used=12), "used"),
        (ext(first=FILE), "used"),
        (ext(first=GONE), "used"),
        (ext(table=4096), "used"),
        (ext(state=0), "used"),
        (ext(incompatible=0x46), "used"),
        (b"XFSB" + b"\0" * 500, "used"),
        (b"\0" * 512 + b"LABELONE", "used"),
        (b"\xebR\x90NTFS    ", "used"),
        (b"\0" * (3 * MIB + 900_000) + b"raid", "used"),
        (b"\0" * (MIB + 1024) + b"\1", "used"),
        (b"\0" * (2 * MIB + 500_000) + b"x" * 80_000, "used"),
    ],
    ids=[
        *("blank", "ext4 as mkfs left it", "with a file for orphans", "swap"),
        *(
            "ext4 with a file",
            "one file instead of lost+found",
            "lost+found is gone",
            "its inodes cannot be read",
            "not left clean",
            "with a journal to replay",
        ),
        *("xfs", "a volume group", "ntfs", "something at the end", "where a partition began", "raw data"),
    ],
)
def test_a_disk_that_nobody_mounts_is_read(box: Box, content: bytes, state: str) -> None:
    """After a reboot data may be on it, although nothing was written since."""
    box.device("nvme1n1", content)
    box.device("nvme2n1", b"")
    assert box.use().state == state
    box.wrote("nvme1n1")  # by whoever made the file system
    assert box.use().state == state


def test_what_the_cloud_itself_puts_there_is_no_data(box: Box) -> None:
    """A cloud may hand out its disks formatted."""
    box.device("nvme1n1", b"\xebR\x90NTFS    ")
    assert box.use("nvme1n1", foreign=("ntfs",)) == Use("unused")


def test_a_disk_that_cannot_be_read_is_judged_by_what_was_written(box: Box) -> None:
    """An ordinary user may not read devices; one that is no block device holds nobody up."""
    assert box.use(devices=False) == Use("unused")
    os.mkfifo(box.root / "dev/nvme1n1")
    assert superblock.look(str(box.root / "dev/nvme1n1")) == "unreadable"
    assert box.use("nvme1n1") == Use("unused")
    box.wrote("nvme1n1")
    assert box.use(devices=False).where == ("nvme1n1 (not mounted, written to since boot)",)
    (box.root / "sys/block/nvme2n1/stat").write_text("nonsense\n")
    assert box.use("nvme2n1", devices=False).state == "used"


def test_what_is_built_on_a_disk_and_not_mounted_may_hold_data(box: Box) -> None:
    """Unless it can be read, and is blank."""
    box.on_top("md0", "9:0", "nvme1n1", "nvme2n1")
    assert box.use().where == ("md0 (not mounted, holds nvme1n1)", "md0 (not mounted, holds nvme2n1)")
    box.device("md0", b"")
    assert box.use() == Use("unused")


def test_a_disk_that_hangs_holds_nothing_up(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a dead disk never comes back: the disk counts as used."""
    answers = threading.Event()
    box.mounts("40 30 259:4 / /scratch rw - ext4 /dev/nvme1n1 rw")
    box.folder("/scratch")
    with monkeypatch.context() as patch:
        patch.setattr(local_disks, "LOOK_SECONDS", 0.05)
        patch.setattr(os, "scandir", lambda _: answers.wait() or iter(()))
        use = box.use("nvme1n1")
        answers.set()
    assert use == Use("used", ("nvme1n1 (does not answer)",))


@pytest.mark.parametrize(
    ("names", "use"),
    [
        ({"/scratch": [], "/data": []}, Use("empty", ("/scratch", "/data"))),
        ({"/scratch": ["lost+found/"], "/data": ["model.pt"]}, Use("used", ("/data",))),
        ({"/scratch": ["a"], "/data": ["b"]}, Use("used", ("/scratch", "/data"))),
        ({}, Use("unused", ())),
    ],
)
def test_mounts_are_judged_by_what_they_show(box: Box, names: dict[str, list[str]], use: Use) -> None:
    """Where nothing is known of the disks below: those that hold something are named, and no other."""
    for number, (target, shown) in enumerate(names.items()):
        box.mounts(f"4{number} 30 0:5{number} / {target} rw - xfs /dev/x{number} rw")
        box.folder(target, *shown)
    place = HostPaths(str(box.root / "proc"), str(box.root / "sys"), "")
    every = [mount for mount in tables.read(place.procfs) or () if mount.target in names]
    assert local_disks.points(place, every) == use


# ---- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("disk", "source", "mine"),
    [
        ("nvme1n1", "/dev/nvme1n1", True), ("nvme1n1", "/dev/nvme1n1p7", True), ("nvme1n1", "/dev/nvme1n17", False), ("nvme1n1", "/dev/nvme1n1p", False),
        ("nvme1n1", "/dev/nvme1n1px", False), ("nvme1n1", "/dev/nvme2n1p7", False), ("sdb", "/dev/sdb1", True), ("sdb", "/dev/sdb12", True),
        ("sdb", "/dev/sdbp1", False), ("sdb", "/dev/sdba", False), ("sdb", "sdb1", False), ("sdb", "/dev/1", False), ("s1b", "/dev/s1b2", True), ("s1b", "/dev/s1bp2", False),
    ],
)  # fmt: skip
def test_a_mount_is_known_by_the_name_of_its_device(box: Box, disk: str, source: str, mine: bool) -> None:
    """Also by that of a partition which the kernel's list does not have, as each kind of disk writes it."""
    if disk != "nvme1n1":
        box.disk(disk, "8:16")
    box.mounts(f"40 30 0:99 / /scratch rw - ext4 {source} rw")
    box.folder("/scratch", "data")
    assert box.use(disk) == (Use("used", ("/scratch",)) if mine else Use("unused"))


def test_other_names_of_a_device(box: Box) -> None:
    """What the device mapper calls it, and links to it, where links can be looked at."""
    box.on_top("dm-0", "253:0", "nvme1n1", label="vg-lv")
    box.mounts("40 30 0:99 / /one rw - ext4 /dev/mapper/vg-lv rw")
    box.folder("/one", "data")
    assert box.use("nvme1n1") == Use("used", ("/one",))
    (box.root / "dev/disk").mkdir()
    (box.root / "dev/disk/mine").symlink_to("../nvme2n1")
    box.device("nvme2n1", b"x")
    box.mounts("41 30 0:98 / /two rw - ext4 /dev/disk/mine rw")
    box.folder("/two", "data")
    assert box.use("nvme2n1") == Use("used", ("/two",))
    assert box.use("nvme2n1", devices=False) == Use("unused")


def test_a_device_that_is_reached_twice_is_looked_at_once(box: Box) -> None:
    """Over two partitions, and in a circle; what waits behind it is looked at all the same."""
    for number in (1, 2, 3):
        box.disk(f"nvme1n1p{number}", f"259:{number + 10}", below="nvme1n1")
    box.disk("md0", "9:0", written=9)
    for part in ("nvme1n1p2", "nvme1n1p3"):
        (box.root / "sys/block/nvme1n1" / part / "holders/md0").mkdir()
    (box.root / "sys/block/md0/holders/md0").mkdir()
    found = [node.name for node in local_disks._stack(str(box.root / "sys"), "nvme1n1")]
    assert sorted(found) == ["md0", "nvme1n1", "nvme1n1p1", "nvme1n1p2", "nvme1n1p3"]
    assert [node.carries for node in local_disks._stack(str(box.root / "sys"), "nvme1n1p1")] == [False]


@pytest.mark.parametrize(("kind", "part", "held"), [("zfs", True, True), ("zfs", False, False), ("xfs", True, False)])
def test_a_partition_may_be_of_a_pool_that_names_no_device(box: Box, kind: str, part: bool, held: bool) -> None:
    """Only where such a pool is mounted, and only a partition: a pool leaves no other trace."""
    if part:
        box.disk("nvme1n1p1", "259:11", below="nvme1n1")
    box.mounts(f"40 30 0:99 / /pool rw - {kind} tank rw")
    for name in ("nvme1n1", "nvme1n1p1"):
        box.device(name, b"")
    found = box.use("nvme1n1")
    assert found == (Use("used", ("nvme1n1p1 (perhaps of a ZFS pool, on nvme1n1)",)) if held else Use("unused"))


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        ("10 0 80 1 0 0 0 1", False),
        ("10 0 80 1 9 0 72 1", True),
        ("10 0 80 1 9 0", True),
        ("10 0 80 1 9 0 0", False),
        ("", False),
    ],
)
def test_what_was_written_since_the_boot(box: Box, columns: str, written: bool) -> None:
    """A table that is cut off clears nothing; one that is not there blames nobody."""
    (box.root / "sys/block/nvme1n1/stat").write_text(columns)
    found = box.use("nvme1n1", devices=False)
    assert found == (Use("used", ("nvme1n1 (not mounted, written to since boot)",)) if written else Use("unused"))
