"""One page of a server on this machine: real sockets, virtual time. No look ever waits."""

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator

import pytest
import trustme

from costguard.answers import parse
from costguard.readers.host import page as module
from costguard.readers.host.page import Fetched, Page, PageError, is_loopback
from tests.unit.readers.host.servers import WITHIN, Script, Server, flood, page, raw, reset, silence
from tests.unit.readers.host.starved import starved

Serve = Callable[[Script], Server]
NOW = 1000.0
LOOK_SECONDS = 2.0
"""A look that waits for a server waits longer than that."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[Server] = []

    def start(script: Script) -> Server:
        made.append(Server(script))
        return made[-1]

    yield start
    for one in made:
        one.close()


def asked(one: Page, now: float = NOW) -> Fetched:
    """Ask, and go on whenever something comes."""
    one.ask(now)
    end = time.monotonic() + WITHIN
    while (answer := one.look(now)) is None:
        assert time.monotonic() < end
        select.select([one.fileno()], [], [], WITHIN)
    return answer


def trouble(one: Page, now: float = NOW) -> str:
    with pytest.raises(PageError) as error:
        asked(one, now)
    assert one.fileno() == -1
    assert one.asked is None
    return str(error.value)


def test_a_page_is_read_over_several_looks(serve: Serve) -> None:
    """Nothing is waited for: the first look sends, a later one has the answer, with the moment of its question."""
    server = serve(page(b"hello"))
    one = Page("127.0.0.1", server.port, "/x?y=1", header="Authorization: token secret")
    assert one.look(NOW) is None
    one.ask(NOW)
    assert one.asked == NOW
    assert one.look(NOW) is None
    select.select([one.fileno()], [], [], WITHIN)
    assert one.look(NOW + 10.0) == Fetched(200, b"hello", NOW)
    assert one.look(NOW + 10.0) is None
    head = server.requests[0].split(b"\r\n")
    assert head[0] == b"GET /x?y=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{server.port}".encode() in head
    assert b"Authorization: token secret" in head
    assert b"Connection: close" in head


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        (page(b"", "204 No Content"), (204, b"")),
        (page(b"no", "403 Forbidden"), (403, b"no")),
        (page(b"", "302 Found", "Location: http://127.0.0.1:9/elsewhere"), (302, b"")),
        (raw(b"HTTP/1.0 200 OK\r\n\r\nuntil the end"), (200, b"until the end")),
        (raw(b"HTTP/1.1 200 OK\r\ntransfer-ENCODING: Chunked\r\n\r\n4\r\nab\r\n\r\n3;x=1\r\ncde\r\n0\r\n\r\n"), (200, b"ab\r\ncde")),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore"), (200, b"ok")),
    ],
)  # fmt: skip
def test_what_servers_answer(serve: Serve, script: Script, answer: tuple[int, bytes]) -> None:
    """Any length, any status; a redirect is an answer and is not followed."""
    found = asked(Page("127.0.0.1", serve(script).port, "/"))
    assert (found.status, found.body) == answer


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (raw(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not speak HTTP"),
        (raw(b"\x15\x03\x01\x00\x02\x02\x46"), "does not speak HTTP"),
        (raw(b"HTTP/1.1 twohundred OK\r\n\r\n"), "does not speak HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), "does not speak HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "does not speak HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n"), "sends more than 1024 kB"),
        (raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10000, close=False), "does not speak HTTP"),
        (raw(b""), "closes the connection without an answer"),
        (reset, "closes the connection without an answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), "closes the connection in the middle of its answer"),
        (page(b"x" * ((1 << 20) + 1)), "sends more than 1024 kB"),
        (flood(b"HTTP/1.1 200 OK\r\n\r\n"), "sends more than 1024 kB"),
        (flood(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n"), "sends more than 1024 kB"),
        (flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6400000\r\n"), "sends more than 1024 kB"),
        (flood(b""), "does not speak HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 5000), "sends its page in too many pieces"),
    ],
)  # fmt: skip
def test_what_is_no_page(serve: Serve, script: Script, words: str) -> None:
    """Strangers, liars and floods: told in words, the connection closed, and nothing kept of it."""
    begun = time.process_time()
    assert trouble(Page("127.0.0.1", serve(script).port, "/")) == words
    assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("drips", [False, True])
def test_a_server_that_does_not_answer(serve: Serve, drips: bool) -> None:
    """Its time is up after 30 s; no look has waited, and one that drips wakes nobody for ever."""
    ended = False

    def drip(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        while not ended:
            connection.sendall(b"x")
            time.sleep(0.001)

    one = Page("127.0.0.1", serve(drip if drips else silence).port, "/")
    one.ask(NOW)
    one.look(NOW)
    turns = 0
    while drips and (fd := one.fileno()) >= 0:
        select.select([fd], [], [], WITHIN)
        assert one.look(NOW + 1.0) is None
        turns += 1
    assert turns <= module.TURNS
    for now in (NOW + 10.0, NOW + 29.0):
        begun = time.monotonic()
        assert one.look(now) is None
        assert time.monotonic() - begun < LOOK_SECONDS
    ended = True
    with pytest.raises(PageError, match="does not answer"):
        one.look(NOW + 30.0)


def test_an_answer_that_lay_there_through_a_suspension_counts(serve: Serve) -> None:
    """What has come is read before the time is judged."""
    one = Page("127.0.0.1", serve(page(b"ok")).port, "/")
    one.ask(NOW)
    one.look(NOW)
    select.select([one.fileno()], [], [], WITHIN)
    assert one.look(NOW + 3600.0) == Fetched(200, b"ok", NOW)


def test_a_page_that_cannot_be_asked_for_want_of_files_is_told(serve: Serve) -> None:
    """And asked again."""
    one = Page("127.0.0.1", serve(page(b"ok")).port, "/")
    with starved():
        assert trouble(one) == "cannot be asked (Too many open files)"
    assert asked(one).body == b"ok"


def test_nobody_listens() -> None:
    """A refused connection is told apart: the server may have ended."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(PageError, match="refuses the connection") as error:
        asked(Page("127.0.0.1", port, "/"))
    assert error.value.refused


