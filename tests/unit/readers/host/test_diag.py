"""The kernel's answers about sockets, in every form that they may have; what is none of these is an error, never an empty list."""

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as some

from costguard.readers.host.diag import ESTABLISHED, LISTENS, Socket, ask

DONE, ERROR = struct.pack("=IHHIIi", 20, 3, 0, 1, 0, 0), struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -22)
INFO, MARK, SHUTDOWN = 2, 15, 8  # attributes: inet_diag.h
ONE = Socket(LISTENS, b"\x7f\0\0\1", 8080, b"\0\0\0\0", 0, 1000, 4711)
SIX = Socket(ESTABLISHED, bytes(range(16)), 22, bytes(range(16, 32)), 50000, 0, 9)


class Kernel:
    """A socket at whose other end the answers lie already."""

    def __init__(self) -> None:
        self.here, self.there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def ask(
        self, *answers: bytes, family: int = socket.AF_INET, far: bool = False, counted: bool = False
    ) -> list[Socket]:
        for answer in answers:
            self.there.send(answer)
        return ask(self.here, family, LISTENS, ESTABLISHED, far=far, counted=counted)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    made = Kernel()
    with made.here, made.there:
        yield made


def attribute(kind: int, data: bytes) -> bytes:
    """One, and what fills it up to a multiple of four."""
    length = 4 + len(data)
    return struct.pack("=HH", length, kind) + data + bytes(-length % 4)


def info(acked: int, received: int, size: int = 232) -> bytes:
    """The counters as the kernel keeps them; other numbers stand around them."""
    data = bytearray(b"\xee" * 232)
    struct.pack_into("=QQ", data, 120, acked, received)
    return attribute(INFO, bytes(data[:size]))


def said(one: Socket, *attributes: bytes, padding: int = 0) -> bytes:
    """As the kernel tells of one socket: inet_diag_msg."""
    rest = b"".join(attributes)
    length = 16 + 72 + len(rest)
    body = struct.pack("=BBBB", 2, one.state, 9, 9) + struct.pack(">HH", one.port, one.other_port)
    body += one.address.ljust(16, b"\xaa") + one.other.ljust(16, b"\xbb") + b"\xcc" * 12
    body += b"\xdd" * 12 + struct.pack("=II", one.uid, one.inode)
    return struct.pack("=IHHII", length, 20, 2, 1, 0) + body + rest + bytes(-length % 4 + padding)


