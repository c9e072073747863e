"""Services as strict as the real ones, which stop a message at a step of its way: a mail server, Slack, Teams, PagerDuty and others.

Each post is kept with what of it the sender could know: whether it was taken, and whether the answer left.
"""

import email
import email.policy
import json
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from tests.faults.services import Answer, Asked, Services, as_json

PATIENCE = 120.0
"""Seconds for which a step is kept shut at most."""

Step = Literal["before", "taken", "answered", "leaving"]
"""Before the message is sent; when the service has it and has not answered; when the answer has left; at the end of a mail session."""


class Post(NamedTuple):
    """One message that a service took: its first line, all of its text, the service's key against doubles, and when (monotonic)."""

    service: str
    title: str
    text: str
    key: str
    at: float


class Gate:
    """Lets every message pass, but for the next one of a service at a step, which waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shut: dict[tuple[str, Step], str] = {}
        self.arrived, self.open = threading.Event(), threading.Event()

    def shut(self, service: str, step: Step, word: str = "") -> None:
        """Stop the next message of the service there; one that has the word, where the step knows it."""
        self.arrived.clear()
        self.open.clear()
        with self._lock:
            self._shut = {(service, step): word}

    def forget(self) -> None:
        """Stop nobody any more, and let go on who waits."""
        with self._lock:
            self._shut = {}
        self.open.set()

    def reach(self, service: str, step: Step, text: str = "") -> None:
        """A message comes to a step."""
        with self._lock:
            word = self._shut.get((service, step))
            if word is None or (step != "before" and word not in text):
                return
            self._shut = {}
        self.arrived.set()
        self.open.wait(PATIENCE)


def text_of(value: object) -> list[str]:
    """Every string in a document, in its order."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for one in inner for text in text_of(one)]


class Refused(Exception):
    """The service does not take such a message; with its answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body)
        self.answer = answer


def _document(asked: Asked, bad: Answer) -> dict[str, Any]:
    try:
        found = json.loads(asked.body)
    except ValueError:
        raise Refused(bad) from None
    if not isinstance(found, dict):
        raise Refused(bad)
    return found


def slack(asked: Asked) -> tuple[str, str, str, Answer]:
    """An incoming webhook: "ok" as text; "invalid_payload" and "no_text" with 400."""
    found = _document(asked, Answer(400, "invalid_payload"))
    attached = found.get("attachments") or [{}]
    if not (found.get("text") or any(one.get("text") or one.get("title") for one in attached)):
        raise Refused(Answer(400, "no_text"))
    title = str(attached[0].get("title") or attached[0].get("fallback") or found.get("text"))
    return title, "\n".join(text_of(found)), "", Answer(200, "ok")


def teams(asked: Asked) -> tuple[str, str, str, Answer]:
    """A workflow of Power Automate: 202 without a body for a message with an adaptive card; 400 for anything else."""
    bad = as_json(400, error={"code": "TriggerInputSchemaMismatch", "message": "The input body is not valid."})
    found = _document(asked, bad)
    cards = [one for one in found.get("attachments", ()) if "card.adaptive" in str(one.get("contentType"))]
    if found.get("type") != "message" or not cards:
        raise Refused(bad)
    words = [text for text in text_of(cards[0]["content"]["body"]) if " " in text]
    return words[0], "\n".join(words), "", Answer(202)


INVALID_EVENT = Answer(400, '{"status": "invalid event", "message": "Event object is invalid"}')


def pagerduty(asked: Asked) -> tuple[str, str, str, Answer]:
    """Events v2: 202 with the key of the alert; 400 for an event without what one must have."""
    found = _document(asked, INVALID_EVENT)
    payload = found.get("payload") or {}
    sound = (
        len(str(found.get("routing_key"))) == 32
        and found.get("event_action") == "trigger"
        and 0 < len(str(payload.get("summary") or "")) <= 1024
        and payload.get("source")
        and payload.get("severity") in {"critical", "error", "warning", "info"}
        and len(str(found.get("dedup_key") or "")) <= 255
    )
    if not sound:
        raise Refused(INVALID_EVENT)
    key = str(found.get("dedup_key") or f"made-{asked.at}")
    words = "\n".join(text_of(payload))
    return (
        str(payload["summary"]).splitlines()[0],
        words,
        key,
        Answer(202, json.dumps({"status": "success", "message": "Event processed", "dedup_key": key})),
    )


HOSTS: Mapping[str, tuple[str, Callable[[Asked], tuple[str, str, str, Answer]]]] = {
    "slack": ("hooks.slack.com", slack),
    "teams": ("prod-42.westus.logic.azure.com", teams),
    "pagerduty": ("events.pagerduty.com", pagerduty),
}
ADDRESSES = {
    "slack": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7Q9/",
    "teams": "workflows://prod-42.westus.logic.azure.com/643e69f83c8944438d68119179a10a64/KMF7JQ2HChtMnhIRGO0zl9C3aY9Zzl1rmWJFFFB_8rA/",
    "pagerduty": f"pagerduty://{'a1b2c3d4' * 4}@APIKEY0000",
}
"""By service: where it lives, and how apprise writes its address."""


class Receivers(Services):
    """All of them on loopback; ``posts`` is what they took, ``answered`` which of it they have answered, in order."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {host: self._script(name) for name, (host, _) in HOSTS.items()})
        self.gate = Gate()
        self.posts: list[Post] = []
        self.answered: list[Post] = []
        self.cut_answers = b""  # what services of the web say before they hang up; empty: all of it
        self._last = threading.local()
        self.mail = Mail(self)
        self._authority.issue_cert("localhost").configure_cert(self.mail.secured)

    @property
    def environment(self) -> dict[str, str]:
        """What leads a program here; mail has its certificates from elsewhere than the web."""
        return {**super().environment, "SSL_CERT_FILE": str(self._bundle), "NO_PROXY": "", "no_proxy": ""}

    def address(self, service: str) -> str:
        """As apprise writes it."""
        if service == "mail":
            return f"mailtos://ann:pw@localhost:{self.mail.server_address[1]}/?from=gpu@example.org&to=team@example.org&mode=starttls"
        return ADDRESSES[service]

    def of_service(self, service: str) -> list[Post]:
        """What it took."""
        return [post for post in self.posts if post.service == service]

    def take(self, service: str, title: str, text: str, key: str = "") -> Post:
        """A service has a whole message."""
        post = Post(service, title, text, key, time.monotonic())
        self.posts.append(post)
        self.gate.reach(service, "taken", title)
        return post

    def gave(self, post: Post) -> None:
        """Its answer has left."""
        self.answered.append(post)
        self.gate.reach(post.service, "answered", post.title)

    def _script(self, name: str) -> Callable[[Asked, int], Answer]:
        def script(asked: Asked, _before: int) -> Answer:
            self._last.post = None
            try:
                title, text, key, answer = HOSTS[name][1](asked)
            except Refused as refused:
                return refused.answer
            self._last.post = self.take(name, title, text, key)
            return answer

        return script

    def _serve(self, host: str, connection: socket.socket) -> None:
        name = next(name for name, (where, _) in HOSTS.items() if where == host)
        self.gate.reach(name, "before")
        super()._serve(host, connection)

    def _answer(self, file: Any, answer: Answer) -> None:
        if self.cut_answers:
            file.write(self.cut_answers)
            file.flush()
            raise ConnectionResetError
        super()._answer(file, answer)
        if (post := getattr(self._last, "post", None)) is not None:
            self.gave(post)

    def __enter__(self) -> Self:
        threading.Thread(target=self.mail.serve_forever, args=(0.05,), daemon=True).start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self.gate.forget()
        self.mail.shutdown()
        self.mail.server_close()
        super().__exit__(*error)


