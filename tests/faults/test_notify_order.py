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

from costguard.clocks import boot_clock
from costguard.notify.delivery_record import EARLIER_SECONDS, LONGEST_TURN_SECONDS, DeliveryRecord
from costguard.notify.job import LATER_CAME_FIRST, LEFT_OUT, Draft, Overtaking
from costguard.process.wire import to_line
from tests.faults.services import Answer, Asked, Services
from tests.faults.test_notify_failure import DISCORD, SNS, SNS_HOST, tell

PATIENCE = 60.0
OF_INCIDENT = {"incident": "i1"}
ACTING, DONE = "gpu-7 is being stopped now", "gpu-7: stop done"


class Chat(ThreadingHTTPServer):
    """Remembers the titles in their order and when they came (monotonic), refuses some, and takes its time to answer (``slow`` seconds)."""

    daemon_threads = True

    def __init__(self, refused: str = "", slow: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), _Room)
        self.refused, self.slow = refused, slow
        self.titles: list[str] = []
        self.came: list[float] = []


class _Room(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        title = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["title"]
        self.server.titles.append(title)
        self.server.came.append(time.monotonic())
        time.sleep(self.server.slow)
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
        self, number: int, kind: str, title: str, *after: dict[str, Any], lines: bytes = b"", **more: Any
    ) -> "subprocess.Popen[bytes]":
        """Start the worker of a message, with its job, and what the guard writes after it."""
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
        worker.stdin.write(json.dumps(job).encode() + b"\n" + lines)
        worker.stdin.flush()
        return worker

    @staticmethod
    def draft(number: int, kind: str) -> dict[str, Any]:
        """As the guard names a message."""
        return {"id": f"m{number}", "kind": kind, "level": "warning", "facts": OF_INCIDENT}

    def ended(self, worker: "subprocess.Popen[bytes]") -> None:
        """It has told all."""
        assert self.answer_of(worker)

    @staticmethod
    def answer_of(worker: "subprocess.Popen[bytes]") -> dict[str, Any]:
        """What it says at its end."""
        assert worker.stdout is not None
        found: dict[str, Any] = json.loads(worker.stdout.readline())
        worker.wait(PATIENCE)
        return found

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
        assert time.monotonic() - began < LONGEST_TURN_SECONDS + 14.0, "a busy machine is slow to start it"


@pytest.mark.parametrize("refused", [False, True])
def test_the_beginning_is_not_read_after_the_end(tmp_path: Path, refused: bool) -> None:
    """On a machine so busy that nobody waits for its process any longer; where the end was refused, it is better than nothing."""
    with two(tmp_path, refused=DONE if refused else "") as made:
        last = made.begin(2, "done", DONE, made.draft(1, "acting"), told=boot_clock() - LONGEST_TURN_SECONDS)
        made.ended(last)
        later = Overtaking(leave=True, later=Draft("m2", "done", facts=OF_INCIDENT))
        answer = made.answer_of(made.begin(1, "acting", ACTING, lines=to_line(later) + b"\n"))
        assert made.chat.titles == [DONE, *[ACTING] * refused]
        screen = made.shown()
    assert DONE in screen
    assert ACTING not in screen
    if refused:
        assert answer["beside"][LEFT_OUT] == {"terminal": LATER_CAME_FIRST}
    else:
        assert answer["reached"] == {"no channel": f"{LATER_CAME_FIRST} (acting)"}


def test_what_was_refused_is_waited_for_no_longer(tmp_path: Path) -> None:
    """The first delivery is over, though the chat has not taken it."""
    with two(tmp_path, refused=ACTING) as made:
        made.ended(made.begin(1, "acting", ACTING))
        made.ended(made.begin(2, "done", DONE, made.draft(1, "acting")))
        assert made.chat.titles == [ACTING, DONE]
    record = DeliveryRecord(
        str(tmp_path), Draft("m2", "done", facts=OF_INCIDENT), again=False,
        after={"team": [Draft("m1", "acting", facts=OF_INCIDENT)]},
    )  # fmt: skip
    began = time.monotonic()
    record.await_turn("team", 0, boot_clock())
    assert time.monotonic() - began < EARLIER_SECONDS / 2.0


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


