"""The picture of a message: with it where a service takes it, without it where it does not, and never instead of the text."""

import base64
import email
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.message import Message as Mail
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from costguard import extras
from costguard.history import FILE, store
from costguard.notify import pictured
from costguard.notify.job import Draft
from tests.faults.test_notify_remote import Mail as MailServer
from tests.unit.history.conftest import batch

PNG = b"\x89PNG\r\n\x1a\n"
TITLE = "boxtrain7 will be stopped at 15:40 UTC (in 10m)"
CANARY = "c4n4ry"
HOSTS = ("discord.com", "slack.com", "api.telegram.org", "events.pagerduty.com", "files.slack.com")


class Request(NamedTuple):
    """What a service was asked."""

    host: str
    path: str
    body: bytes

    @property
    def text(self) -> bool:
        """Whether the message is in it."""
        return b"boxtrain7" in self.body or b"boxtrain7" in self.path.encode()

    @property
    def picture(self) -> bool:
        """Whether the picture is."""
        return PNG in self.body or base64.b64encode(PNG)[:10] in self.body


Answer = Callable[[Request], tuple[int, dict[str, Any]]]


class Services(ThreadingHTTPServer):
    """Any service of the web, over TLS under its real name by way of a proxy, or plainly; answers by a function."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Service)
        self.asked: list[Request] = []
        self.answer: Answer = lambda _request: (200, {})
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*HOSTS).configure_cert(self.tls)
        self.environment = {
            "HTTPS_PROXY": f"http://127.0.0.1:{self.server_port}", "REQUESTS_CA_BUNDLE": str(folder / "ca.pem"), "NO_PROXY": "",
        }  # fmt: skip

    @property
    def at(self) -> str:
        """Its plain address."""
        return f"127.0.0.1:{self.server_port}"


class Service(BaseHTTPRequestHandler):
    server: Services

    def do_CONNECT(self) -> None:
        """As a proxy: what follows is for the service of that name."""
        self.wfile.write(b"HTTP/1.1 200 fine\r\n\r\n")
        with self.server.tls.wrap_socket(self.connection, server_side=True) as inner:
            Service(inner, self.client_address, self.server)
        self.close_connection = True

    def do_POST(self) -> None:
        """One request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.headers.get("Host", ""), self.path, body)
        self.server.asked.append(request)
        code, found = self.server.answer(request)
        data = json.dumps(found).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with Services(tmp_path) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the last two hours."""
    folder = tmp_path_factory.mktemp("state")
    now = int(time.time()) // 60 * 60
    rows = [[now - 60 * number, "0000:01:00.0", 60.0, 0.0, 0.0, 0.5, 1.0] for number in range(120)]
    store.save(batch(folder / FILE, gpus=rows, events=[["boot-i7", now, "phase", json.dumps({"to": "WARNING"})]]))
    return folder


def tell(
    folder: Path, history: Path, environment: dict[str, str], *urls: str, kind: str = "warning", deadline: float = 20.0,
    again: bool = False, body: str = "To postpone it: `costguard hold 2h`.",
) -> dict[str, str]:  # fmt: skip
    """One message over one channel; what came of it."""
    path = folder / "urls"
    path.write_text("\n".join(urls))
    path.chmod(0o600)
    facts = {
        "incident": "boot-i7",
        "window": 3600.0,
        "wall": time.time(),
        "due_wall": time.time() + 600,
        "action": "stop",
        "mode": "live",
    }
    message = {
        "id": "m1",
        "kind": kind,
        "level": "critical",
        "title": TITLE,
        "body": body,
        "facts": facts,
    }
    settings = {"channels": {"team": {"urls": f"file:{path}"}}}
    job = {
        "message": message,
        "channels": ["team"],
        "settings": settings,
        "deadline": deadline,
        "history": str(history),
        "again": again,
    }
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"], input=json.dumps(job).encode() + b"\n", capture_output=True, check=True,
        timeout=60, env={**os.environ, **environment},
    )  # fmt: skip
    assert CANARY not in (done.stdout + done.stderr).decode()
    answer = json.loads(done.stdout)
    return {part: answer.get(part, {}).get("team", "") for part in ("reached", "failed")}


def test_a_webhook_gets_text_and_picture_in_one(tmp_path: Path, services: Services, history: Path) -> None:
    """A PNG of some tens of kilobytes, under a name that says what it is."""
    assert tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}") == {"reached": "JSON", "failed": ""}
    (request,) = services.asked
    (attached,) = json.loads(request.body)["attachments"]
    assert attached["mimetype"] == "image/png"
    assert attached["filename"] == "gpu-load.png"
    assert base64.b64decode(attached["base64"]).startswith(PNG)
    assert len(attached["base64"]) < 400_000
    assert request.text


def test_mail_has_it_beside_the_text(tmp_path: Path, history: Path) -> None:
    """As a part of its own, whole."""
    with MailServer() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"mailto://127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
        assert tell(tmp_path, history, {}, url)["reached"] == "E-Mail"
        server.shutdown()
    (text,) = server.taken
    mail: Mail = email.message_from_string(text)
    pictures = [part.get_payload(decode=True) for part in mail.walk() if part.get_content_type() == "image/png"]
    assert len(pictures) == 1
    assert bytes(pictures[0]).startswith(PNG)
    assert "costguard hold 2h" in text


@pytest.mark.parametrize("code", [400, 403, 413, 415, 500])
def test_a_service_that_refuses_the_picture_gets_the_text(
    tmp_path: Path, services: Services, history: Path, code: int
) -> None:
    """At once, and once; what was wrong with the picture stands beside the name of the service."""
    services.answer = lambda request: (code, {}) if request.picture else (200, {})
    found = tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}")
    assert found["failed"] == ""
    assert found["reached"].startswith(f"JSON (without its picture: HTTP {code} from 127.0.0.1")
    assert [request.picture for request in services.asked] == [True, False]


def test_a_slow_service_gets_text_and_picture_once(tmp_path: Path, services: Services, history: Path) -> None:
    """Its answer has all of the time: who gives up sooner, to send the text alone, sends twice."""

    def slow(_request: Request) -> tuple[int, dict[str, Any]]:
        time.sleep(5.0)
        return 200, {}

    services.answer = slow
    assert tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}", deadline=16.0)["reached"] == "JSON"
    assert [request.picture for request in services.asked] == [True]


def test_a_further_try_is_the_text_alone(tmp_path: Path, services: Services, history: Path) -> None:
    """Something between here and there may swallow all that is large: words come first."""
    assert tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}", again=True)["reached"] == "JSON"
    assert [request.picture for request in services.asked] == [False]


@pytest.mark.parametrize("code", [401, 404, 302])
def test_what_no_picture_is_to_blame_for_is_not_tried_without_it(
    tmp_path: Path, services: Services, history: Path, code: int
) -> None:
    """One request, and the failure as it is without pictures."""
    services.answer = lambda _request: (code, {})
    found = tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}")
    assert found["reached"] == ""
    assert f"HTTP {code}" in found["failed"]
    assert len(services.asked) == 1


def test_a_busy_service_gets_both_later(tmp_path: Path, services: Services, history: Path) -> None:
    """429 says nothing of the picture."""
    services.answer = lambda _request: (429 if len(services.asked) == 1 else 200, {})
    assert tell(tmp_path, history, {}, f"json://{services.at}/{CANARY}")["reached"] == "JSON"
    assert [request.picture for request in services.asked] == [True, True]


def test_text_that_has_arrived_is_not_sent_again_for_its_picture(
    tmp_path: Path, services: Services, history: Path
) -> None:
    """Where text and picture are two messages, the second one may fail alone."""
    services.answer = lambda request: (403, {}) if request.picture else (200, {})
    found = tell(tmp_path, history, services.environment, f"discord://{'1' * 18}/{CANARY}{'x' * 60}")
    assert found["failed"] == ""
    assert found["reached"].startswith("Discord (without its picture: HTTP 403 from discord.com")
    assert [(request.text, request.picture) for request in services.asked] == [(True, False), (False, True)]


SLACK = f"slack://xoxb-1234-1234-{CANARY}abc/#ops"


def test_a_right_that_is_lacking_for_files_costs_no_text(tmp_path: Path, services: Services, history: Path) -> None:
    """It answers 200 to everything, and says in words that it refuses the upload: the text is there, once."""

    def answer(request: Request) -> tuple[int, dict[str, Any]]:
        if "postMessage" in request.path:
            return 200, {"ok": True, "channel": "C1", "message": {}}
        return 200, {"ok": False, "error": "missing_scope"}

    services.answer = answer
    found = tell(tmp_path, history, services.environment, SLACK)
    assert found["failed"] == ""
    assert found["reached"].startswith("Slack (without its picture")
    assert sum(request.text for request in services.asked) == 1
    (shown,) = (json.loads(request.body) for request in services.asked if request.text)
    assert [one["fallback"] for one in shown["attachments"]] == [TITLE], "the line that a phone shows"


def test_a_text_that_was_refused_is_not_taken_for_delivered(tmp_path: Path, services: Services, history: Path) -> None:
    """200 for a text that nobody will see: no picture came after it, so nothing arrived."""
    services.answer = lambda _request: (200, {"ok": False, "error": "channel_not_found"})
    found = tell(tmp_path, history, services.environment, SLACK, deadline=4.0)
    assert found["reached"] == ""
    assert found["failed"].startswith("Slack")


def test_a_picture_with_the_text_as_its_caption(tmp_path: Path, services: Services, history: Path) -> None:
    """A service that takes both in one, and refuses the picture, gets the text alone."""
    services.answer = lambda request: (
        (400, {"ok": False}) if "sendPhoto" in request.path else (200, {"ok": True, "result": {}})
    )
    found = tell(tmp_path, history, services.environment, f"tgram://123456789:{CANARY}{'x' * 29}/1234/")
    assert found["reached"].startswith("Telegram (without its picture: HTTP 400")
    assert [request.path.rpartition("/")[2] for request in services.asked][-1] == "sendMessage"
    assert services.asked[-1].text


def test_a_service_without_pictures_waits_for_none(tmp_path: Path, services: Services, history: Path) -> None:
    """It gets its text while the picture is still being drawn, or hangs."""
    services.answer = lambda _request: (202, {"status": "success"})
    environment = services.environment | hanging(tmp_path)
    began = time.monotonic()
    found = tell(tmp_path, history, environment, f"pagerduty://{CANARY}{'x' * 26}@{'y' * 20}")
    assert found["reached"] == "Pager Duty"
    alert = json.loads(services.asked[0].body)["payload"]
    assert (alert["source"], alert["component"]) == (os.uname().nodename, "costguard"), "not those of the library"
    assert time.monotonic() - began < pictured.WAIT_SECONDS + 6.0
    assert services.asked[0].text


@pytest.mark.parametrize(
    ("url", "part", "most"),
    [
        (f"discord://1234567890/{CANARY}{'x' * 30}/", ("content",), 2000),
        (f"tgram://123456789:{CANARY}{'x' * 29}/1234/?image=no", ("text",), 4096),
        (f"pagerduty://{CANARY}{'x' * 26}@{'y' * 20}", ("payload", "summary"), 1024),
    ],
)
def test_what_a_program_printed_keeps_no_message_from_arriving(
    tmp_path: Path, services: Services, history: Path, url: str, part: tuple[object, ...], most: int
) -> None:
    """A service refuses what is longer than it takes: the output gives way, and the command beneath it stays."""
    services.answer = lambda _request: (200, {"ok": True, "result": {}, "status": "success"})
    body = f"It said: {'<output_> ' * 500}\nTo postpone it: `costguard hold 2h`."
    assert tell(tmp_path, history, services.environment, url, body=body, kind="done")["failed"] == ""
    shown = json.loads(services.asked[0].body)
    for name in part:
        shown = shown[name]
    assert most // 2 < len(shown) <= most
    assert "costguard hold 2h" in shown


def test_a_page_that_is_repeated_is_the_same_alert(tmp_path: Path, services: Services, history: Path) -> None:
    """PagerDuty knows a further try by its key; a key in the address is the owner's, and stays."""
    services.answer = lambda _request: (202, {"status": "success"})
    address = f"pagerduty://{CANARY}{'x' * 26}@{'y' * 20}"
    for url in (address, address, f"{address}?dedup=all-of-them"):
        assert tell(tmp_path, history, services.environment, url)["reached"] == "Pager Duty"
    first, again, own = (json.loads(request.body)["dedup_key"] for request in services.asked)
    assert first == again == f"costguard/{os.uname().nodename}/m1"
    assert own == "all-of-them"


