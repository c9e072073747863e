"""The record of an incident reaches a real HTTP receiver and a real syslog server, or the words say why not."""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from costguard import record_address
from costguard.actions import sink
from tests.forked import Forked

RECORD = {"incident": "boot-i1", "machine": "gpu node", "action": "terminate"}


class Receiver(ThreadingHTTPServer):
    """Answers with the scripted codes, then 204; keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.codes: list[int] = []
        self.got: list[tuple[str, str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.command, self.path, dict(self.headers), body))
        code = self.server.codes.pop(0) if self.server.codes else 204
        if code == 0:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(code)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PUT = do_GET = _take

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_record_arrives_once_as_json(receiver: Receiver, tmp_path: Path) -> None:
    """With the token of a file, which stands nowhere else."""
    (tmp_path / "token").write_text("s3cret-value\n")
    settings = {"url": receiver.url, "token_file": str(tmp_path / "token")}
    (found,) = sink.deliver(settings, RECORD, 10.0)
    assert found == sink.SinkOutcome("url", "", "HTTP 204")
    ((method, path, headers, body),) = receiver.got
    assert (method, path, json.loads(body)) == ("POST", "/hook", RECORD)
    assert headers["Authorization"] == "Bearer s3cret-value"
    assert headers["Content-Type"] == "application/json"
    assert "s3cret" not in str(found)


@pytest.mark.parametrize(
    ("end", "path"),
    [
        ("/?sig=a%2Fb", r"/hook/m%2F1/boot-i1/boot-a1-prepared-\d{8}T\d{6}\.\d{3}Z\.json\?sig=a%2Fb"),
        ("/{instance}/{step}/{attempt}?sig=x", r"/hook/m%2F1/prepared/boot-a1\?sig=x"),
        ("/{step}-{time}?key={instance}", r"/hook/prepared-\d{8}T\d{6}\.\d{3}Z\?key=m%2F1"),
    ],
)
def test_an_object_gets_a_name_of_its_own(receiver: Receiver, end: str, path: str) -> None:
    """Appended to a folder, or where the owner wants it; the query, which may be a signature, stays."""
    record = RECORD | {"instance": "m/1", "attempt": "boot-a1", "step": "prepared"}
    (found,) = sink.deliver({"url": receiver.url + end, "method": "PUT"}, record, 10.0)
    assert not found.trouble
    ((method, asked, headers, _),) = receiver.got
    assert (method, headers["If-None-Match"]) == ("PUT", "*")
    assert re.fullmatch(path, asked), asked


@pytest.mark.parametrize(
    "end",
    [
        "",
        "?sig=abc",
        "/x.json",
        "/{instance}/{incident}",
        "/{instance}/{attempt}",
        "/{step}/{attempt}",
        "/{name}/",
        "/{step",
    ],
)
def test_an_address_that_would_overwrite_gets_nothing(receiver: Receiver, end: str) -> None:
    """It is no sink at all, and the words show the right spelling."""
    settings = {"url": receiver.url + end, "method": "PUT"}
    (found,) = sink.deliver(settings, RECORD, 10.0)
    assert "{step}" in found.trouble
    assert record_address.outlives(settings) is False
    assert record_address.outlives({**settings, "method": "POST"}) is True
    assert record_address.outlives({**settings, "syslog": "h:1"}) is True
    assert receiver.got == []


def test_a_name_that_is_taken_keeps_what_it_has(receiver: Receiver) -> None:
    """At the first try it is somebody else's, and asking again would not change that; a webhook's own word is no such thing."""
    receiver.codes = [412]
    (found,) = sink.deliver({"url": f"{receiver.url}/", "method": "PUT"}, RECORD, 10.0)
    assert (found.trouble, len(receiver.got)) == (
        "the sink already has a different record with this name, which is not overwritten",
        1,
    )
    receiver.codes = [412]
    (found,) = sink.deliver({"url": receiver.url}, RECORD, 10.0)
    assert (found.trouble, len(receiver.got)) == ("the sink answered HTTP 412", 2)


def test_a_post_goes_where_it_always_went(receiver: Receiver) -> None:
    """Nothing of the address is filled in, and no condition is sent."""
    (found,) = sink.deliver({"url": receiver.url + "/", "method": "POST"}, RECORD, 10.0)
    ((method, path, headers, _),) = receiver.got
    assert (found.trouble, method, path, "If-None-Match" in headers) == ("", "POST", "/hook/", False)


@pytest.mark.parametrize("codes", [[503], [0], [500, 429]])
def test_a_technical_failure_is_tried_again(receiver: Receiver, codes: list[int]) -> None:
    """Overload, an error inside, a connection that breaks."""
    receiver.codes = list(codes)
    (found,) = sink.deliver({"url": receiver.url}, RECORD, 10.0)
    assert not found.trouble
    assert len(receiver.got) == len(codes) + 1


def test_no_pause_is_begun_that_ends_after_the_deadline(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine waits for this record, and its bill goes on meanwhile."""
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(naps))
    receiver.codes = [503] * 9
    (found,) = sink.deliver({"url": receiver.url}, RECORD, 1.3)
    assert (naps, "503" in found.trouble) == ([0.2, 1.0], True)
    naps.clear()
    sink.deliver({"url": receiver.url}, RECORD, 1.1)
    assert naps == [0.2]
    naps.clear()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        (found,) = sink.deliver({"syslog": f"127.0.0.1:{closed.getsockname()[1]}"}, RECORD, 1.1)
    assert (naps, "did not take it" in found.trouble) == ([0.2], True), "a log server is tried again, too"


