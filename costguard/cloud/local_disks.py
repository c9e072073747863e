"""Whether the machine's own disks, which lose their data when it ends, hold any. One rule for every cloud.

An empty file system is empty. Swap is memory, which ends with the machine in any case. What is mounted and has
anything else in it, or cannot be looked at, holds data. Of what is not mounted the content decides where it may be read;
where not, whether anything was written since the boot.

Sources: kernel documentation sysfs-block (``holders``, ``dev``, ``dm/name``), block/stat (the seventh number counts
written sectors) and btrfs sysfs (``devices``).
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from costguard.cloud import mounts as tables
from costguard.cloud import superblock
from costguard.cloud.access import HostPaths
from costguard.cloud.mounts import Mount
from costguard.cloud.retry import LateError, bounded
from costguard.files import names_in, text_of

State = Literal["unused", "empty", "used", "unknown"]

LOOK_SECONDS = 3.0
"""Seconds for the whole look; a disk that hangs counts as used."""

_WRITTEN = 6  # the column of block/stat


class Use(NamedTuple):
    """``unused``: nothing is mounted, nothing of it is known to hold data. ``empty``: mounted, and nothing in it.

    ``where`` has the mount points, or what else speaks of data, in words. ``swap``: memory is paged out to it.
    """

    state: State
    where: tuple[str, ...] = ()
    swap: bool = False


def devices(sysfs: str, is_local: Callable[[str, str], bool]) -> tuple[str, ...] | None:
    """Kernel names of the disks that a plug-in calls local by ``is_local(model, path)``; None when the kernel's list cannot be read.

    ``model`` is the kernel's text, empty where there is none; ``path`` the device's real path in sysfs. ``is_local`` must not raise.
    """
    block = os.path.join(sysfs, "block")
    try:
        names = sorted(os.listdir(block))
    except OSError:
        return None
    paths = {name: os.path.join(block, name, "device") for name in names}
    return tuple(
        name for name, path in paths.items() if is_local(text_of(f"{path}/model").strip(), os.path.realpath(path))
    )


def look(place: HostPaths, disks: Sequence[str], nothing: Collection[str] = (), foreign: Collection[str] = ()) -> Use:
    """The use of some disks, by their kernel names, within 3 s; ``unknown`` when no mounts can be seen. Never raises.

    With an empty ``place.devfs`` no device is read.
    ``nothing`` are names of files that the image itself puts on such a disk, ``foreign`` contents (as
    `superblock.look` says them) that the cloud itself puts there.
    """
    return _in_time(lambda: _look(place, disks, nothing, foreign), disks)


def points(place: HostPaths, wanted: Collection[Mount], nothing: Collection[str] = ()) -> Use:
    """The use of some mounts, whatever device is below them, within 3 s. Never raises."""
    every = tables.read(place.procfs) or ()
    targets = tuple(dict.fromkeys(mount.target for mount in wanted))

    def see() -> Use:
        held = tuple(target for target in targets if not _empty(place, every, wanted, target, nothing))
        return Use("used", held) if held else Use("empty" if targets else "unused", targets)

    return _in_time(see, targets)


def _in_time(see: Callable[[], Use], names: Sequence[str]) -> Use:
    try:
        return bounded(see, LOOK_SECONDS)
    except LateError:
        return Use("used", tuple(f"{name} (does not answer)" for name in names))


def _look(place: HostPaths, disks: Sequence[str], nothing: Collection[str], foreign: Collection[str]) -> Use:
    every = tables.read(place.procfs)
    if every is None:
        return Use("unknown")
    paged = tables.swaps(place.procfs)
    held: dict[str, None] = {}
    empty: dict[str, None] = {}
    swap = False
    for disk in disks:
        for node in _stack(place.sysfs, disk):
            own = [mount for mount in every if _on(place, node, mount)]
            targets = dict.fromkeys(mount.target for mount in own)
            full = [target for target in targets if not _empty(place, every, own, target, nothing)]
            held |= dict.fromkeys(full)
            empty |= dict.fromkeys(target for target in targets if target not in full)
            is_swap = any(f"/dev/{name}" in paged for name in _names(place.sysfs, node))
            swap = swap or is_swap or any(path.startswith(f"{target}/") for path in paged for target in targets)
            if not (own or is_swap or node.carries) and (why := _content(place, node, every, foreign)):
                held[f"{node.name} ({why})"] = None
    return Use("used" if held else "empty" if empty else "unused", tuple(held or empty), swap)


class _Node(NamedTuple):
    """A device of the stack: a disk, a partition, or what is built on one. ``carries``: something is built on it."""

    name: str
    path: str
    disk: str
    carries: bool


def _stack(sysfs: str, disk: str) -> Iterator[_Node]:
    """The disk, its partitions, and the device mapper, LVM, crypt and RAID devices on top."""
    block = os.path.join(sysfs, "block")
    waiting = [(disk, os.path.join(block, disk))]
    seen: set[str] = set()
    while waiting:
        name, path = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        parts = [part for part in names_in(path) if part.startswith(name)]
        holders = names_in(os.path.join(path, "holders"))
        yield _Node(name, path, disk, carries=bool(parts or holders))
        waiting += [(part, os.path.join(path, part)) for part in parts]
        waiting += [(holder, os.path.join(block, holder)) for holder in holders]


def _names(sysfs: str, node: _Node) -> set[str]:
    """What a table may call the device; a file system over several devices is mounted under the name of one."""
    label = text_of(os.path.join(node.path, "dm/name")).strip()
    found = {node.name, *([f"mapper/{label}"] if label else [])}
    root = os.path.join(sysfs, "fs/btrfs")
    for uuid in names_in(root):
        members = names_in(os.path.join(root, uuid, "devices"))
        found |= set(members) if node.name in members else set()
    return found


def _on(place: HostPaths, node: _Node, mount: Mount) -> bool:
    """Whether a mount is of this device: by its number, or by one of its names."""
    number = text_of(os.path.join(node.path, "dev")).strip()
    if number and mount.number == number:
        return True
    if not mount.source.startswith("/dev/"):
        return False
    name = mount.source.removeprefix("/dev/")
    linked = os.path.realpath(os.path.join(place.devfs, name)) if place.devfs else name
    found = {name, os.path.basename(linked)}
    return bool(found & _names(place.sysfs, node)) or any(_is_part(one, node.name) for one in found)


def _is_part(name: str, disk: str) -> bool:
    """Whether a name is that of a partition, also of one that the kernel's list does not have."""
    between = "p" if disk[-1].isdigit() else ""
    return name.startswith(f"{disk}{between}") and name.removeprefix(f"{disk}{between}").isdigit()


