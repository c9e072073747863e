"""Channels beyond this machine: the real worker and the real apprise, against receivers on loopback that misbehave."""

import json
import os
import re
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from costguard.history import FILE, store
from costguard.history.job import Batch, EventRow, MachineMinute
from costguard.notify.delivery_record import FOLDER
from costguard.notify.summary import STAMP

CANARY = "c4n4ry"
"""Stands in every address, user and password of this file: it may come out nowhere."""

Answers = dict[str, Any]  # JSON: each test looks at what it needs


class Receiver(ThreadingHTTPServer):
    """Answers by the path; keeps what it took."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Web)
        self.asked: list[str] = []
        self.bodies: dict[str, Answers] = {}
        self.stopped = threading.Event()


class Web(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """One request."""
        what = self.path.split("/")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append(what)
        times = self.server.asked.count(what)
        if what == "hangs":
            self.server.stopped.wait(30)
        if what == "drips" or (what == "breaks" and times > 1):
            self.send_response(200)
            self.end_headers()
            while not self.server.stopped.wait(0.5):
                self.wfile.write(b"x")
            return
        if what == "drops" and times == 1:
            self.connection.close()
            return
        codes = {
            "busy": 429 if times == 1 else 200,
            "moved": 302,
            "gone": 404,
            "denied": 403,
            "broken": 500 if times == 1 else 200,
            "breaks": 500,
            "later": 429,
        }
        code = codes.get(what, 200)
        if code == 200:
            self.server.bodies[what] = json.loads(body)
        self.send_response(code)
        if code == 429:
            self.send_header("Retry-After", "1" if what == "busy" else "3600")
        if code == 302:
            self.send_header("Location", "/fine")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


class Mail(socketserver.ThreadingTCPServer):
    """Takes mail for everybody but nobody@, and knows no password."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Smtp)
        self.taken: list[str] = []


class Smtp(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:
        """One session, as RFC 5321 has it."""
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += self.rfile.readline()
                self.server.taken.append(text.decode())
            refused = (word == b"RCPT" and b"nobody@" in line) or word == b"AUTH"
            code = (
                b"221 bye"
                if word == b"QUIT"
                else b"250-here\r\n250 AUTH PLAIN LOGIN"
                if word == b"EHLO"
                else b"250 fine"
            )
            no = b"535 wrong password\r\n" if word == b"AUTH" else b"550 no such user\r\n"
            self.wfile.write(no if refused else code + b"\r\n")
            if word == b"QUIT":
                return


class Run(NamedTuple):
    """What came of one message over every channel."""

    answer: Answers
    web: Receiver
    mail: Mail
    printed: str


def tell(folder: Path, channels: Answers, *, deadline: float = 20.0, **message: object) -> tuple[Answers, str]:
    """Run the worker with these channels; what it answered, and everything that it printed."""
    text = {
        "id": "m1",
        "kind": "warning",
        "level": "critical",
        "title": "box stops at 15:40",
        "body": "Say `costguard hold`.",
    }
    job = {
        "message": {**text, **message},
        "channels": list(channels),
        "settings": {"channels": channels},
        "deadline": deadline,
    }
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(job).encode() + b"\n", capture_output=True, check=True, timeout=60,
        env={**os.environ, "FROM_ENV": os.environ.get("FROM_ENV", ""), "CREDENTIALS_DIRECTORY": str(folder)},
    )  # fmt: skip
    return {"reached": {}, "failed": {}, **json.loads(done.stdout)}, (done.stdout + done.stderr).decode()