def test_what_is_asked(kernel: Kernel) -> None:
    """Of TCP, in these states alone; with what they moved and without this machine's own where that is wanted."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for far in (False, True):
            for counted in (False, True):
                assert kernel.ask(DONE, family=family, far=far, counted=counted) == []
                asked = kernel.there.recv(4096)
                head, request, program = asked[:16], asked[16:72], asked[72:]
                assert struct.unpack("=IHHII", head) == (len(asked), 20, 0x301, 1, 0)
                assert struct.unpack("=BBBBI", request[:8]) == (family, 6, 2 if counted else 0, 0, 1 << 10 | 1 << 1)
                assert request[8:] == bytes(48)
                assert len(program) == (24 if far else 0)


@pytest.mark.parametrize(
    "answers",
    [
        [said(ONE) + DONE],
        [said(ONE), DONE],
        [b"", said(ONE), DONE],
        [said(ONE), b"\0" * 15, DONE],
        [said(ONE) + b"\0" * 15, DONE],
        [said(ONE, attribute(SHUTDOWN, b"\1")) + DONE],
        [said(ONE, struct.pack("=HH", 5, SHUTDOWN) + b"\1") + DONE],
        [said(ONE, info(7, 8)) + DONE],
    ],
)
def test_one_socket_in_every_form(kernel: Kernel, answers: list[bytes]) -> None:
    """Alone or with the end in one message; what is told beside it is passed over."""
    answers = [answer for answer in answers if answer]
    assert kernel.ask(*answers) == [ONE]


def test_many_in_their_order(kernel: Kernel) -> None:
    """Of several messages, each with several."""
    many = [ONE._replace(port=number, inode=number + 1, uid=number % 3) for number in range(1, 200)]
    parts = [b"".join(map(said, many[at : at + 40])) for at in range(0, 200, 40)]
    assert kernel.ask(*parts, DONE) == many


def test_addresses_of_ipv6_are_whole(kernel: Kernel) -> None:
    """And those of IPv4 have four bytes, whatever stands behind them."""
    assert kernel.ask(said(SIX) + DONE, family=socket.AF_INET6) == [SIX]
    assert kernel.ask(said(SIX) + DONE, family=socket.AF_INET) == [
        SIX._replace(address=SIX.address[:4], other=SIX.other[:4])
    ]


def short(by: int) -> bytes:
    """A message that says it is so much shorter than any."""
    return struct.pack("=I", 88 - by) + said(ONE)[4:]


@pytest.mark.parametrize(
    "answer",
    [
        ERROR,
        said(ONE) + ERROR,
        short(1),
        short(88),
        short(-1),  # it ends before it says it does
        said(ONE)[:-1],
        said(ONE)[:16],
        said(ONE) + said(ONE)[:60],
    ],
)
def test_what_is_no_answer(kernel: Kernel, answer: bytes) -> None:
    """Nobody listens there would be something else."""
    with pytest.raises(OSError, match="the kernel does not list sockets"):
        kernel.ask(answer, DONE)


@pytest.mark.parametrize(("messages", "whole"), [(255, True), (256, False)])
def test_an_answer_without_end_is_given_up(kernel: Kernel, messages: int, whole: bool) -> None:
    """There are more sockets than one look can go through."""
    kernel.there.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    answers = [*([said(ONE)] * messages), DONE]
    if whole:
        assert len(kernel.ask(*answers)) == messages
        return
    with pytest.raises(OSError, match="too many sockets"):
        kernel.ask(*answers)


@given(
    some.integers(0, 2**62),
    some.integers(0, 2**62),
    some.lists(some.tuples(some.integers(3, 40), some.binary(max_size=9))),
)
def test_what_a_socket_moved_is_found_among_its_attributes(
    acked: int, received: int, others: list[tuple[int, bytes]]
) -> None:
    """Wherever it stands: what its other end has taken, and what came from it."""
    before = [attribute(kind, data) for kind, data in others]
    kernel = Kernel()
    with kernel.here, kernel.there:
        found = kernel.ask(
            said(ONE, *before, info(acked, received), *before) + said(SIX, info(1, 2)) + DONE, counted=True
        )
    assert [one.moved for one in found] == [acked + received, 3]


@pytest.mark.parametrize(
    ("attributes", "moved"),
    [
        ([info(5, 7, size=136)], 12),
        ([info(5, 7, size=140)], 12),
        ([attribute(INFO, b""), info(5, 7)], 12),
        ([struct.pack("=HH", 0, 9), info(5, 7)], 12),
        ([struct.pack("=HH", 4, INFO), info(5, 7)], 12),
        ([info(5, 7), info(1, 1)], 12),
        ([info(0, 0)], 0),
        ([], None),
        ([info(5, 7, size=135)], None),
        ([info(5, 7, size=104)], None),
        ([attribute(MARK, b"1234")], None),
        ([attribute(MARK, bytes(200))], None),
        ([info(5, 7)[:3]], None),
    ],
)
def test_a_kernel_that_does_not_count_says_so(kernel: Kernel, attributes: list[bytes], moved: int | None) -> None:
    """An older one has less to tell: that is no socket at rest."""
    answer = said(ONE, *attributes) + DONE
    if moved is None:
        with pytest.raises(OSError, match="does not count"):
            kernel.ask(answer, counted=True)
    else:
        assert [one.moved for one in kernel.ask(answer, counted=True)] == [moved]
    assert [one.moved for one in kernel.ask(answer)] == [0], "nor is it asked"


def test_one_without_counters_ends_the_question(kernel: Kernel) -> None:
    """Though others have them: a session that moves bytes may be that one."""
    with pytest.raises(OSError, match="does not count"):
        kernel.ask(said(ONE, info(1, 2)) + said(ONE) + DONE, counted=True)