def lacking(folder: Path, code: str) -> dict[str, str]:
    """An installation with another matplotlib."""
    (folder / "lib").mkdir(exist_ok=True)
    (folder / "lib" / "matplotlib.py").write_text(code)
    paths = (str(folder / "lib"), os.environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def hanging(folder: Path) -> dict[str, str]:
    return lacking(folder, "import time; time.sleep(60)")


def test_a_picture_that_is_late_costs_two_seconds_and_no_message(
    tmp_path: Path, services: Services, history: Path
) -> None:
    """The text goes without it, and says so."""
    plain = time.monotonic()
    tell(tmp_path, Path(), {}, f"json://{services.at}/{CANARY}")
    plain = time.monotonic() - plain
    began = time.monotonic()
    found = tell(tmp_path, history, hanging(tmp_path), f"json://{services.at}/{CANARY}")
    assert found["reached"] == "JSON (without its picture: it was not drawn in time)"
    assert time.monotonic() - began < plain + pictured.WAIT_SECONDS + 3.0, "the rest is slack for a busy machine"
    assert [request.picture for request in services.asked] == [False, False]


@pytest.mark.thorough
def test_the_wait_for_a_picture_takes_nothing_of_the_time_for_an_answer(
    tmp_path: Path, services: Services, history: Path
) -> None:
    """A slow service that waited for it has the message all the same."""

    def slow(_request: Request) -> tuple[int, dict[str, Any]]:
        time.sleep(11.0)
        return 200, {}

    services.answer = slow
    found = tell(tmp_path, history, hanging(tmp_path), f"json://{services.at}/{CANARY}", deadline=16.0)
    assert found == {"reached": "JSON (without its picture: it was not drawn in time)", "failed": ""}
    assert len(services.asked) == 1


MISSING = "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')"


def test_who_installed_no_pictures_is_told_by_a_test_alone(tmp_path: Path, services: Services, history: Path) -> None:
    """A message is as it was; the test says what to install."""
    url = f"json://{services.at}/{CANARY}"
    assert tell(tmp_path, history, lacking(tmp_path, MISSING), url)["reached"] == "JSON"
    found = tell(tmp_path, history, lacking(tmp_path, MISSING), url, kind="test")["reached"]
    assert found == (f"JSON (without its picture: matplotlib is not installed: {extras.install(extras.PICTURE)})")


@pytest.mark.parametrize("content", [b"", b"garbage" * 1000])
def test_a_history_that_cannot_be_read_costs_the_picture_alone(
    tmp_path: Path, services: Services, content: bytes
) -> None:
    """And a test shows an empty one, so that it proves what it is for."""
    (tmp_path / FILE).write_bytes(content)
    url = f"json://{services.at}/{CANARY}"
    found = tell(tmp_path, tmp_path, {}, url)["reached"]
    assert found.startswith("JSON (without its picture: ")
    assert tell(tmp_path, tmp_path, {}, url, kind="test")["reached"] == "JSON"
    assert [request.picture for request in services.asked] == [False, True]


def test_which_messages_have_a_picture_and_of_what() -> None:
    """A warning shows what was before its window; of its facts only dates, the action, the mode and the threshold go there."""
    secret = {
        "receipt": CANARY,
        "sentence": CANARY,
        "readings": [[CANARY, 0.0, CANARY]],
        "owner": CANARY,
        "findings": [CANARY],
    }
    facts = {
        "window": 36000.0,
        "wall": 5.0,
        "due_wall": 9.0,
        "mode": "live",
        "action": "stop",
        "threshold": 0.05,
        **secret,
    }
    found = pictured.job(Draft("m", "warning", facts=facts), "/state", 1e9)
    assert found is not None
    assert found.until - found.since == 3 * 36000.0
    assert CANARY not in repr(found)
    summary = pictured.job(Draft("m", "summary", facts={"since": 5e8}), "/state", 1e9)
    assert summary is not None
    assert (summary.since, summary.until) == (5e8, 1e9)
    for kind, folder in (("held", "/state"), ("accepted", "/state"), ("warning", ""), ("warning", "state")):
        assert pictured.job(Draft("m", kind), folder, 1e9) is None