def written(folder: Path, name: str, *urls: str, mode: int = 0o600) -> str:
    """A file with addresses, as a reference."""
    path = folder / name
    path.write_text("# the team's\n\n" + "\n".join(urls) + "\n")
    path.chmod(mode)
    return f"file:{path}"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """One warning over a dozen channels, each of which misbehaves in its own way."""
    folder = tmp_path_factory.mktemp("channels")
    with Receiver() as web, Mail() as mail, pytest.MonkeyPatch.context() as patch:
        for server in (web, mail):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        at, post = f"json://127.0.0.1:{web.server_port}", f"127.0.0.1:{mail.server_address[1]}"
        paths = ("fine", "busy", "moved", "gone", "denied", "broken", "later", "drops")
        urls = {path: [f"{at}/{path}/{CANARY}?+X-Token={CANARY}"] for path in paths}
        urls["two"] = [f"{at}/two/{CANARY}", f"{at}/gone/{CANARY}"]
        urls["mail"] = [f"mailto://{post}?from=box@example.org&to=ann@example.org&mode=insecure"]
        urls["nobody"] = [f"mailto://{post}?from=box@example.org&to=nobody@example.org&mode=insecure"]
        urls["password"] = [
            f"mailto://{CANARY}:{CANARY}pass@{post}?from=box@example.org&to=ann@example.org&mode=insecure"
        ]
        urls["unknown"] = [f"carrierpigeon://{CANARY}/{CANARY}"]
        urls["misspelt"] = [f"slack://{CANARY}"]
        urls["bare"] = [f"{CANARY}token", f"{CANARY}:{CANARY}", f'{{"{CANARY}": "json://h"}}']
        channels = {name: {"urls": written(folder, name, *lines)} for name, lines in urls.items()}
        (folder / "cred").write_text(f"{at}/credential/{CANARY}\n")
        patch.setenv("FROM_ENV", f"{at}/environment/{CANARY}")
        channels |= {"credential": {"urls": "credential:cred"}, "environment": {"urls": "env:FROM_ENV"}}
        channels["open"] = {"urls": written(folder, "open", f"{at}/fine/{CANARY}", mode=0o644)}
        channels["empty"] = {"urls": written(folder, "empty")}
        channels["missing"] = {"urls": f"file:{folder}/missing"}
        channels["unset"] = {"urls": "env:NOWHERE_SET"}
        answer, printed = tell(folder, channels)
        yield Run(answer, web, mail, printed)
        web.stopped.set()
        web.shutdown()
        mail.shutdown()


def test_each_way_to_name_an_address_arrives(run: Run) -> None:
    """A file, the environment, and a credential of systemd; title and text are those of the message."""
    for name in ("fine", "environment", "credential"):
        assert run.answer["reached"][name] == "JSON"
        assert run.web.bodies[name]["title"] == "box stops at 15:40"
        assert "costguard hold" in run.web.bodies[name]["message"]
    assert run.answer["reached"]["mail"] == "E-Mail"
    assert "Subject: box stops at 15:40" in run.mail.taken[0]


def test_a_service_that_asks_to_wait_is_waited_for_while_there_is_time(run: Run) -> None:
    """429 with a second is tried again and arrives; with an hour it is not, and is said."""
    assert (run.answer["reached"]["busy"], run.web.asked.count("busy")) == ("JSON", 2)
    assert run.web.asked.count("later") == 1
    assert "HTTP 429" in run.answer["failed"]["later"]


def test_a_server_that_fails_is_tried_again(run: Run) -> None:
    """500 says that it has not taken it; who drops the connection may have, and gets it once."""
    assert (run.answer["reached"]["broken"], run.web.asked.count("broken")) == ("JSON", 2)
    assert "ended the connection without an answer (it may still have arrived)" in run.answer["failed"]["drops"]
    assert run.web.asked.count("drops") == 1


@pytest.mark.parametrize(
    ("name", "words"), [("gone", "HTTP 404"), ("denied", "rejects this sender"), ("moved", "redirects")]
)
def test_what_cannot_pass_is_not_repeated(run: Run, name: str, words: str) -> None:
    """And a redirection is no delivery: what follows it loses the message."""
    assert words in run.answer["failed"][name]
    assert run.web.asked.count(name) == {"gone": 2}.get(name, 1), (
        "one of them belongs to the channel with two addresses"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody", "550"), ("password", "535"),
        ("unknown", "no such service"), ("misspelt", "Slack: its address is incomplete"), ("bare", "this line is not an address"), ("open", "chmod 600"),
        ("empty", "contains no address"), ("missing", "there is no file"), ("unset", "NOWHERE_SET is not set"),
    ],
)  # fmt: skip
def test_each_failure_is_said_in_words(run: Run, name: str, words: str) -> None:
    """None counts as reached."""
    assert words in run.answer["failed"][name]
    assert name not in run.answer["reached"]


def test_who_has_answered_and_when_is_kept(run: Run) -> None:
    """A refusal is an answer; an address that nobody was asked at has given none, nor has who hung up."""
    answered = {"fine", "busy", "moved", "gone", "denied", "broken", "later", "two", "mail", "nobody", "password"}
    assert run.answer["answered"].keys() == answered | {"credential", "environment"}