def test_a_server_too_busy_to_take_the_connection_gets_no_request_yet() -> None:
    """The kernel goes on connecting; whether the caller refuses is asked once the connection stands."""
    refused: list[str] = []

    def refuse() -> str:
        refused.append("asked")
        return ""

    with socket.create_server(("127.0.0.1", 0), backlog=0) as busy, contextlib.ExitStack() as waiting:
        for _ in range(3):  # so many that the kernel takes no more
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(busy.getsockname())
        asking = Page("127.0.0.1", busy.getsockname()[1], "/", refuse=refuse)
        asking.ask(NOW)
        assert asking.look(NOW) is None
        assert asking.look(NOW + 10.0) is None
        with pytest.raises(PageError, match="does not answer"):
            asking.look(NOW + 30.0)
    assert refused == []


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_is_kept_and_renewed(serve: Serve, reset: bool) -> None:
    """One connection carries many answers; a server that has closed or reset it meanwhile is connected to anew, unnoticed."""
    server = serve(page(b"ok"))
    one = Page("127.0.0.1", server.port, "/", keep=True)
    for second in range(3):
        assert asked(one, NOW + second).asked == NOW + second
    assert server.connections == 1
    assert b"Connection: keep-alive" in server.requests[0]
    server.hang_up(reset=reset)
    assert one._socket is not None
    select.select([one._socket], [], [], WITHIN)  # until its end has come
    assert asked(one).status == 200
    assert server.connections == 2


def test_a_kept_connection_that_ends_under_the_request_is_tried_once_more(serve: Serve) -> None:
    """The server gives it up at that very moment: that is no failure of the server."""
    server = serve(page(b"ok"))
    one = Page("127.0.0.1", server.port, "/", keep=True)
    asked(one)
    answers = server.script
    server.script = raw(b"")

    def once(connection: socket.socket, request: bytes) -> None:
        server.script = answers
        raw(b"")(connection, request)

    server.script = once
    assert asked(one).body == b"ok"
    server.script = raw(b"")
    assert trouble(one) == "closes the connection without an answer"


def test_nothing_is_sent_to_whom_the_caller_refuses(serve: Serve) -> None:
    """The connection stands, and not a byte of the request, which may hold a token, is sent."""
    server = serve(page(b"ok"))
    one = Page("127.0.0.1", server.port, "/", header="Authorization: token secret", refuse=lambda: "is another user's")
    assert trouble(one) == "is another user's"
    assert server.requests == []
    assert "secret" not in repr(one)


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "localhost", "8.8.8.8", "::", "::2", "0.0.0.0", "", "127.0.0.1.nip.io"]
)
def test_other_addresses_are_not_asked(address: str) -> None:
    """Only numeric loopback addresses; a name could lead anywhere."""
    assert not is_loopback(address)
    with pytest.raises(ValueError, match="this machine"):
        Page(address, 80, "/")


def test_loopback_has_two_families(serve: Serve) -> None:
    """An IPv6 server is asked by its own address."""
    assert is_loopback("127.8.9.10")
    assert is_loopback("::1")
    server = Server(page(b"six"), address="::1")
    assert asked(Page("::1", server.port, "/")).body == b"six"
    assert f"Host: [::1]:{server.port}".encode() in server.requests[0]
    server.close()


def test_a_server_with_a_certificate_of_its_own_is_asked_too() -> None:
    """Notebooks on rented machines often have one; the handshake goes on over several looks, and the connection is kept."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("ann.example.org").configure_cert(context)
    server = Server(page(b"secret"), tls=context)
    one = Page("127.0.0.1", server.port, "/", tls=True, keep=True)
    assert asked(one).body == b"secret"
    assert asked(one).body == b"secret"
    assert server.connections == 1
    server.hang_up()
    assert asked(one).body == b"secret"
    one.close()
    server.close()


def test_one_that_does_not_speak_tls_gets_no_request() -> None:
    """Nothing is sent in the clear instead."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = Page("127.0.0.1", listener.getsockname()[1], "/", tls=True, header="Authorization: token secret")
        one.ask(NOW)
        one.look(NOW)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"220 mail.example.org ESMTP\r\n")
            select.select([one.fileno()], [], [], WITHIN)
            with pytest.raises(PageError, match="does not speak TLS"):
                one.look(NOW)
            assert b"secret" not in connection.recv(65536)


@pytest.mark.parametrize("size", range(1, 60))
def test_an_answer_may_come_in_any_pieces(size: int) -> None:
    """Whatever part of it has come, it is either complete or not."""
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    found = parse(whole[:size], closed=False, limit=100)
    assert (found and found[:3]) == ((200, b"ab", True) if size >= len(whole) else None)
