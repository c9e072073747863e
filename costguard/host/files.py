"""The guard's files: the state of this boot, and commitments that survive boots.

Both are JSON envelopes ``{"version":1, "boot_id"|"instance":…, "data":…}`` around the loop's own documents.
"""

import errno
import json
import os
from contextlib import suppress
from typing import NamedTuple

VERSION = 1
STATE = "state.json"
COMMITMENTS = "commitments.json"
RESERVE = "reserve"
LOGIN_MESSAGE = "login-message"
"""What whoever logs in reads while a countdown runs; a worker writes it, and it ends with the guard."""
RESERVE_BYTES = 256 * 1024
_LIMIT_BYTES = 8 << 20  # a larger file is not ours


class Start(NamedTuple):
    """What a starting guard knows.

    ``state`` is the engine's state saved during this boot, None when there is none; ``commitments`` are those
    of this machine (``instance``), from the runtime directory or else the state directory; ``notes`` go to the journal;
    ``hatch`` is the kernel parameter that forbids every action in this boot, empty when there is none; ``lost``: the
    state, or the commitments, were saved and cannot be used; ``attended``: a person started the agent at a terminal, and waits.
    """

    boot_id: str
    instance: str
    state: bytes | None
    commitments: bytes | None
    notes: tuple[str, ...]
    hatch: str = ""
    lost: bool = False
    attended: bool = False


class _UnreadableError(Exception):
    """Its message says what is wrong with the file, and follows its path."""


def load(runtime: str, state_dir: str, boot_id: str, instance: str) -> Start:
    """Read the saved files. Never raises: one that cannot be used is moved aside, with a note."""
    notes: list[str] = []
    unusable: list[str] = []
    state = _load(os.path.join(runtime, STATE), "boot_id", boot_id, notes, unusable)
    lost = bool(unusable)
    commitments = None
    for directory in (runtime, state_dir):
        if commitments is None:
            commitments = _load(os.path.join(directory, COMMITMENTS), "instance", instance, notes, unusable)
    lost = lost or (commitments is None and bool(unusable))
    return Start(boot_id, instance, state, commitments, tuple(notes), lost=lost)


def wrap(key: str, value: str, data: bytes) -> bytes:
    """Put JSON ``data`` into its envelope; ``key`` is ``boot_id`` or ``instance``."""
    return b'{"version":%d,"%s":%s,"data":%s}\n' % (VERSION, key.encode(), json.dumps(value).encode(), data)


def keep_room(directory: str) -> bool:
    """Reserve space in a directory; `replace` gives it up when the disk is full. False when there is no space."""
    path = os.path.join(directory, RESERVE)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    try:
        os.posix_fallocate(fd, 0, RESERVE_BYTES)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(fd)
    return True


def replace(path: str, data: bytes, *, sync: bool = False) -> bool:
    """Replace a file atomically, mode 0600. ``sync``: wait until it is on the disk. Raises OSError.

    True when the disk was full and the reserve of its directory had to make room.
    """
    try:
        _replace(path, data, sync=sync)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        try:
            os.unlink(os.path.join(os.path.dirname(path), RESERVE))
        except OSError:
            raise error from None
        _replace(path, data, sync=sync)
        return True
    return False


def _replace(path: str, data: bytes, *, sync: bool) -> None:
    temporary = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(temporary, flags, 0o600)
    except FileExistsError:  # left by a crash, or planted: O_EXCL follows no link
        os.unlink(temporary)
        fd = os.open(temporary, flags, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
        os.rename(temporary, path)
    except OSError:
        with suppress(OSError):  # half a file would only take room on a full disk
            os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    if sync:
        _sync_directory(os.path.dirname(path))


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _load(path: str, key: str, value: str, notes: list[str], unusable: list[str]) -> bytes | None:
    try:
        content = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        notes.append(f"cannot read {path} ({error.strerror}): starting without it")
        unusable.append(path)
        return None
    try:
        owner, data = _unwrap(content, key)
    except _UnreadableError as error:
        notes.append(_move_aside(path, str(error)))
        unusable.append(path)
        return None
    if owner == value:
        return data
    if key == "instance":
        notes.append(
            f"{path} is from another machine ({owner}; this one is {value}): its holds and deadlines are dropped"
        )
    return None


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        content = b""
        while len(content) <= _LIMIT_BYTES and (part := os.read(fd, 1 << 20)):
            content += part
    finally:
        os.close(fd)
    return content


def _unwrap(content: bytes, key: str) -> tuple[str, bytes]:
    if len(content) > _LIMIT_BYTES:
        raise _UnreadableError("is too large")
    try:
        envelope = json.loads(content)
        if envelope["version"] != VERSION:
            raise _UnreadableError(f"has unknown version {str(envelope['version'])[:20]}")
        owner, data = envelope[key], json.dumps(envelope["data"], separators=(",", ":"))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise _UnreadableError("is damaged") from error
    if not isinstance(owner, str):
        raise _UnreadableError("is damaged")
    return owner, data.encode()


def _move_aside(path: str, defect: str) -> str:
    number = 1
    while os.path.lexists(f"{path}.bad-{number}"):
        number += 1
    try:
        os.rename(path, f"{path}.bad-{number}")
    except OSError as error:
        return f"{path} {defect} and cannot be moved aside ({error.strerror}): starting without it"
    return f"{path} {defect}: moved to {path}.bad-{number}, starting without it"