def test_who_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    """A service that hangs, one whose answer never ends, one that failed before, and one whose port is closed, fail by the deadline; the address beside them is reached."""
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        at = f"json://127.0.0.1:{web.server_port}"
        urls = {
            "hangs": f"{at}/hangs/{CANARY}",
            "drips": f"{at}/drips/{CANARY}",
            "breaks": f"{at}/breaks/{CANARY}",
            "closed": f"json://127.0.0.1:9/{CANARY}",
            "fine": f"{at}/fine/{CANARY}",
        }
        channels = {name: {"urls": written(tmp_path, name, url)} for name, url in urls.items()}
        answer, printed = tell(tmp_path, channels, deadline=8.0)
        web.stopped.set()
        web.shutdown()
    for late in ("hangs", "drips"):
        assert "in time" in answer["failed"][late]
        assert answer["failed"][late].startswith("JSON: "), "the service is named"
    assert re.match("JSON: HTTP 500 .*; a further try had no answer in time", answer["failed"]["breaks"])
    assert "127.0.0.1 could not be reached (Connection refused)" in answer["failed"]["closed"]
    assert answer["reached"] == {"fine": "JSON"}
    assert list(answer["answered"]) == ["fine"], "nobody else has answered"
    assert CANARY not in printed


def test_one_of_two_addresses(run: Run) -> None:
    """The channel reached somebody, and what failed is said."""
    assert run.answer["reached"]["two"] == "JSON"
    assert run.answer["failed"]["two"].startswith("JSON, address 2: HTTP 404")


def test_no_secret_comes_out(run: Run) -> None:
    """Neither in the answer, which goes to journal and history, nor in anything that a library prints."""
    assert CANARY not in run.printed


def test_every_channel_has_its_answer(run: Run) -> None:
    """Nothing is forgotten, and nothing is in doubt but what took part of it."""
    assert len(run.answer["reached"].keys() | run.answer["failed"].keys()) == 21
    assert run.answer["reached"].keys() & run.answer["failed"].keys() == {"two"}


@pytest.mark.parametrize(
    ("channel", "message", "sent"),
    [
        ({"level": "warning"}, {"kind": "held", "level": "info"}, False),
        ({"level": "warning"}, {"kind": "finding", "level": "warning"}, True),
        ({"level": "critical", "kinds": ["held"]}, {"kind": "held", "level": "info"}, True),
        ({"level": "info", "kinds": ["held"]}, {"kind": "finding", "level": "critical"}, False),
        ({"level": "info", "kinds": ["held"]}, {"kind": "test", "level": "info"}, True),
        ({"level": "warning"}, {"kind": "cancelled", "level": "info", "facts": {"takes_back": "warning"}}, True),
        ({"level": "critical"}, {"kind": "cancelled", "level": "info", "facts": {"takes_back": "warning"}}, False),
        (
            {"level": "critical"},
            {"kind": "unknown_recovered", "level": "info", "facts": {"takes_back": "critical"}},
            True,
        ),
        (
            {"kinds": ["warning", "cancelled"]},
            {"kind": "held", "level": "info", "facts": {"takes_back": "warning"}},
            True,
        ),
        ({"kinds": ["warning", "cancelled"]}, {"kind": "held", "level": "info"}, False),
        ({"kinds": ["warning"]}, {"kind": "held", "level": "info", "facts": {"takes_back": "warning"}}, False),
        ({"kinds": ["warning"]}, {"kind": "countdown", "level": "warning"}, False),
        ({"kinds": ["warning"]}, {"kind": "countdown", "level": "warning", "facts": {"takes_back": "warning"}}, True),
    ],
)
def test_a_channel_gets_what_it_asked_for(tmp_path: Path, channel: Answers, message: Answers, sent: bool) -> None:
    """Its kinds where it names some, else its level; what no channel wants counts as told, and a test always arrives."""
    urls = written(tmp_path, "urls", "carrierpigeon://x")
    answer, _ = tell(tmp_path, {"team": {"urls": urls, **channel}}, deadline=2.0, **message)
    assert (list(answer["failed"]), list(answer["reached"])) == ((["team"], []) if sent else ([], ["no channel"]))


def test_a_warning_that_no_channel_takes_reached_nobody(tmp_path: Path) -> None:
    """Else an action would come unannounced."""
    answer, printed = tell(tmp_path, {"team": {"urls": "env:X", "kinds": ["held"]}}, deadline=2.0)
    assert answer["reached"] == {}
    assert "reached nobody" in printed


