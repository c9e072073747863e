"""What a service that refuses is said to have refused: the cause in words, with the next step, and no more tries than may help."""

import json
import os
import re
import socketserver
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from costguard.clocks import boot_clock
from costguard.notify.answer import asked_to_wait
from costguard.notify.remote import patience
from costguard.notify.retry_after import LONGEST_WAIT_SECONDS, RetryAfter
from tests.faults.services import Answer, Asked, Script, Services, as_json

PATIENCE = 60.0
"""Seconds for what is over as soon as the service has answered: beside other tests a process may take ten of them to begin."""

TOKEN = "c4n4ry77c4n4ry77c4n4ry77"
SLACK = f"slack://xoxb-1234567890-1234567890-{TOKEN}/#gpu"
DISCORD = f"discord://{'1' * 18}/{TOKEN}{TOKEN}"
SNS = f"sns://AKIAC4N4RY/{TOKEN}/us-east-1/gpu"
SNS_HOST = "sns.us-east-1.amazonaws.com"
WARNING = {"id": "m1", "kind": "warning", "level": "critical", "title": "gpu-7 stops at 15:40", "body": "Say hold."}


def tell(
    folder: Path, urls: dict[str, str], environment: dict[str, str], *, seconds: float = PATIENCE, **job: Any
) -> tuple[dict[str, Any], str]:
    """Run the worker with these channels; what it answered, and everything that it printed."""
    channels = {}
    for name, url in urls.items():
        (folder / name).write_text(url + "\n")
        (folder / name).chmod(0o600)
        channels[name] = {"urls": f"file:{folder / name}"}
    whole = {
        "message": WARNING,
        "channels": list(urls),
        "settings": {"channels": channels, "runtime": str(folder)},
        "deadline": seconds,
        **job,
    }
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"], input=json.dumps(whole).encode() + b"\n",
        capture_output=True, check=True, timeout=2.0 * PATIENCE, env={**os.environ, **environment},
    )  # fmt: skip
    return {"reached": {}, "failed": {}, **json.loads(done.stdout)}, (done.stdout + done.stderr).decode()


def test_the_service_s_own_name_for_what_is_wrong(tmp_path: Path) -> None:
    """Slack refuses with 200, SNS in XML: both name the cause, which is said with what to do; each is asked once."""

    def slack(_asked: Asked, _before: int) -> Answer:
        return as_json(ok=False, error="not_in_channel")

    def sns(_asked: Asked, _before: int) -> Answer:
        return Answer(
            403,
            f"<ErrorResponse><Error><Code>AuthorizationError</Code><Message>{TOKEN}</Message></Error></ErrorResponse>",
        )

    with Services(tmp_path, {"slack.com": slack, SNS_HOST: sns}) as services:
        answer, printed = tell(tmp_path, {"slack": SLACK, "sns": SNS}, services.environment)
    assert "not_in_channel (invite the app into the channel)" in answer["failed"]["slack"]
    assert "AuthorizationError" in answer["failed"]["sns"]
    assert "sns:Publish" in answer["failed"]["sns"]
    assert (len(services.of("slack.com")), len(services.of(SNS_HOST))) == (1, 1)
    assert TOKEN not in printed


def test_a_title_that_a_service_cuts_stands_in_the_text_as_well(tmp_path: Path) -> None:
    """The subject of a topic has 99 characters, and the end of a summary's title says of which time it is."""
    published: list[dict[str, list[str]]] = []

    def sns(asked: Asked, _before: int) -> Answer:
        found = urllib.parse.parse_qs(asked.body.decode())
        if found["Action"] == ["CreateTopic"]:
            space, topic = "http://sns.amazonaws.com/doc/2010-03-31/", "arn:aws:sns:us-east-1:000:gpu"
            made = f"<CreateTopicResult><TopicArn>{topic}</TopicArn></CreateTopicResult>"
            return Answer(200, f'<CreateTopicResponse xmlns="{space}">{made}</CreateTopicResponse>')
        published.append(found)
        return Answer(200, "<PublishResponse></PublishResponse>")

    long = {**WARNING, "title": f"gpu-7: {'worked 30h, ' * 9}since Monday"}
    with Services(tmp_path, {SNS_HOST: sns}) as services:
        for message in (WARNING, long):
            answer, _ = tell(tmp_path, {"sns": SNS}, services.environment, message=message)
            assert list(answer["reached"]) == ["sns"]
    short, cut = published
    assert (short["Subject"], short["Message"]) == ([WARNING["title"]], [WARNING["body"]])
    assert len(cut["Subject"][0]) <= 99
    assert cut["Message"] == [f"{long['title']}\n\n{WARNING['body']}"]