@pytest.mark.parametrize("code", [301, 302, 307, 400, 401, 403, 404])
def test_a_refusal_is_not_repeated_and_a_redirect_is_one(receiver: Receiver, code: int) -> None:
    """A redirected record would be lost on the way."""
    receiver.codes = [code]
    (found,) = sink.deliver({"url": receiver.url}, RECORD, 10.0)
    assert str(code) in found.trouble
    assert len(receiver.got) == 1


def test_nobody_there_and_no_time_are_told(receiver: Receiver, tmp_path: Path) -> None:
    """Every trouble has its words, within the deadline; the next sink is tried all the same."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        (found,) = sink.deliver({"url": nobody}, RECORD, 0.5)
    assert "cannot be reached" in found.trouble
    (found,) = sink.deliver({"url": receiver.url}, RECORD, 0.0)
    assert "no time" in found.trouble
    (found,) = sink.deliver({"url": receiver.url, "token_file": str(tmp_path / "none")}, RECORD, 5.0)
    assert str(tmp_path / "none") in found.trouble
    (tmp_path / "two").write_text("a\nb")
    (found,) = sink.deliver({"url": receiver.url, "token_file": str(tmp_path / "two")}, RECORD, 5.0)
    assert "more than one line" in found.trouble
    assert receiver.got == []


def test_a_sink_that_never_answers_costs_no_more_than_the_deadline() -> None:
    """It listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (found,) = sink.deliver({"url": f"http://127.0.0.1:{silent.getsockname()[1]}/"}, RECORD, 0.3)
    assert "timed out" in found.trouble


def logged(record: Mapping[str, object]) -> bytes:
    """The line that a syslog server gets, without its count, which is right."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while piece := connection.recv(65536):
                    got.append(piece)

        thread = threading.Thread(target=serve)
        thread.start()
        (found,) = sink.deliver({"syslog": f"127.0.0.1:{server.getsockname()[1]}"}, record, 5.0)
        thread.join()
    assert found == sink.SinkOutcome("syslog", "", "connection closed by the server")
    count, _, line = b"".join(got).partition(b" ")
    assert int(count) == len(line)
    return line


def test_syslog_over_tcp_is_framed_as_its_rfc_says() -> None:
    """Counted octets, a header that every server reads, the record as message; the server's close is the proof."""
    line = logged(RECORD)
    header = rb"<85>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 gpu-node costguard - incident - "
    match = re.match(header, line)
    assert match
    assert json.loads(line[match.end() :]) == RECORD


@pytest.mark.parametrize(
    ("name", "host"), [("n" * 255, b"n" * 255), ("n" * 256, b"n" * 255), ("", b"-"), (None, b"-"), ("a b c", b"a-b-c")]
)
def test_the_name_of_a_host_has_at_most_255_characters(name: str | None, host: bytes) -> None:
    """And none is empty, or has a space in it: RFC 5424, section 6.2.4."""
    assert logged({**RECORD, "machine": name}).split(b" ")[2] == host


def test_nothing_is_configured_by_default() -> None:
    """No place, no delivery, and it can be asked."""
    assert not record_address.configured({})
    assert sink.deliver({}, RECORD, 1.0) == ()
    assert record_address.configured({"syslog": "log.example.org:601"})


BEAT = "import sys; from costguard.actions import beat; sys.exit(beat.main())"


def test_a_beat_that_nobody_waits_for_ends_in_silence() -> None:
    """The guard has gone: no traceback in the journal, and the code says what became of the job."""
    worker = Forked(BEAT, os.environ)
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.close()
    worker.stdin.write(b'["nothing"]\n')
    worker.stdin.close()
    assert worker.wait() == 2


def test_the_worker_of_the_heartbeat_sends_or_says_why_not(receiver: Receiver) -> None:
    """One line in, one line out; a job that makes no sense is told."""

    def ask(job: object) -> dict[str, object]:
        said, _ = Forked(BEAT, os.environ).communicate(json.dumps(job).encode() + b"\n")
        found: dict[str, object] = json.loads(said)
        return found

    assert ask({"settings": {"url": receiver.url}, "record": {"kind": "heartbeat"}, "deadline": 5})["error"] == ""
    assert json.loads(receiver.got[0][3]) == {"kind": "heartbeat"}
    receiver.codes = [403]
    failed = ask({"settings": {"url": receiver.url}, "record": {}, "deadline": 5})
    assert failed["error"] == "the heartbeat's address answered HTTP 403"
    assert "malformed job" in str(ask(["nothing"])["error"])
