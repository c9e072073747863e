"""Plain HTTP to a metadata service: whatever answers there, a whole answer in time or one error; and nothing heavy is loaded for it."""

import http.client
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import costguard
from costguard.answers import AnswerError, HttpAnswer, parse
from costguard.cloud.plain import Connection, SlowError, address, quoted, retry_after
from tests.clouds.wire import answer, bytewise, speaking, within

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
LONGEST = 1000


def ask(url: str, seconds: float = 5.0, step: float | None = None, target: str = "/") -> HttpAnswer:
    where = address(url)
    assert where
    with Connection(where[0], where[1], seconds, step) as connection:
        return connection.ask("GET", target, {"Metadata": "true"}, LONGEST)


@pytest.mark.parametrize(
    "pieces",
    [[answer(b"abcde")], bytewise(answer(b"abcde")), [CHUNKED], bytewise(CHUNKED), [b"HTTP/1.0 200 OK\r\n\r\nabcde"]],
    ids=["whole", "bytewise", "chunked", "chunked bytewise", "HTTP/1.0"],
)
def test_every_form_of_an_answer_is_read(pieces: Sequence[bytes]) -> None:
    """With a length, in chunks, and up to the end of the connection."""
    with speaking(pieces) as url:
        assert ask(url).body == b"abcde"


def test_what_is_asked() -> None:
    """Nothing that a service may refuse, as a mark of a proxy; the name of the host may be given instead of the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.listen()
        with Connection("127.0.0.1", listener.getsockname()[1], 5.0) as connection:
            connection.connect()
            other, _ = listener.accept()
            with other:
                other.sendall(answer(b"x", "Metadata-Flavor:  Google "))
                found = connection.ask("PUT", "/a?b=%20", {"Host": "metadata.google.internal", "X-TTL": "60"}, 10)
                lines = other.recv(65536).split(b"\r\n")
    assert lines == [
        b"PUT /a?b=%20 HTTP/1.1", b"Host: metadata.google.internal", b"Accept-Encoding: identity", b"X-TTL: 60", b"", b"",
    ]  # fmt: skip
    assert found.field("metadata-flavor") == "Google"
    assert found.field("Via") == ""


def test_the_host_has_its_port() -> None:
    """As a server behind a name of many needs it."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        port = listener.getsockname()[1]
        with Connection("::1", port, 5.0) as connection:
            connection.connect()
            other, _ = listener.accept()
            with other:
                other.sendall(answer(b"x"))
                connection.ask("GET", "/", {}, 10)
                assert f"Host: [::1]:{port}\r\n".encode() in other.recv(65536)


@pytest.mark.parametrize("head", [0, len(answer(b"x" * 40)) - 40], ids=["headers", "body"])
def test_a_slow_answer_ends_at_the_deadline(head: int) -> None:
    """Each byte comes in time; all of them would take seconds."""
    data = answer(b"x" * 40)
    with (
        within(2.0),
        speaking([data[:head], *bytewise(data[head:])], gap=0.1) as url,
        pytest.raises(SlowError),
    ):
        ask(url, seconds=0.4, step=0.3)


def test_silence_is_another_matter_than_slowness() -> None:
    """One step that takes too long: nobody answers."""
    with speaking([b"", b""], gap=1.0) as url, pytest.raises(TimeoutError) as caught:
        ask(url, seconds=5.0, step=0.2)
    assert not isinstance(caught.value, SlowError)


@pytest.mark.parametrize("seconds", [0.0, -0.5, -1.0, -7.0])
def test_whose_time_was_over_before_it_is_not_asked(seconds: float) -> None:
    """However little it was over: the one before it may have taken all of it."""
    with speaking([answer(b"abcde")]) as url, pytest.raises(SlowError, match="came too slowly"):
        ask(url, seconds=seconds, step=5.0)


@pytest.mark.parametrize(
    ("pieces", "words", "long"),
    [
        ([answer(b"proj", missing=2)], "in the middle of its answer", False),
        ([CHUNKED[:-7]], "in the middle of its answer", False),
        ([b""], "without an answer", False),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "does not speak HTTP", False),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nabcde"], "does not speak HTTP", False),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000], "does not speak HTTP", False),
        ([answer(b"x" * 5000)], "sends more than", True),
        ([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 500] * 4], "sends more than", True),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1f4\r\n" + b"x" * 500 + b"\r\n"] * 4], "sends more than", True),
    ],
)  # fmt: skip
def test_what_is_no_answer(pieces: Sequence[bytes], words: str, long: bool) -> None:
    """Half a name would be another name, and nothing fills the memory."""
    with speaking(pieces) as url, pytest.raises(AnswerError, match=words) as caught:
        ask(url)
    assert caught.value.long is long


