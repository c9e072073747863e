"""People read what came first first: each message has a process of its own, and the one that brings the earlier may be slow to start."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from costguard.notify.delivered import EARLIER_SECONDS, Delivered
from costguard.notify.job import Draft
from tests.faults.services import Answer, Asked, Services
from tests.faults.test_notify_failure import DISCORD, SNS, SNS_HOST, tell

PATIENCE = 60.0
OF_INCIDENT = {"incident": "i1"}
ACTING, DONE = "gpu-7 is being stopped now", "gpu-7: stop done"


class Chat(ThreadingHTTPServer):
    """Remembers the titles in their order, and refuses some."""

    daemon_threads = True

    def __init__(self, refused: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Room)
        self.refused = refused
        self.titles: list[str] = []


class _Room(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        title = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["title"]
        self.server.titles.append(title)
        self.send_response(403 if title == self.server.refused else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


class Two:
    """A chat, a terminal, and the workers of two messages of one incident."""

    def __init__(self, folder: Path, chat: Chat) -> None:
        self.folder, self.chat = folder, chat
        (folder / "team").write_text(f"json://127.0.0.1:{chat.server_port}/\n")
        (folder / "team").chmod(0o600)
        self.screen, self._own = pty.openpty()
        self.workers: list[subprocess.Popen[bytes]] = []

    def begin(
        self, number: int, kind: str, title: str, *after: dict[str, Any], **more: Any
    ) -> "subprocess.Popen[bytes]":
        """Start the worker of a message, with its job."""
        settings = {
            "channels": {"team": {"urls": f"file:{self.folder / 'team'}"}}, "runtime": str(self.folder), "tty": os.ttyname(self._own),
        }  # fmt: skip
        job = {
            "message": self.draft(number, kind) | {"title": title, "body": "x"},
            "channels": ["terminal", "team"], "settings": settings, "deadline": 25.0,
            "after": [{"message": one, "channels": ["terminal", "team"]} for one in after], **more,
        }  # fmt: skip
        worker = subprocess.Popen(
            [sys.executable, "-m", "costguard.notify.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.workers.append(worker)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        return worker

    @staticmethod
    def draft(number: int, kind: str) -> dict[str, Any]:
        """As the guard names a message."""
        return {"id": f"m{number}", "kind": kind, "level": "warning", "facts": OF_INCIDENT}

    def ended(self, worker: "subprocess.Popen[bytes]") -> None:
        """It has told all."""
        assert worker.stdout is not None
        assert worker.stdout.readline()
        worker.wait(PATIENCE)

    def shown(self) -> str:
        """What the terminal has."""
        seen = b""
        while select.select([self.screen], [], [], 0.2)[0]:
            seen += os.read(self.screen, 65536)
        return seen.decode()

    def close(self) -> None:
        """End what is left."""
        for worker in self.workers:
            worker.kill()
            worker.communicate()
        os.close(self.screen)
        os.close(self._own)


@contextmanager
def two(folder: Path, refused: str = "") -> Iterator[Two]:
    """Both of them, and the chat that answers."""
    with Chat(refused) as chat:
        threading.Thread(target=chat.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        made = Two(folder, chat)
        try:
            yield made
        finally:
            made.close()
            chat.shutdown()


def test_the_end_is_read_after_the_beginning_at_the_terminal_and_in_the_chat(tmp_path: Path) -> None:
    """The command took milliseconds, and the process that says that it runs starts a second after the one that says that it is done."""
    with two(tmp_path) as made:
        last = made.begin(2, "done", DONE, made.draft(1, "acting"))
        time.sleep(1.0)
        assert made.chat.titles == []
        first = made.begin(1, "acting", ACTING)
        made.ended(first)
        made.ended(last)
        assert made.chat.titles == [ACTING, DONE]
        screen = made.shown()
        assert 0 <= screen.find(ACTING) < screen.find(DONE)


def test_who_brings_the_first_and_is_killed_holds_up_nobody_for_long(tmp_path: Path) -> None:
    """What is true now is worth more than the order."""
    with two(tmp_path) as made:
        first = made.begin(1, "acting", ACTING, pause=20.0)
        last = made.begin(2, "done", DONE, made.draft(1, "acting"))
        os.kill(first.pid, signal.SIGKILL)
        began = time.monotonic()
        made.ended(last)
        assert made.chat.titles == [DONE]
        assert time.monotonic() - began < EARLIER_SECONDS + 14.0, "a busy machine is slow to start it"


def test_what_was_refused_is_waited_for_no_longer(tmp_path: Path) -> None:
    """The first delivery is over, though the chat has not taken it."""
    with two(tmp_path, refused=ACTING) as made:
        made.ended(made.begin(1, "acting", ACTING))
        made.ended(made.begin(2, "done", DONE, made.draft(1, "acting")))
        assert made.chat.titles == [ACTING, DONE]
    record = Delivered(
        str(tmp_path), Draft("m2", "done", facts=OF_INCIDENT), again=False,
        after={"team": [Draft("m1", "acting", facts=OF_INCIDENT)]},
    )  # fmt: skip
    began = time.monotonic()
    record.await_order("team", 0, PATIENCE)
    assert time.monotonic() - began < EARLIER_SECONDS


def test_an_earlier_try_of_the_same_message_is_another_delivery(tmp_path: Path) -> None:
    """Its record has the same name; the one that is under way now has its own end."""
    with two(tmp_path, refused=ACTING) as made:
        made.ended(made.begin(1, "acting", ACTING))
        made.chat.refused = ""
        last = made.begin(3, "done", DONE, made.draft(2, "acting"))
        time.sleep(1.0)
        made.ended(made.begin(2, "acting", ACTING, again=True))
        made.ended(last)
        assert made.chat.titles == [ACTING, ACTING, DONE]


@pytest.mark.timeout(60)
def test_of_a_pause_that_a_service_asked_for_only_the_rest_is_left_at_the_end(tmp_path: Path) -> None:
    """Another service takes its time to answer, and the guard hears of both at once: the first is not left alone for longer than it asked."""

    def slow(_asked: Asked, _before: int) -> Answer:
        time.sleep(5.0)
        return Answer(204)

    busy = {SNS_HOST: lambda _asked, _before: Answer(429, "", {"Retry-After": "100"})}
    with Services(tmp_path, {"discord.com": slow, **busy}) as services:
        answer, _ = tell(tmp_path, {"discord": DISCORD, "sns": SNS}, services.environment, seconds=30.0)
    assert answer["reached"] == {"discord": "Discord"}
    assert 60.0 < answer["waits"]["sns"] <= 95.5
