"""No test leaves this machine: a pytest plug-in that cuts the network off, and watches who tries.

Two nets. Where the kernel allows it, the whole run (its workers and everything that they start) moves into a
network namespace of its own that has nothing but ``lo``. And an audit hook fails every test whose own process
asks for another address or name, also where the code under test swallows the error.
"""

import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Iterator

import pytest

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000  # sched.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # netdevice(7)
NAMES = {"", "localhost", "localhost.localdomain", "ip6-localhost"}
ENTERED = "TESTS_NETWORK"
"""Set for the workers of a run: in which network they are."""

attempts: list[str] = []
"""What the test that runs now asked for beyond loopback."""


class LeftLoopbackError(OSError):
    """A test asked for another machine."""


def inside(host: object) -> bool:
    """Whether an address or a name means this machine."""
    if host is None or host in NAMES:
        return True
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    try:
        return ipaddress.ip_address(text.partition("%")[0]).is_loopback or text in {"0.0.0.0", "::"}
    except ValueError:
        return text in NAMES or text == socket.gethostname()


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """The audit hook. Source of the events: docs.python.org, "Audit events table"."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        one, address = arguments[0], arguments[-1]
        if not isinstance(one, socket.socket) or one.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        host: object = address[0] if isinstance(address, tuple) else None
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        host = arguments[0]
    else:
        return
    if not inside(host):
        attempts.append(f"{event}: {host!s}")
        raise LeftLoopbackError(f"a test asked for {host!s}, which is not this machine")


def cut_off() -> str:
    """Move this process into a network with nothing but ``lo``; words for the report either way.

    It has to happen before the first thread and before the workers start: they inherit it.
    """
    before = os.environ.get(ENTERED)
    if before:
        return before
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if uid == 0 else CLONE_NEWUSER | CLONE_NEWNET
    if libc.unshare(flags) != 0:
        return f"not cut off ({os.strerror(ctypes.get_errno())}); attempts of the tests' own processes fail them"
    if flags & CLONE_NEWUSER:  # the same user as before, without new rights
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    os.environ[ENTERED] = "nothing but lo, in a namespace of its own"
    return os.environ[ENTERED]


NETWORK = cut_off()
sys.addaudithook(watch)


def pytest_report_header() -> str:
    """Say what holds in this run."""
    return f"network: {NETWORK}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that tried, whatever became of the attempt."""
    yield
    _fail_if_tried()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """What a fixture tried counts as well."""
    yield
    _fail_if_tried()


def _fail_if_tried() -> None:
    if attempts:
        tried = ", ".join(dict.fromkeys(attempts))
        attempts.clear()
        pytest.fail(f"left loopback: {tried}", pytrace=False)