def test_a_service_that_takes_everything_and_says_no_has_not_taken_it(tmp_path: Path) -> None:
    """200, and in the answer that nothing was done: else a stop would come of which nobody was warned. Each is asked once."""
    said = {
        "telegram": ("api.telegram.org", f"tgram://123456789:{TOKEN}{TOKEN}/9876543", {"ok": False, "error_code": 403}),
        "wecom": ("qyapi.weixin.qq.com", f"wecombot://{TOKEN}", {"errcode": 93000, "errmsg": TOKEN}),
        "webhook": ("hooks.example.org", f"jsons://hooks.example.org/{TOKEN}", {"error": f"no room {TOKEN}"}),
    }
    scripts: dict[str, Script] = {}
    for host, _, fields in said.values():
        scripts[host] = lambda _asked, _before, fields=fields: as_json(**fields)  # type: ignore[misc] # mypy knows no type of a default
    with Services(tmp_path, scripts) as services:
        answer, printed = tell(tmp_path, {name: url for name, (_, url, _) in said.items()}, services.environment)
    assert answer["reached"] == {}
    for name, (host, _, _) in said.items():
        assert f"{host} did not take it, and says so in its answer (HTTP 200)" in answer["failed"][name]
        assert len(services.of(host)) == 1
    assert TOKEN not in printed


def test_a_proxy_that_lets_nothing_through_is_named_as_the_cause(tmp_path: Path) -> None:
    """With its answer: 407 wants a login, 403 a rule, 502 another proxy. The service was never asked."""
    with Services(tmp_path, {}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD}, services.environment, seconds=8.0)
    words = "Discord: discord.com could not be reached (the proxy answers 502) (check this machine's network and proxy)"
    assert answer["failed"] == {"discord": words}


def test_only_a_name_is_kept_of_what_a_service_says(tmp_path: Path) -> None:
    """What is no name, or a piece of the address, may be a secret that comes back."""
    said = ["word " * 40, "c4n4ry", 7, None, {"error": "nested_one"}, "xoxb"]

    def slack(asked: Asked, _before: int) -> Answer:
        return as_json(ok=False, error=said[int(json.loads(asked.body)["channel"].removeprefix("#gpu"))])

    urls = {f"slack{number}": SLACK + str(number) for number in range(len(said))}
    with Services(tmp_path, {"slack.com": slack}) as services:
        answer, printed = tell(tmp_path, urls, services.environment, seconds=4.0)
    assert set(answer["failed"]) == set(urls)
    for secret in ("word word", "c4n4ry", "nested_one", "xoxb"):
        assert secret not in printed


def test_a_plug_in_that_asks_again_at_once_waits_as_it_was_asked_to(tmp_path: Path) -> None:
    """The plug-in for Discord repeats a message by itself, without a look at Retry-After."""

    def discord(_asked: Asked, before: int) -> Answer:
        return Answer(429, "{}", {"Retry-After": "2"}) if before == 0 else Answer(204)

    with Services(tmp_path, {"discord.com": discord}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD}, services.environment)
    first, second = services.of("discord.com")
    assert answer["reached"] == {"discord": "Discord"}
    assert second.at - first.at >= 2.0


def test_a_service_is_left_alone_as_long_as_it_asked_for(tmp_path: Path) -> None:
    """What one worker was told counts for the next one: within its time it waits, without enough time it does not ask."""

    def busy(_asked: Asked, _before: int) -> Answer:
        return Answer(429, "{}", {"Retry-After": "120"})

    with Services(tmp_path, {"discord.com": busy}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD}, services.environment)
        assert 110.0 < answer["waits"]["discord"] <= 120.0
        again, _ = tell(tmp_path, {"discord": DISCORD}, services.environment, message={**WARNING, "id": "m2"})
        assert re.search("asked senders to wait (9[0-9]|1[01][0-9]|120) s more", again["failed"]["discord"])
        assert 90.0 < again["waits"]["discord"] <= 120.0
        assert "discord" not in again.get("answered", {}), "it was not asked"
        assert len(services.asked) == 1


def test_a_message_waits_within_its_time_for_a_service_that_another_one_found_busy(tmp_path: Path) -> None:
    """Whichever guard sent that one: the file is all that is left of it."""
    with Services(tmp_path, {"discord.com": lambda _asked, _before: Answer(204)}) as services:
        until = boot_clock() + 5.0
        RetryAfter(str(tmp_path), "discord").keep(until)
        late, _ = tell(tmp_path, {"discord": DISCORD}, services.environment)
        assert late["reached"] == {"discord": "Discord"}
        assert services.asked[0].at >= until - boot_clock() + time.monotonic()


