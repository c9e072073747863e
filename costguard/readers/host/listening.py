"""Who listens on which port of this machine, and sockets in the network of another process.

The kernel is asked for its listening sockets alone: reading /proc/net/tcp walks through its whole table of connections, which
takes milliseconds on a machine with much memory. Where the kernel cannot be asked like that, /proc is read.
Sources: sock_diag(7), proc_pid_net(5) (``tcp``), setns(2), network_namespaces(7).
"""

import os
import sys
from _socket import AF_INET, AF_INET6, AF_NETLINK, SOCK_NONBLOCK, SOCK_RAW, socket
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from costguard.readers.host import diag

if TYPE_CHECKING:
    import socket as library

Made = TypeVar("Made", bound=socket)

_CLONE_NEWNET = 0x40000000
_MAPPED = bytes(10) + b"\xff\xff"


class Listener(NamedTuple):
    """A listening TCP socket; ``address`` is where this machine reaches it, empty where it listens on no loopback address."""

    address: str
    port: int
    uid: int
    inode: int


def listeners(proc: str, beside: int = 0) -> list[Listener]:
    """The listening sockets in the network of a process (0: of this one), those of IPv4 first. Raises OSError.

    This takes a tenth of a millisecond, too much for every look.
    """
    try:
        os.stat(f"{proc}/{beside or 'self'}/ns/net")  # a recorded /proc has none
        with netlink_socket(proc, beside) as netlink:
            return _asked(netlink, AF_INET) + _asked(netlink, AF_INET6)
    except OSError:  # a kernel without it, a sandbox, or that
        pass
    table = f"{proc}/{beside or 'self'}/net"
    found = _read(f"{table}/tcp")
    try:
        return found + _read(f"{table}/tcp6")
    except FileNotFoundError:  # a kernel without IPv6
        return found


def network(proc: str, pid: int) -> str:
    """The name of the network in which a process is; empty for this process's own, or where it cannot be seen."""
    try:
        found = os.readlink(f"{proc}/{pid}/ns/net")
        return "" if found == os.readlink("/proc/self/ns/net") else found
    except OSError:
        return ""


def make_socket(family: int, kind: int, *, proc: str = "/proc", beside: int = 0) -> "library.socket":
    """A socket that never waits, in the network of a process (0: of this one): it stays where it was made. Raises OSError."""
    import socket as library  # here: it is large, and on most machines nobody is asked

    return _made(library.socket, family, kind, 0, proc, beside)


class NetlinkSocket(socket):
    """A socket to the kernel itself, and a context that closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def netlink_socket(proc: str, beside: int = 0) -> NetlinkSocket:
    """What `diag.ask` asks for the sockets in the network of a process (0: of this one). Raises OSError."""
    return _made(NetlinkSocket, AF_NETLINK, SOCK_RAW, diag.PROTOCOL, proc, beside)


def sockets_beside(proc: str, pid: int, *, far: bool = False, counted: bool = False) -> list[diag.Socket]:
    """The connections in the network of a process, and what listens there; see `diag.ask`. Raises OSError."""
    theirs, own = os.stat(f"{proc}/{pid}/ns/net"), os.stat("/proc/self/ns/net")
    with netlink_socket(proc, 0 if theirs.st_ino == own.st_ino else pid) as netlink:
        return [
            row
            for family in (AF_INET, AF_INET6)
            for row in diag.ask(netlink, family, diag.ESTABLISHED, diag.LISTENS, far=far, counted=counted)
        ]


def _made(make: type[Made], family: int, kind: int, protocol: int, proc: str, beside: int) -> Made:
    """Raises OSError."""
    kind |= SOCK_NONBLOCK
    if not beside:
        return make(family, kind, protocol)
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(f"{proc}/{beside}/ns/net")
        try:
            return make(family, kind, protocol)
        finally:
            _return(own)
    finally:
        os.close(own)


def _return(own: int) -> None:
    """Return to this process's own network. If that fails the process ends: all that it read would be about another network."""
    try:
        _enter(f"/proc/self/fd/{own}")
    except OSError as error:
        raise SystemExit("cannot return to the network of this machine") from error


def _enter(path: str) -> None:
    """Make this network the process's own. Raises OSError."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET):
            failed = ctypes.get_errno()
            raise OSError(failed, os.strerror(failed))
    finally:
        os.close(descriptor)


def _asked(netlink: socket, family: int) -> list[Listener]:
    """Ask the kernel for the listeners of one family. Raises OSError."""
    rows = diag.ask(netlink, family, diag.LISTENS)
    return [Listener(_reached(row.address), row.port, row.uid, row.inode) for row in rows]


def _read(path: str) -> list[Listener]:
    """Read the listeners from a table in /proc. Raises OSError."""
    found = []
    with open(path, encoding="ascii", errors="replace") as file:
        next(file, "")
        for line in file:
            fields = line.split()
            if len(fields) < 10 or int(fields[3], 16) != diag.LISTENS:  # listening ones stand first
                break
            address, port = end_of(fields[1])
            found.append(Listener(_reached(address), port, int(fields[7]), int(fields[9])))
    return found


def end_of(text: str) -> tuple[bytes, int]:
    """Address and port of one end of a connection, as the kernel's tables write it. Raises ValueError."""
    host, _, port = text.partition(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    return b"".join(words), int(port, 16)


def _reached(address: bytes) -> str:
    """How a socket that is bound to this address is reached over loopback."""
    if address.startswith(_MAPPED) and len(address) == 16:
        address = address[12:]
    if not any(address):
        return "127.0.0.1" if len(address) == 4 else "::1"
    if len(address) == 4:
        return ".".join(map(str, address)) if address[0] == 127 else ""
    return "::1" if address == bytes(15) + b"\x01" else ""
