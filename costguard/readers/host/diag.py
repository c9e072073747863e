"""The TCP sockets of a network, asked of the kernel: /proc/net/tcp is text, of every socket in every state.

Sources: sock_diag(7); Linux, include/uapi/linux/inet_diag.h and net/ipv4/inet_diag.c (the little program that selects sockets).
"""

import errno
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from _socket import socket

PROTOCOL = 4  # NETLINK_SOCK_DIAG
ESTABLISHED, LISTENS = 1, 10  # tcp_states.h
_INFO = 2  # INET_DIAG_INFO, an attribute
_ACKED, _RECEIVED = 120, 128  # in tcp_info: bytes that the other end has taken, and that came from it

_SOCK_DIAG_BY_FAMILY, _DONE, _ERROR = 20, 3, 2
_HEADER, _REQUEST = Struct("=IHHII"), Struct("=BBBBI 48x")  # nlmsghdr, inet_diag_req_v2
_REQUEST_AND_DUMP = 0x301
_ANSWER = Struct("=IH")
_PORTS = Struct(">HH")  # at 4 of inet_diag_msg, which begins at 16
_OWNER = Struct("=II")  # uid and inode, at 64
_ATTRIBUTE, _COUNTED = Struct("=HH"), Struct("=QQ")
_MESSAGE_BYTES = 16 + 72
_ANSWER_BYTES = 1 << 16
_ANSWERS = 256
"""Answers to one question; more would be tens of thousands of sockets."""

_FAR = Struct("=HH BBH BB2xi4s BBH").pack(24, 1, 8, 16, 20, 2, 8, -1, b"\x7f\0\0\0", 1, 4, 8)
"""An attribute INET_DIAG_REQ_BYTECODE: if the other end is in 127.0.0.0/8 (also as IPv6 writes it) go on to the jump beyond the end,
which means no, else to the end, which means yes."""


class Socket(NamedTuple):
    """A TCP socket: addresses as the kernel has them, in 4 or 16 bytes."""

    state: int
    address: bytes
    port: int
    other: bytes
    other_port: int
    uid: int
    inode: int
    moved: int = 0
    """Bytes since its beginning, in both directions; where that was asked for."""


def ask(diag: "socket", family: int, *states: int, far: bool = False, counted: bool = False) -> list[Socket]:
    """The sockets of one family in these states. Raises OSError.

    ``far``: leave out those whose other end is in 127.0.0.0/8. ``counted``: with the bytes that each has moved.
    """
    wanted = 1 << _INFO - 1 if counted else 0
    body = _REQUEST.pack(family, 6, wanted, 0, sum(1 << state for state in states)) + (_FAR if far else b"")
    diag.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_AND_DUMP, 1, 0) + body)
    width = 4 if family == 2 else 16
    found: list[Socket] = []
    for _ in range(_ANSWERS):
        data = diag.recv(_ANSWER_BYTES)
        at = 0
        while at + 16 <= len(data):
            length, kind = _ANSWER.unpack_from(data, at)
            if kind == _DONE:
                return found
            if kind == _ERROR or length < _MESSAGE_BYTES or at + length > len(data):
                raise OSError(errno.EPROTO, "the kernel does not list sockets")
            port, other_port = _PORTS.unpack_from(data, at + 20)
            one, other = data[at + 24 : at + 24 + width], data[at + 40 : at + 40 + width]
            uid, inode = _OWNER.unpack_from(data, at + 80)
            moved = _moved(data, at + _MESSAGE_BYTES, at + length) if counted else 0
            found.append(Socket(data[at + 17], one, port, other, other_port, uid, inode, moved))
            at += (length + 3) & ~3
    raise OSError(errno.EPROTO, "the kernel lists too many sockets")


def _moved(data: bytes, at: int, end: int) -> int:
    """Bytes moved, from the attributes of one socket. Raises OSError if the kernel does not count them."""
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if kind == _INFO and length >= 4 + _RECEIVED + 8:
            return int(sum(_COUNTED.unpack_from(data, at + 4 + _ACKED)))
        at += max(4, (length + 3) & ~3)
    raise OSError(errno.EPROTO, "the kernel does not count what sockets move")