class Mail(socketserver.ThreadingTCPServer):
    """A mail server that takes nothing before STARTTLS and a login (RFC 5321, 3207, 4954)."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, receivers: Receivers) -> None:
        super().__init__(("127.0.0.1", 0), Session)
        self.receivers = receivers
        self.secured = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.replies: dict[str, list[str]] = {}
        self.last_words = ""  # what it says of a message before it hangs up; empty: that it took it

    def handle_error(self, *_: object) -> None:
        """A client that was killed is no news."""


class Session(socketserver.StreamRequestHandler):
    server: Mail

    def handle(self) -> None:  # noqa: C901 - one branch for each command
        """One session."""
        self.server.receivers.gate.reach("mail", "before")
        secure = login = False
        sender, to = "", list[str]()
        self._say("220 mx.example.org ESMTP")
        while line := self.rfile.readline(4096):
            verb = line.split()[0].decode("ascii", "replace").upper() if line.split() else ""
            given = self.server.replies.get(verb)
            if given:
                self._say(given.pop(0))
                continue
            if verb == "EHLO":
                self._say(
                    "250-mx.example.org\r\n250-SIZE 10485760\r\n"
                    + ("250 AUTH PLAIN LOGIN" if secure else "250 STARTTLS")
                )
            elif verb == "STARTTLS" and not secure:
                self._say("220 2.0.0 ready")
                secured = self.server.secured.wrap_socket(self.connection, server_side=True)
                self.request = self.connection = secured
                self.rfile, self.wfile = secured.makefile("rb"), secured.makefile("wb")
                secure = True
            elif not secure and verb != "QUIT":
                self._say("530 5.7.0 Must issue a STARTTLS command first")
            elif verb == "AUTH":
                login = True
                self._say("235 2.7.0 fine")
            elif not login and verb not in {"QUIT", "RSET", "NOOP"}:
                self._say("530 5.7.0 Authentication required")
            elif verb == "MAIL":
                sender, to = line.decode(), []
                self._say("250 2.1.0 fine")
            elif verb == "RCPT":
                to.append(line.decode())
                self._say("250 2.1.5 fine" if sender else "503 5.5.1 MAIL first")
            elif verb == "DATA" and to:
                self._data()
            elif verb in {"RSET", "NOOP"}:
                self._say("250 2.0.0 fine")
            elif verb == "QUIT":
                self.server.receivers.gate.reach("mail", "leaving")
                self._say("221 2.0.0 bye")
                return
            else:
                self._say("503 5.5.1 bad sequence of commands")

    def _data(self) -> None:
        self._say("354 go on")
        data = b""
        while not data.endswith(b"\r\n.\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            data += line
        given = self.server.replies.get("MESSAGE")
        if given:
            self._say(given.pop(0))
            return
        message = email.message_from_bytes(data, policy=email.policy.default)
        body = message.get_body(("plain", "html"))
        text = body.get_content() if body is not None else ""
        post = self.server.receivers.take("mail", str(message["Subject"]), text, str(message["Message-ID"]))
        if self.server.last_words:
            self.wfile.write(self.server.last_words.encode())
            self.wfile.flush()
            raise ConnectionResetError
        self._say("250 2.0.0 queued")
        self.server.receivers.gave(post)

    def _say(self, reply: str) -> None:
        self.wfile.write(reply.encode() + b"\r\n")
        self.wfile.flush()