def test_a_library_that_is_broken_costs_the_terminals_nothing(tmp_path: Path) -> None:
    """An upgrade that failed half way: the channel says so, and whoever sits at the machine is told all the same."""
    (tmp_path / "apprise.py").write_text("raise ImportError('no longer what it was')")
    (tmp_path / "dev").mkdir()
    message = {"id": "m1", "kind": "warning", "level": "critical", "title": "box stops", "body": ""}
    settings = {
        "channels": {"team": {"urls": written(tmp_path, "urls", f"json://{CANARY}")}},
        "devfs": f"{tmp_path}/dev",
    }
    job = {"message": message, "channels": ["wall", "team"], "settings": settings, "deadline": 5.0}
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(job).encode() + b"\n", capture_output=True, check=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))},
    )  # fmt: skip
    failed = json.loads(done.stdout)["failed"]
    assert "apprise cannot be used: ImportError: no longer what it was" in failed["team"]
    assert list(failed) == ["team"], "nobody sits at this machine, which is no failure of its terminals"


def test_a_link_of_the_owner_stands_in_the_warning(tmp_path: Path) -> None:
    """With this machine and incident in it; what is strange in a name changes no other part of the link."""
    facts = {"action": "stop", "mode": "live", "grace": 600.0, "instance": "aws:i-1/?x", "incident": "b1-i1"}
    job = {"id": "m1", "kind": "warning", "level": "critical", "facts": facts}
    link = "https://hold.example.org/{instance}?why={incident}"
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        urls = written(tmp_path, "urls", f"json://127.0.0.1:{web.server_port}/fine")
        settings = {"channels": {"team": {"urls": urls}}, "hold_url": link, "runtime": str(tmp_path)}
        asked = {"message": job, "channels": ["team"], "settings": settings, "deadline": 20.0}
        subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"],
            input=json.dumps(asked).encode() + b"\n", capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        web.shutdown()
    lines = str(web.bodies["fine"]["message"]).splitlines()
    assert lines[0].startswith("To postpone it: `costguard hold 2h`")
    assert lines[1] == "To hold it without a login: https://hold.example.org/i-1%2F%3Fx?why=b1-i1"
    (record,) = (tmp_path / FOLDER).iterdir()
    assert lines[0] in record.read_text()
    assert "hold.example.org" not in record.read_text(), "it works for whoever reads it, and the history is everybody's"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_that_nobody_trusts_is_said_in_words(tmp_path: Path, host: str) -> None:
    """Not trusted, or of another name: the reason, never the library's own stumbling."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("another.example").configure_cert(tls)
    with Receiver() as web:
        web.socket = tls.wrap_socket(web.socket, server_side=True)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        urls = written(tmp_path, "urls", f"jsons://{host}:{web.server_port}/{CANARY}")
        settings = {"channels": {"team": {"urls": urls}}}
        draft = {"id": "m1", "kind": "warning", "level": "warning"}
        asked = {"message": draft, "channels": ["team"], "settings": settings, "deadline": 8.0}
        done = subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"],
            input=json.dumps(asked).encode() + b"\n", capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        web.shutdown()
    failed = json.loads(done.stdout)["failed"]["team"]
    assert "certificate" in failed
    assert "Error" not in failed
    assert CANARY not in done.stdout.decode() + done.stderr.decode()


@pytest.mark.parametrize(
    "reason", ["@everyone look", "ask @here or @Channel", "<!channel> and <@U123>", "mail me@all.example"]
)
def test_the_reason_of_a_hold_wakes_no_channel(tmp_path: Path, reason: str) -> None:
    """An ordinary user writes it, and a chat would take it for the agent's own call."""
    facts = {"mode": "live", "owner": "uid 7", "hold": reason, "hold_seconds": 60.0}
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        urls = written(tmp_path, "urls", f"json://127.0.0.1:{web.server_port}/fine")
        settings = {"channels": {"team": {"urls": urls, "level": "info", "kinds": []}}}
        asked = {
            "message": {"id": "m1", "kind": "held", "level": "info", "facts": facts},
            "channels": ["team"],
            "settings": settings,
        }
        subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"],
            input=json.dumps(asked).encode() + b"\n", capture_output=True, check=True, timeout=60,
        )  # fmt: skip
        web.shutdown()
    body = str(web.bodies["fine"]["message"])
    assert not re.search(r"@(everyone|here|channel|all)\b|<[!@]", body, re.IGNORECASE)
    assert body.replace("\u2060", "").count(reason) == 1, "people read it as it was written"


