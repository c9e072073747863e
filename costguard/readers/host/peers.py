"""Which processes talk to other hosts as the ranks of one job do: over lasting connections that belong to no common service.

The connections of a process are those of its own network whose sockets it has open. The kernel is asked for them, as its tables in
/proc take milliseconds where there are many. Sources: proc_pid_net(5) (``tcp``), proc_pid_fd(5), the kernel's networking/proc_net_tcp.
"""

import sys
from collections.abc import Iterable
from typing import NamedTuple

from costguard.readers.host import diag
from costguard.readers.host.listening import end_of, sockets_beside
from costguard.readers.host.text import read

_ESTABLISHED, _LISTENS = b"01", b"0A"
_TABLE_BYTES = 1 << 20  # some 7,000 connections
_PRIVILEGED = 1024

SERVICES = frozenset((
    1433, 1521, 1883, 2049, 2181, 2375, 2376, 2379, 3000, 3128, 3306, 3307, 4000, 4040, 4222, 4317, 4318, 5000, 5001, 5044,
    5432, 5433, 5671, 5672, 6006, 6333, 6334, 6379, 6380, 6432, 6443, 7077, 7474, 7687, 7860, 7861, 8000, 8001, 8002, 8003,
    8020, 8080, 8081, 8086, 8088, 8123, 8125, 8126, 8188, 8200, 8265, 8443, 8500, 8501, 8786, 8787, 8883, 8888, 8889, 8890,
    8983, 9000, 9001, 9042, 9090, 9091, 9092, 9093, 9094, 9100, 9200, 9300, 9400, 9440, 9500, 9866, 9870, 9999, 10001, 10250,
    10255, 11211, 11434, 15672, 16686, 18080, 19530, 23333, 26379, 27017, 27018, 27019, 28015, 30000, 33060, 50051, 61616,
))  # fmt: skip
"""Ports, besides the privileged ones, where databases, stores, caches, proxies, pages and inference servers listen."""

_LOCAL_BRIDGES = (b"docker", b"br-", b"cni", b"virbr", b"lxdbr", b"lxcbr", b"podman", b"incusbr")


class _End(NamedTuple):
    """A connection, or a listening socket: address and port of this end and of the other one."""

    host: int
    port: int
    other: int
    other_port: int
    inode: int


def to_other_hosts(proc: str, pid: int) -> dict[int, int]:
    """The connections to other hosts in the network of this process, without those of common services, by inode. Raises OSError.

    Each has the local port if the other host opened it, as the clients of a server or a monitor do, too; 0 if this machine
    opened it.
    """
    connected, served = _sockets(proc, pid)
    own = {end.host for end in connected}
    near = _near(proc)
    found: dict[int, int] = {}
    for host, port, other, other_port, inode in connected:
        if (
            other in own
            or _is_loopback(other)
            or any(other & mask == network for network, mask in near if host >> 32 == 0)
        ):
            continue
        service = port if port in served else other_port
        if service >= _PRIVILEGED and service not in SERVICES:
            found[inode] = port if port in served else 0
    return found


def _sockets(proc: str, pid: int) -> tuple[list[_End], set[int]]:
    """The connections in the network of a process, and the ports on which something listens there. Raises OSError."""
    try:
        return _asked(proc, pid)
    except OSError:  # a recorded /proc, another network that this process may not enter, a kernel without it
        return _read(proc, pid)


def _asked(proc: str, pid: int) -> tuple[list[_End], set[int]]:
    """Ask the kernel, which leaves out what stays on this machine. Raises OSError."""
    rows = sockets_beside(proc, pid, far=True)
    connected = [
        _End(_number(row.address), row.port, _number(row.other), row.other_port, row.inode)
        for row in rows
        if row.state == diag.ESTABLISHED
    ]
    return connected, {row.port for row in rows if row.state == diag.LISTENS}


def _read(proc: str, pid: int) -> tuple[list[_End], set[int]]:
    """Read the same out of the tables of /proc. Raises OSError."""
    rows = []
    for table in ("tcp", "tcp6"):
        try:
            rows += [row.split() for row in _table(f"{proc}/{pid}/net/{table}")]
        except FileNotFoundError:
            if table == "tcp":
                raise
    rows = [row for row in rows if len(row) > 10]
    connected = [_End(*_end(row[1]), *_end(row[2]), int(row[9])) for row in rows if row[3] == _ESTABLISHED]
    return connected, {_end(row[1])[1] for row in rows if row[3] == _LISTENS}


def _table(path: str) -> Iterable[bytes]:
    return read(path, _TABLE_BYTES).splitlines()[1:]


def _end(text: bytes) -> tuple[int, int]:
    """Address and port of one end."""
    address, port = end_of(text.decode(errors="replace"))
    return _number(address), port


def _number(address: bytes) -> int:
    """One of IPv4 as a number of 32 bits, also where it is written as IPv6."""
    number = int.from_bytes(address, "big")
    if len(address) > 4:
        return number & 0xFFFFFFFF if number >> 32 == 0xFFFF else number | 1 << 128
    return number


def _is_loopback(address: int) -> bool:
    return address >> 24 == 127 or address == (1 << 128) | 1


def _near(proc: str) -> list[tuple[int, int]]:
    """The networks of this machine's own containers: another host is never there."""
    found = []
    try:
        rows = [row.split() for row in _table(f"{proc}/1/net/route")]
    except OSError:
        return []
    for row in rows:
        if len(row) > 7 and row[0].startswith(_LOCAL_BRIDGES):
            network, mask = (int.from_bytes(int(row[n], 16).to_bytes(4, sys.byteorder), "big") for n in (1, 7))
            if mask:
                found.append((network, mask))
    return found