@pytest.mark.parametrize(
    ("target", "headers"), [("/a b", {}), ("/a\r\nX: y", {}), ("x", {}), ("/", {"X": "a\r\nY: b"}), ("/\xe9", {})]
)
def test_nothing_is_asked_that_would_become_another_question(target: str, headers: dict[str, str]) -> None:
    """Refused before anybody is connected to."""
    with Connection("127.0.0.1", 9, 1.0) as connection, pytest.raises(AnswerError, match="cannot be asked"):
        connection.ask("GET", target, headers, LONGEST)


@given(
    some.integers(100, 599), some.binary(max_size=200), some.sampled_from(["length", "chunks", "end"]), some.booleans()
)
def test_the_standard_library_reads_the_same(status: int, body: bytes, form: str, closed: bool) -> None:
    """Of what a server of HTTP sends."""
    if status < 200:
        status += 100
    fields = {"length": f"Content-Length: {len(body)}\r\n", "chunks": "Transfer-Encoding: chunked\r\n", "end": ""}[form]
    sent = body
    if form == "chunks":
        cut = len(body) // 2
        sent = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (body[:cut], body[cut:]) if one) + b"0\r\n\r\n"
    raw = f"HTTP/1.1 {status} Some Words\r\nServer:  x\r\n{fields}\r\n".encode() + sent

    class Sent:
        def makefile(self, _mode: str) -> BytesIO:
            return BytesIO(raw)

    socket_like: Any = Sent()
    theirs = http.client.HTTPResponse(socket_like)
    theirs.begin()
    ours = parse(raw, closed=closed or form == "end", limit=LONGEST)
    assert ours
    assert (ours.status, ours.body, ours.field("server")) == (theirs.status, theirs.read(), theirs.getheader("Server"))


@given(some.binary(max_size=120))
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    """Never another exception, and never more than was asked for."""
    with suppress(AnswerError):
        found = parse(b"HTTP/1.1 200 OK\r\n" + data, closed=True, limit=50)
        assert found
        assert len(found.body) <= 50


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://169.254.169.254", ("169.254.169.254", 80, "")),
        ("HTTP://Metadata.Google.Internal:8080/a/b/", ("metadata.google.internal", 8080, "/a/b")),
        ("http://[fd00:ec2::254]:81/", ("fd00:ec2::254", 81, "")),
        ("http://localhost:/x", ("localhost", 80, "/x")),
        *((text, None) for text in (
            "", "http://", "https://x", "x:80", "http://x:99999", "http://x:0", "http://x/a b", "http://a@b", "http://x\n",
            "http://x/?q", "http://[::1", "http://x:8o/", "http://\u212a",
        )),
    ],
)  # fmt: skip
def test_addresses(text: str, found: tuple[str, int, str] | None) -> None:
    """Of plain HTTP alone, and nothing that would be read another way."""
    assert address(text) == found


def test_parts_of_a_path() -> None:
    """A tag's name has any signs, and stays one part."""
    assert quoted("team/a b?é~") == "team%2Fa%20b%3F%C3%A9~"


@pytest.mark.parametrize(("header", "seconds"), [("2", 2.0), ("", 0.0), ("-1", 0.0), ("inf", 0.0), ("Mon, 1 Jan", 0.0)])
def test_how_long_to_wait(header: str, seconds: float) -> None:
    """What is no number of seconds asks for nothing."""
    assert retry_after(header) == seconds


HEAVY = {
    "ssl",
    "http",
    "email",
    "urllib.parse",
    "ipaddress",
    "unicodedata",
    "threading",
    "random",
    "logging",
    "subprocess",
}
ONE_QUESTION = """\
import sys
from costguard.cloud.plain import Connection
with Connection("localhost", int(sys.argv[1]), 5.0) as connection:
    assert connection.ask("GET", "/", {}, 100).body == b"x"
print(*sorted(sys.modules))
"""


def test_a_question_loads_nothing_heavy() -> None:
    """Neither TLS nor the tables of Unicode that a name as text would load: this process stays beside a training job."""
    with speaking([answer(b"x")]) as url:
        argv = [sys.executable, "-S", "-c", ONE_QUESTION, url.rpartition(":")[2]]
        beside = {**os.environ, "PYTHONPATH": str(Path(costguard.__file__).parents[1])}
        done = subprocess.run(argv, env=beside, capture_output=True, text=True, timeout=30, check=True)
    assert not HEAVY & set(done.stdout.split())
