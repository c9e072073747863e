"""A process for which closed files are closed, also where the tests run as root."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION = 0x20080522  # of capset(2)
_OVERRIDES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@contextmanager
def rightless() -> Iterator[None]:
    """As this one meanwhile: file modes hold for it as for anybody. Source: capabilities(7)."""
    head, rights = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", head, rights)
    before = rights[0]
    rights[0] = before & ~_OVERRIDES
    _call("capset", head, rights)
    try:
        yield
    finally:
        rights[0] = before
        _call("capset", head, rights)


@contextmanager
def closed(*paths: Path) -> Iterator[None]:
    """With these closed to this process, as what is another user's is."""
    before = {path: path.stat().st_mode for path in paths}
    try:
        for path in paths:
            path.chmod(0)
        with rightless():
            yield
    finally:
        for path, mode in before.items():
            path.chmod(mode)


def _call(name: str, *values: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*values):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