def test_a_delivery_under_way_heeds_what_another_one_was_asked_for(tmp_path: Path) -> None:
    """Of two messages about different matters the first one to ask is told to come back later: the other, between two tries, hears of it."""

    def discord(_asked: Asked, before: int) -> Answer:
        if before == 0:
            RetryAfter(str(tmp_path), "discord").keep(boot_clock() + 5.0)  # as the other delivery does
            return Answer(503)
        return Answer(204)

    with Services(tmp_path, {"discord.com": discord}) as services:
        told, _ = tell(tmp_path, {"discord": DISCORD}, services.environment, seconds=25.0)
        assert told["reached"] == {"discord": "Discord"}
        assert services.asked[1].at - services.asked[0].at >= 5.0


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("", 0.0), ("7", 7.0), (" 7 ", 7.0), ("-7", 0.0), ("soon", 0.0), ("99999999999999", LONGEST_WAIT_SECONDS),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0), ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0), ("Fri, 01 Jan 2100 00:00:00 GMT", LONGEST_WAIT_SECONDS),
    ],
)  # fmt: skip
def test_how_long_a_service_asks_to_wait(given: str, seconds: float) -> None:
    """Seconds or a date; a service whose clock is wrong silences nobody for long."""
    assert asked_to_wait(given, 60.0) == seconds


@pytest.mark.parametrize("left", [1.0, 2.0, 6.0, 9.0, 18.75, 40.0])
def test_the_answer_has_all_of_the_time(left: float) -> None:
    """Who may have taken a message is not asked again; whom nobody reached is, so that has a part of the time."""
    connect, read = patience(left)
    assert 1.0 <= connect <= min(8.0, max(1.0, left / 2.0))
    assert read == left


@pytest.mark.thorough
def test_a_service_that_is_as_slow_as_a_message_has_time_has_taken_it(tmp_path: Path) -> None:
    """Else it gets the message again and again, and whoever has it counts as not told."""

    def discord(_asked: Asked, _before: int) -> Answer:
        time.sleep(11.4)
        return Answer(204)

    with Services(tmp_path, {"discord.com": discord}) as services:
        told, _ = tell(tmp_path, {"discord": DISCORD}, services.environment, seconds=16.0)
        assert told["reached"] == {"discord": "Discord"}
        assert len(services.asked) == 1


LOADS_SLOWLY = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "apprise":
            sys.meta_path.remove(self)
            time.sleep(5.0)

sys.meta_path.insert(0, Slow())
"""


def test_the_time_in_which_the_library_loads_is_no_time_of_a_message(tmp_path: Path) -> None:
    """On a busy machine that takes long: a warning reached nobody, though each service was there."""
    (tmp_path / "sitecustomize.py").write_text(LOADS_SLOWLY)
    found = {"PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH", ""))))}
    with Services(tmp_path, {"discord.com": lambda _asked, _before: Answer(204)}) as services:
        told, _ = tell(tmp_path, {"discord": DISCORD}, {**services.environment, **found}, seconds=4.0)
    assert told["reached"] == {"discord": "Discord"}


def test_what_was_not_sent_for_want_of_time_is_no_fault_of_the_service(tmp_path: Path) -> None:
    """It asked for nothing."""
    with Services(tmp_path, {"discord.com": lambda _asked, _before: Answer(204)}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD}, services.environment, seconds=0.2)
        assert services.asked == []
    assert answer["failed"]["discord"] == "Discord: no time was left to send it"


@pytest.mark.parametrize(
    ("status", "times"), [(0, 1), (500, 2), (502, 2), (429, 2)], ids=["no answer", "failed", "bad gateway", "busy"]
)
def test_what_may_have_arrived_is_not_sent_again(tmp_path: Path, status: int, times: int) -> None:
    """A service that cuts the connection may have taken it, one that answers with an error has not."""

    def discord(_asked: Asked, before: int) -> Answer:
        if before:
            return Answer(204)
        if not status:
            raise ConnectionResetError
        return Answer(status)

    with Services(tmp_path, {"discord.com": discord}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD}, services.environment)
        assert len(services.of("discord.com")) == times
    if status:
        assert answer["reached"] == {"discord": "Discord"}
    else:
        words = "Discord: discord.com ended the connection without an answer (it may still have arrived)"
        assert answer["failed"]["discord"] == words


def test_mail_that_may_have_been_taken_is_not_sent_again(tmp_path: Path) -> None:
    """A server that has the whole text and says nothing; before that it is asked again."""
    for cut, taken in (("DATA", 1), ("MAIL", 0)):
        with mail_server({cut: ["", "250 fine"]}) as server:
            url = f"mailto://127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
            answer, _ = tell(tmp_path, {"mail": url}, {})
            assert server.commands.count(cut) == (1 if taken else 2)
            assert len(server.taken) == 1
        assert ("it may still have arrived" in str(answer["failed"])) is bool(taken)


@pytest.mark.parametrize(
    ("command", "words"),
    [("DATA", "did not answer in time (it may still have arrived)"), ("MAIL", "did not answer in time")],
)
def test_a_mail_server_that_says_nothing_has_not_hung_up(tmp_path: Path, command: str, words: str) -> None:
    """Who looks for a connection that is cut looks in the wrong place; the library calls both the same."""
    with mail_server({command: [SILENCE]}) as server:
        url = f"mailto://127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
        answer, _ = tell(tmp_path, {"mail": url}, {}, seconds=12.0)
    assert answer["failed"]["mail"] == f"E-Mail: 127.0.0.1 {words}"


SILENCE = "silence"
"""In the place of a reply: nothing is said, and nobody hangs up."""


class Mail(socketserver.ThreadingTCPServer):
    """Answers each command of a mail session by a table; by default it is pleased."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, replies: dict[str, list[str]], secured: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.replies, self.secured = replies, secured
        self.commands: list[str] = []
        self.taken: list[str] = []
        self.over = threading.Event()

    def reply(self, word: str, usual: str) -> str:
        """What it says to a command: the next of its list, of which the last one stays; empty where it hangs up."""
        self.commands.append(word)
        given = self.replies.get(word, [])
        return (given.pop(0) if len(given) > 1 else given[0]) if given else usual