def week(folder: Path) -> None:
    """A history of the last days: five hours of work, three idle, a stop that a dry run would have made."""
    now = time.time()
    begin = int(now - 2 * 86400.0) // 900 * 900
    minutes = [MachineMinute(begin + m * 60, 60.0 * (m < 300), 60.0 * (m >= 300), 0.0) for m in range(480)]
    minutes.append(MachineMinute(int(now) // 60 * 60, 0.0, 0.0, 1.0))  # what is under way belongs to the next
    done = {"from": "WARNING", "to": "DONE", "done": "would", "action": "stop"}
    events = (EventRow("b-i1", begin + 21600.0, "phase", json.dumps(done)),)
    store.save(Batch(str(folder / FILE), "b1", "i-1", now, True, (), tuple(minutes), events))


def summarized(folder: Path, web: "Receiver", what: str) -> Answers:
    """The worker's answer to the question for a summary."""
    urls = written(folder, "urls", f"json://127.0.0.1:{web.server_port}/{what}")
    facts = {"mode": "dry-run", "state": str(folder), "every": "weekly", "price_per_hour": 36.0, "currency": "EUR"}
    job = {"id": "s1", "kind": "summary", "level": "info", "facts": facts}
    settings = {"channels": {"team": {"urls": urls, "level": "info", "kinds": []}}}
    asked = {"message": job, "channels": ["team"], "settings": settings, "deadline": 8.0}
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(asked).encode() + b"\n", capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    answer: Answers = json.loads(done.stdout)
    return answer


def test_a_summary_is_told_once_when_it_is_due(tmp_path: Path) -> None:
    """Nothing at the first start; then what was recorded since; one that did not arrive is due again."""
    week(tmp_path)
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        assert summarized(tmp_path, web, "fine") == {}
        (tmp_path / STAMP).write_text(json.dumps({"told_until": time.time() - 8 * 86400.0}))
        assert "team" in summarized(tmp_path, web, "gone")["failed"]
        assert "team" in summarized(tmp_path, web, "fine")["reached"]
        assert summarized(tmp_path, web, "fine") == {}
        web.shutdown()
    title, body = str(web.bodies["fine"]["title"]), str(web.bodies["fine"]["message"])
    assert "worked 5h, idle 3h" in title
    assert "live mode would have saved about 72.00 EUR" in title
    assert title.startswith("DRY RUN: ")
    assert "Live mode would have stopped it once" in body


@pytest.mark.parametrize("stamp", ["", "{}", "[]", '{"told_until": "x"}', '{"told_until": 9e12}'])
def test_a_stamp_that_says_nothing_begins_anew(tmp_path: Path, stamp: str) -> None:
    """A torn file, or one of a clock that was years ahead, keeps no summary away for ever."""
    week(tmp_path)
    (tmp_path / STAMP).write_text(stamp)
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        assert summarized(tmp_path, web, "fine") == {}
        web.shutdown()
    assert abs(json.loads((tmp_path / STAMP).read_text())["made"] - time.time()) < 60.0
    assert 0.0 <= time.time() - json.loads((tmp_path / STAMP).read_text())["told_until"] < 960.0


def test_a_history_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """Silence would look like a quiet week."""
    (tmp_path / FILE).write_text("no database")
    (tmp_path / STAMP).write_text(json.dumps({"told_until": time.time() - 8 * 86400.0}))
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        assert "team" in summarized(tmp_path, web, "fine")["reached"]
        web.shutdown()
    assert "no summary" in str(web.bodies["fine"]["title"])


def test_a_mail_password_never_goes_in_clear_unless_its_owner_says_so(tmp_path: Path) -> None:
    """`mailto://` with a password means no TLS to apprise; the documented line has it."""
    urls = {
        "bare": f"mailto://{CANARY}:{CANARY}pass@192.0.2.1?from=box@example.org&to=ann@example.org",
        "asked": f"mailto://{CANARY}:{CANARY}pass@127.0.0.1:1?from=box@example.org&to=ann@example.org",
    }
    channels = {name: {"urls": written(tmp_path, name, url)} for name, url in urls.items()}
    answer, printed = tell(tmp_path, channels, deadline=3.0)
    assert "would go over the network in cleartext (write mailtos://" in answer["failed"]["bare"]
    assert "clear" not in answer["failed"]["asked"]
    assert CANARY not in printed


def test_a_summary_that_was_made_before_goes_out_as_it_is(tmp_path: Path) -> None:
    """Somebody missed it: the history is not asked anew, which may be gone on since."""
    with Receiver() as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        urls = written(tmp_path, "urls", f"json://127.0.0.1:{web.server_port}/fine/x")
        answer, _ = tell(tmp_path, {"team": {"urls": urls}}, kind="summary", level="info")
        web.stopped.set()
        web.shutdown()
    assert answer["reached"] == {"team": "JSON"}
    assert web.bodies["fine"]["title"] == "box stops at 15:40"