@contextmanager
def rooms(folder: Path, **slow: float) -> Iterator[dict[str, Chat]]:
    """Several chats, which take so long to answer."""
    made = {name: Chat(slow=seconds) for name, seconds in slow.items()}
    for name, chat in made.items():
        threading.Thread(target=chat.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        (folder / name).write_text(f"json://127.0.0.1:{chat.server_port}/\n")
        (folder / name).chmod(0o600)
    try:
        yield made
    finally:
        for chat in made.values():
            chat.shutdown()
            chat.server_close()


def tell_all(folder: Path, names: list[str], kinds: list[str]) -> list[dict[str, Any]]:
    """What became of messages of one incident that the guard tells at the same moment; the processes begin in any order, the last one first."""
    settings = {"channels": {name: {"urls": f"file:{folder / name}"} for name in names}, "runtime": str(folder)}
    drafts = [Two.draft(number, kind) | {"id": f"{number}-{kind}"} for number, kind in enumerate(kinds)]
    workers = []
    for number, draft in reversed(list(enumerate(drafts))):
        job = {
            "message": draft | {"title": str(number), "body": "x"}, "channels": names, "settings": settings, "deadline": 25.0,
            "after": [{"message": one, "channels": names} for one in drafts[:number]], "told": boot_clock(),
        }  # fmt: skip
        worker = subprocess.Popen(
            [sys.executable, "-m", "costguard.notify.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        workers.append(worker)
        time.sleep(0.2)
    found = []
    for worker in reversed(workers):
        assert worker.stdout is not None
        found.append({"reached": {}, "failed": {}, **json.loads(worker.stdout.readline())})
        worker.kill()
        worker.communicate()
    return found


EIGHT = ["warning", "held", "hold_ended", "acting", "accepted", "stopping", "failed", "done"]


@pytest.mark.timeout(120)
def test_many_messages_at_once_arrive_in_their_order_and_a_quick_chat_waits_for_no_slow_one(tmp_path: Path) -> None:
    """One answers after nine seconds, as on a bad day, and has each of them once; the other has all of them before that one said a word."""
    kinds = [
        kind for kind in EIGHT if kind not in {"accepted", "stopping"}
    ]  # which who has read the beginning is spared
    with rooms(tmp_path, quick=0.0, slow=9.0) as made:
        answers = tell_all(tmp_path, ["quick", "slow"], kinds)
        titles = [str(number) for number in range(len(kinds))]
        assert made["quick"].titles == titles
        assert made["slow"].titles == titles
        assert made["quick"].came[-1] < made["slow"].came[0] + 9.0
        assert made["slow"].came[-1] - made["slow"].came[0] < LONGEST_TURN_SECONDS + 2.0
    assert [sorted(answer["reached"]) for answer in answers] == [["quick", "slow"]] * len(kinds), answers


@pytest.mark.timeout(120)
def test_waiting_takes_nothing_of_the_time_for_an_answer(tmp_path: Path) -> None:
    """A service that needs twenty-two seconds takes a message that had to wait for another one there as it takes any."""
    with rooms(tmp_path, slow=22.0) as made:
        answers = tell_all(tmp_path, ["slow"], ["warning", "cancelled"])
        assert made["slow"].titles == ["0", "1"]
    assert [list(answer["reached"]) for answer in answers] == [["slow"], ["slow"]], answers


def test_a_message_that_waits_for_its_turn_in_a_fleet_leaves_before_what_a_person_did(tmp_path: Path) -> None:
    """The warning had some seconds to go; the hold that ends it leaves at once, and nobody waits for those seconds."""
    with two(tmp_path) as made:
        first = made.begin(1, "warning", ACTING, pause=9.0)
        began = time.monotonic()
        last = made.begin(2, "held", DONE, made.draft(1, "warning"))
        assert first.stdin is not None
        first.stdin.write(to_line(Overtaking(leave=True)) + b"\n")
        first.stdin.flush()
        made.ended(last)
        made.ended(first)
        assert made.chat.titles == [ACTING, DONE]
        assert time.monotonic() - began < 8.0


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