class Session(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:
        """One session, as RFC 5321 has it."""
        self._say("220 here")
        while line := self.rfile.readline():
            word = line.split()[0].decode().upper()
            if word == "EHLO":
                self._say(self.server.reply("EHLO", "250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN"))
            elif word == "STARTTLS" and self.server.secured is not None:
                self._say("220 go on")
                try:
                    self.request = self.server.secured.wrap_socket(self.connection, server_side=True)
                except OSError:
                    return
                self.connection = self.request
                self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", buffering=0)
            elif word == "DATA":
                self._say("354 go on")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += self.rfile.readline()
                reply = self.server.reply("DATA", "250 fine")
                if reply.startswith("250") or not reply:
                    self.server.taken.append(text.decode())
                if not reply:
                    return
                self._say(reply)
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                reply = self.server.reply(word, "235 fine" if word == "AUTH" else "250 fine")
                if not reply:
                    return
                self._say(reply)

    def _say(self, reply: str) -> None:
        if reply == SILENCE:
            self.server.over.wait(PATIENCE)
            raise ConnectionAbortedError
        self.wfile.write(reply.encode() + b"\r\n")


@contextmanager
def mail_server(replies: dict[str, list[str]], secured: ssl.SSLContext | None = None) -> Iterator[Mail]:
    """A mail server on loopback."""
    with Mail(replies, secured) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.over.set()
        server.shutdown()


@pytest.mark.parametrize(
    ("replies", "words", "tries"),
    [
        ({"AUTH": ["535 5.7.8 no such password"]}, "rejects the user name or password (535) (correct the user name and password", 1),
        ({"RCPT": ["550 no such user"]}, "refuses the recipient (550 no such user) (correct to= in the address)", 1),
        ({"MAIL": ["553 not yours"]}, "refuses the sender (553 not yours) (correct from= in the address)", 1),
        ({"DATA": ["554 spam"]}, "refuses the message (554 spam)", 1),
    ],
)  # fmt: skip
def test_what_a_mail_server_refuses(tmp_path: Path, replies: dict[str, list[str]], words: str, tries: int) -> None:
    """By its step: who, to whom, what; none of that passes, so it is tried once."""
    with mail_server(replies) as server:
        url = f"mailto://ann:{TOKEN}@127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
        answer, printed = tell(tmp_path, {"mail": url}, {})
        assert words in answer["failed"]["mail"]
        assert server.commands.count(next(iter(replies))) == tries
    assert TOKEN not in printed


@pytest.mark.parametrize(
    ("offer", "address", "words"),
    [
        ("250-here\r\n250 STARTTLS", "mailto://{user}@127.0.0.1", "127.0.0.1 takes no login without TLS (write mailtos:// instead of mailto:// in the address)"),
        ("250-here\r\n250 AUTH PLAIN", "mailtos://{user}@127.0.0.1", "127.0.0.1 offers no STARTTLS (check the port; mode=ssl"),
    ],
)  # fmt: skip
def test_what_a_mail_server_does_not_offer(tmp_path: Path, offer: str, address: str, words: str) -> None:
    """Most take a password only after STARTTLS, which the scheme of the address decides: that is named as the cause."""
    with mail_server({"EHLO": [offer]}) as server:
        place = address.format(user=f"ann:{TOKEN}")
        url = f"{place}:{server.server_address[1]}?from=box@example.org&to=ann@example.org"
        answer, printed = tell(tmp_path, {"mail": url}, {})
    assert words in answer["failed"]["mail"]
    assert TOKEN not in printed


def test_a_greylist_costs_no_picture_and_no_message(tmp_path: Path) -> None:
    """A server that asks to come back later gets the same again: whole, and nothing is said against the picture."""
    replies = {"RCPT": ["451 4.7.1 greylisted", "250 fine"]}
    with mail_server(replies) as server:
        url = f"mailto://127.0.0.1:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=insecure"
        message = {"id": "m1", "kind": "test", "level": "critical", "title": "gpu-7 stops", "body": "Say hold."}
        answer, _ = tell(tmp_path, {"mail": url}, {}, message=message, history=str(tmp_path), seconds=40.0)
        assert answer["reached"] == {"mail": "E-Mail"}
        assert ["image/png" in text for text in server.taken] == [True]


def test_a_mail_server_that_nobody_certifies(tmp_path: Path) -> None:
    """It is named as that, and asked once: no further try makes a certificate better."""
    secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(secured)
    with mail_server({}, secured) as server:
        url = f"mailtos://localhost:{server.server_address[1]}?from=box@example.org&to=ann@example.org&mode=starttls"
        answer, _ = tell(tmp_path, {"mail": url}, {})
    assert "localhost has an untrusted certificate" in answer["failed"]["mail"]
    assert "CA certificates" in answer["failed"]["mail"]


def test_who_has_taken_a_message_is_spared_by_a_further_try(tmp_path: Path) -> None:
    """A worker that is killed while another service hangs: its next try asks only the one that has not answered."""
    hang = threading.Event()

    def slow(_asked: Asked, before: int) -> Answer:
        hang.wait(20.0 if before == 0 else 0.0)
        return Answer(204)

    def slack(_asked: Asked, _before: int) -> Answer:
        return as_json(ok=True)

    with Services(tmp_path, {"slack.com": slack, "discord.com": slow}) as services:
        urls = {"slack": SLACK, "discord": DISCORD}
        for name, url in urls.items():
            (tmp_path / name).write_text(url + "\n")
            (tmp_path / name).chmod(0o600)
        channels = {name: {"urls": f"file:{tmp_path / name}"} for name in urls}
        facts = {"incident": "b-i1", "machine": "gpu-7"}
        job = {
            "message": {"id": "m1", "kind": "warning", "level": "critical", "facts": facts},
            "channels": list(urls), "settings": {"channels": channels, "runtime": str(tmp_path)}, "deadline": 20.0,
        }  # fmt: skip
        worker = subprocess.Popen(
            [sys.executable, "-m", "costguard.notify.worker"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            env={**os.environ, **services.environment},
        )  # fmt: skip
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        record = tmp_path / "delivered" / "b-i1-warning"
        end = time.monotonic() + 20.0
        while not (record.exists() and '\n["slack"' in record.read_text() and services.of("discord.com")):
            assert time.monotonic() < end
            time.sleep(0.02)
        worker.kill()
        worker.wait()
        worker.stdin.close()
        hang.set()
        job["message"] = {"id": "m2", "kind": "warning", "level": "critical", "facts": {**facts, "attempts": 1}}
        again = subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"], input=json.dumps({**job, "again": True}).encode() + b"\n",
            capture_output=True, check=True, env={**os.environ, **services.environment},
        )  # fmt: skip
        assert json.loads(again.stdout)["reached"] == {"slack": "Slack (from an earlier try)", "discord": "Discord"}
        assert (len(services.of("slack.com")), len(services.of("discord.com"))) == (1, 2)
        anew = subprocess.run(
            [sys.executable, "-m", "costguard.notify.worker"], input=json.dumps(job).encode() + b"\n",
            capture_output=True, check=True, env={**os.environ, **services.environment},
        )  # fmt: skip
        assert json.loads(anew.stdout)["reached"] == {"slack": "Slack", "discord": "Discord"}
        assert len(services.of("slack.com")) == 2, "a new warning of the same incident goes to all"
