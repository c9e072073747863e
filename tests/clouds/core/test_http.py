"""One deadline for a whole answer, and no answer that is shorter than it says."""

import http.client
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest

from costguard.cloud.http import DeadlineConnection, _Body, whole
from costguard.cloud.plain import SlowError
from tests.clouds.wire import answer, bytewise, speaking


def get(url: str, seconds: float = 0.5, longest: int = 1000) -> bytes:
    where = urlsplit(url)
    connection = DeadlineConnection(str(where.hostname), int(where.port or 0), seconds)
    try:
        connection.request("GET", "/")
        return whole(connection.getresponse(), longest)
    finally:
        connection.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "pieces",
    [[answer(b"abcde")], bytewise(answer(b"abcde")), [CHUNKED], bytewise(CHUNKED), [b"HTTP/1.0 200 OK\r\n\r\nabcde"]],
    ids=["whole", "bytewise", "chunked", "chunked bytewise", "HTTP/1.0"],
)
def test_every_form_of_an_answer_is_read(pieces: Sequence[bytes]) -> None:
    """With a length, in chunks, and up to the end of the connection."""
    with speaking(pieces) as url:
        assert get(url) == b"abcde"


@pytest.mark.parametrize("head", [0, len(answer(b"x" * 40)) - 40], ids=["headers", "body"])
def test_a_slow_answer_ends_at_the_deadline(head: int) -> None:
    """Each byte comes in time; all of them would take seconds."""
    data = answer(b"x" * 40)
    began = time.monotonic()
    with speaking([data[:head], *bytewise(data[head:])], gap=0.1) as url, pytest.raises(TimeoutError):
        get(url, seconds=0.4)
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize("seconds", [0.0, -0.5, -1.0, -7.0])
def test_nothing_is_read_after_the_deadline(seconds: float) -> None:
    """Not even what is there already."""
    here, there = socket.socketpair()
    with here, there, _Body(here, time.monotonic() + seconds) as body:
        there.sendall(b"x")
        with pytest.raises(SlowError):
            body.readinto(bytearray(1))


def test_each_read_has_what_is_left_of_the_time() -> None:
    """The connection's own limit is for each of its steps, which together may be many times that."""
    here, there = socket.socketpair()
    with here, there, _Body(here, time.monotonic() + 50.0) as body:
        here.settimeout(900.0)
        there.sendall(b"xy")
        for _ in range(2):
            assert body.readinto(bytearray(1)) == 1
            left = here.gettimeout()
            assert left is not None
            assert 0.0 < left <= 50.0
            here.settimeout(900.0)


def test_an_answer_that_was_cut_is_none() -> None:
    """Half a name would be another name."""
    with speaking([answer(b"proj", missing=2)]) as url, pytest.raises(http.client.IncompleteRead):
        get(url)


def test_an_answer_without_an_end_is_cut() -> None:
    """It never fills the memory."""
    with speaking([answer(b"x" * 5000)]) as url, pytest.raises(http.client.IncompleteRead):
        get(url, longest=100)
