"""What a disk shows of its content, byte by byte: where it is looked at, and which ext file system is empty."""

import os
from pathlib import Path
from typing import Any

import pytest

from costguard.cloud import superblock
from costguard.cloud.superblock import look

MIB = 1 << 20
DIRECTORY, FILE = 0o040755, 0o100644


class Sparse:
    """A disk of any size, of which only some bytes are not zero; it remembers where it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: dict[int, bytes] = {}
        self.reads: list[tuple[int, int]] = []

    def put(self, at: int, value: int, length: int) -> None:
        self.pieces[at] = value.to_bytes(length, "little")

    def read(self, size: int, at: int) -> bytes:
        self.reads.append((size, at))
        found = bytearray(max(0, min(size, self.size - at)))
        for place, data in self.pieces.items():
            for number, byte in enumerate(data):
                if 0 <= place + number - at < len(found):
                    found[place + number - at] = byte
        return bytes(found)

    def content(self) -> str:
        return superblock._look(self.read, self.size)


def ext(size: int = 1 << 34, **given: int) -> Sparse:
    """An empty one as mkfs leaves it; every field by its name."""
    field = {
        "inodes": 8192, "free": 8192 - 11, "first_block": 0, "log": 2, "magic": 0xEF53, "state": 1, "first": 11, "inode": 256, "compatible": 0,
        "incompatible": 0, "low": 1000, "high": 0, "mode": DIRECTORY, "links": 2,
    } | given  # fmt: skip
    disk = Sparse(size)
    for name, at, length in (
        ("inodes", 0, 4), ("free", 16, 4), ("first_block", 20, 4), ("log", 24, 4), ("magic", 56, 2), ("state", 58, 2), ("first", 84, 4), ("inode", 88, 2),
        ("compatible", 92, 4), ("incompatible", 96, 4),
    ):  # fmt: skip
        disk.put(1024 + at, field[name], length)
    unit = 1024 << field["log"]
    group = (field["first_block"] + 1) * unit
    disk.put(group + 8, field["low"], 4)
    disk.put(group + 40, field["high"], 4)
    table = field["low"] | (field["high"] << 32 if field["incompatible"] & 0x80 else 0)
    inode = table * unit + (field["first"] - 1) * field["inode"]
    disk.put(inode, field["mode"], 2)
    disk.put(inode + 26, field["links"], 2)
    return disk


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ({}, "empty"), ({"log": 0, "first_block": 1}, "empty"), ({"log": 6}, "empty"), ({"inode": 128}, "empty"), ({"inode": 127}, "something"),
        ({"incompatible": 0x80, "high": 1, "size": 1 << 50}, "empty"), ({"incompatible": 0x80, "high": 0}, "empty"), ({"high": 1}, "empty"),
        ({"incompatible": 0x2C0}, "empty"), ({"incompatible": 0x4}, "something"), ({"state": 0}, "something"), ({"state": 2}, "something"), ({"state": 3}, "empty"),
        ({"magic": 0xEF54}, "something"), ({"free": 8192 - 12}, "something"), ({"free": 8192 - 10}, "something"),
        ({"compatible": 0x1000, "free": 8192 - 12}, "empty"), ({"compatible": 0x1000}, "something"), ({"compatible": 0x23C}, "empty"),
        ({"first": 20, "free": 8192 - 20}, "empty"), ({"mode": FILE}, "something"), ({"links": 1}, "something"), ({"links": 3}, "empty"), ({"links": 0x100}, "empty"),
        ({"inodes": 1 << 25, "free": (1 << 25) - 11}, "empty"), ({"inodes": 1 << 25, "free": 8192 - 11}, "something"),
    ],
)  # fmt: skip
def test_an_ext_file_system_that_mkfs_left_is_empty(given: dict[str, int], content: str) -> None:
    """Clean, with the inodes of mkfs alone, the last of which is a folder; anything else is content."""
    assert ext(**given).content() == content


@pytest.mark.parametrize(
    ("size", "content"),
    [
        (4096 + 64, "something"),
        (4096 + 63, "something"),
        (1000 * 4096 + 2560 + 255, "something"),
        (1000 * 4096 + 2560 + 256, "empty"),
    ],
)
def test_what_lies_beyond_the_end_proves_nothing(size: int, content: str) -> None:
    """A table of inodes that is cut off, or a group."""
    assert ext(size).content() == content


def test_a_disk_that_is_too_small_for_a_file_system_has_content() -> None:
    """The words of a super block alone are none."""
    disk = Sparse(2047)
    disk.put(1024 + 56, 0xEF53, 2)
    assert disk.content() == "something"


def test_a_blank_disk_is_looked_at_in_many_places() -> None:
    """Both ends, where partitions begin, and between: data without a signature is content."""
    disk = Sparse(640 * MIB)
    assert disk.content() == "blank"
    samples = [(1 << 16, 10 * MIB * number) for number in range(1, 64)]
    assert disk.reads == [(MIB, 0), (MIB, 639 * MIB), (MIB, MIB), *samples]
    for size, at in disk.reads[1:]:
        for place in (at, at + size - 1):
            disk.pieces = {place: b"x"}
            assert disk.content() == "something"
    disk.pieces = {5 * MIB: b"x"}
    assert disk.content() == "blank", "not everywhere"


def test_a_small_blank_disk_is_blank() -> None:
    """Its end is its beginning."""
    disk = Sparse(MIB // 2)
    assert (disk.content(), disk.reads[1]) == ("blank", (MIB, 0))


@pytest.mark.parametrize(("size", "there"), [(0, 0), (4 * MIB, 0), (4 * MIB, MIB - 1), (5000, 4999)])
def test_a_disk_that_gives_less_than_it_has_is_unreadable(size: int, there: int) -> None:
    """So is one of no size."""
    disk = Sparse(there)
    disk.put(10, 7, 1)
    assert superblock._look(disk.read, size) == "unreadable"


@pytest.mark.parametrize(
    ("at", "data", "content"),
    [
        (4086, b"SWAPSPACE2", "swap"), (4085, b"SWAPSPACE2", "something"), (3, b"NTFS    ", "ntfs"), (2, b"NTFS    ", "something"), (3, b"NTFS", "something"),
        (0, b"x", "something"), (MIB - 1, b"x", "something"),
    ],
)  # fmt: skip
def test_signatures(at: int, data: bytes, content: str) -> None:
    """In their places alone; whatever else is there is content."""
    disk = Sparse(4 * MIB)
    disk.pieces[at] = data
    assert disk.content() == content


def test_a_device_is_read_to_its_last_byte_and_let_go(tmp_path: Path) -> None:
    """Whole, whatever its size; what cannot be opened or read says nothing."""
    before = os.listdir("/proc/self/fd")
    device: Any = tmp_path / "disk"
    device.write_bytes(bytes(4 * MIB - 1) + b"x")
    assert look(str(device)) == "something"
    device.write_bytes(bytes(4 * MIB))
    assert look(str(device)) == "blank"
    device.write_bytes(bytes(4086) + b"SWAPSPACE2")
    assert look(str(device)) == "swap"
    assert (look(str(tmp_path)), look(str(tmp_path / "missing"))) == ("unreadable", "unreadable")
    assert os.listdir("/proc/self/fd") == before
