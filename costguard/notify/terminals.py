"""Find terminals with a user: those that are the controlling terminal of more than a login prompt.

A login leaves a record in utmp, but tmux, editors and many consoles leave none; processes show them all.
Sources: proc_pid_stat(5) field 7 (tty_nr), devices.txt (136 to 143: pseudo terminals), pts(4), proc_pid_fdinfo(5)
(tty-index), ioctl_console(2).
"""

import fcntl
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from costguard.files import names_in, text_of

PROMPTS = frozenset(("agetty", "getty", "mgetty", "mingetty", "fgetty", "ngetty", "login", "sulogin", "plymouthd"))
"""Programs that wait at a terminal for a login, or show a boot screen."""

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "busybox"))
"""Shells, which mean a user even without a controlling terminal, as at an emergency console."""

CONSOLES = re.compile(r"tty[A-Z]\w*\d+|tty\d+|hvc\d+|hvsi\d+|xvc\d+|sclp_line\d+|console")
"""Names in /dev of possible consoles: virtual, serial, of a hypervisor."""

SCAN_SECONDS = 2.0
"""Limit of the search for the readers of pseudo terminals, on a machine with very many processes."""

_FIRST_PTY, _LAST_PTY = 136, 143
_KDGETMODE, _KD_GRAPHICS = 0x4B3A, 1


def people(procfs: str, devfs: str) -> list[str]:
    """The paths of terminals with a user. Processes that this user may not see hide theirs."""
    devices = _devices(devfs)
    found = {devices[number] for number in _used(procfs, devfs) if number in devices}
    return sorted(found, key=lambda path: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)])


def _used(procfs: str, devfs: str) -> Iterator[tuple[int, int]]:
    """Device numbers of the terminals that run more than a prompt."""
    for pid in names_in(procfs):
        if not pid.isdigit() or (line := _stat(f"{procfs}/{pid}/stat")) is None:
            continue
        name, state, number = line
        if name.strip("()") in PROMPTS or state in "ZX":
            continue
        if number:
            yield (number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
        elif name.lstrip("-") in SHELLS:
            with suppress(OSError):
                path = os.readlink(f"{procfs}/{pid}/fd/0")
                if path.startswith("/dev/") and (device := _device(devfs + path[4:])):
                    yield device


def _stat(path: str) -> tuple[str, str, int] | None:
    """Name, state and tty_nr."""
    try:
        with open(path, "rb") as file:
            head, _, rest = file.read(1024).rpartition(b")")
        fields = rest.split()
        return head.partition(b"(")[2].decode("utf-8", "replace"), fields[0].decode(), int(fields[4])
    except (OSError, ValueError, IndexError):
        return None


def _devices(devfs: str) -> Mapping[tuple[int, int], str]:
    """Paths by device number; /dev/console is an alias, so any other name is preferred."""
    found: dict[tuple[int, int], str] = {}
    names = [f"pts/{name}" for name in names_in(f"{devfs}/pts") if name.isdigit()]
    names += sorted((name for name in names_in(devfs) if CONSOLES.fullmatch(name)), key=lambda name: name == "console")
    for name in names:
        if device := _device(f"{devfs}/{name}"):
            found.setdefault(device, f"{devfs}/{name}")
    return found


def _device(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (os.major(status.st_rdev), os.minor(status.st_rdev)) if stat.S_ISCHR(status.st_mode) else None


def in_graphics_mode(fd: int) -> bool:
    """Whether a virtual console is in graphics mode, which hides its text."""
    try:
        answer = fcntl.ioctl(fd, _KDGETMODE, b"\0" * struct.calcsize("l"))
        return int(struct.unpack("l", answer)[0]) == _KD_GRAPHICS
    except OSError:
        return False  # not a virtual console


def unread(paths: Sequence[str], procfs: str) -> set[str]:
    """The pseudo terminals whose terminal program is stopped, so that nobody reads what is written.

    Only root and the owner of that program may look; a terminal that cannot be judged is not returned.
    """
    numbers = {device[1] + (device[0] - _FIRST_PTY) * 256: path for path in paths if (device := _pty(path))}
    found: dict[str, bool] = {}
    for path, pid in _masters(numbers, procfs) if numbers else ():
        line = _stat(f"{procfs}/{pid}/stat")
        found[path] = found.get(path, True) and line is not None and line[1] in "Tt"
    return {path for path, stopped in found.items() if stopped}


def _pty(path: str) -> tuple[int, int] | None:
    device = _device(path)
    return device if device and _FIRST_PTY <= device[0] <= _LAST_PTY else None


def _masters(numbers: Mapping[int, str], procfs: str) -> Iterator[tuple[str, int]]:
    """The processes that have the master side of each pseudo terminal open."""
    end = time.monotonic() + SCAN_SECONDS
    for pid in filter(str.isdigit, names_in(procfs)):
        for fd in names_in(f"{procfs}/{pid}/fd"):
            try:
                if not os.readlink(f"{procfs}/{pid}/fd/{fd}").endswith("ptmx"):
                    continue
            except OSError:
                continue
            if path := numbers.get(_index(f"{procfs}/{pid}/fdinfo/{fd}")):
                yield path, int(pid)
        if time.monotonic() > end:
            return


def _index(path: str) -> int:
    found = re.search(r"tty-index:\s*(\d+)", text_of(path))
    return int(found[1]) if found else -1