def _empty(
    place: HostPaths, every: Sequence[Mount], own: Collection[Mount], target: str, nothing: Collection[str]
) -> bool:
    """Whether the file system at a mount point is empty; one that is mounted in part is judged by where it is whole."""
    mine = [mount for mount in own if mount.target == target]
    device = {(mount.number, mount.source) for mount in mine}
    whole = [mount for mount in own if mount.whole and (mount.number, mount.source) in device]
    return any(tables.is_empty(place.procfs, every, mount, nothing) for mount in whole)


def _content(place: HostPaths, node: _Node, every: Sequence[Mount], foreign: Collection[str]) -> str:
    """Why a device that nobody mounts may hold data, in words; empty when it does not."""
    built = f", on {node.disk}" if node.name != node.disk else ""
    part = node.name.startswith(node.disk) and node.name != node.disk
    if part and any(mount.kind == "zfs" for mount in every):
        return f"perhaps of a ZFS pool{built}"  # its mounts name no device; its partitions are the only trace
    content = superblock.look(os.path.join(place.devfs, node.name)) if place.devfs else "unreadable"
    if content in {"blank", "empty", "swap", *foreign}:
        return ""
    if content != "unreadable":
        return f"not mounted, and not empty{built}"
    if not node.name.startswith(node.disk):
        return f"not mounted, holds {node.disk}"
    if part and "ntfs" not in foreign:
        return f"a partition that is not mounted{built}"
    return f"not mounted, written to since boot{built}" if _written(node.path) else ""


def _written(path: str) -> bool:
    """Whether anything was written since boot; a table that makes no sense says nothing of it."""
    text = text_of(os.path.join(path, "stat")).strip()
    columns = text.split()
    if not text:
        return False
    return not (len(columns) > _WRITTEN and columns[_WRITTEN] == "0")
