"""People never read last what is not so any more: a message that a later one contradicts is tried no more, wherever its worker is."""

import json
import os
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
from costguard.notify.job import Draft, Overtaking
from costguard.notify.retry_after import RetryAfter
from costguard.process.wire import to_line

PATIENCE = 60.0
STOP_TRYING = to_line(Overtaking(later=Draft("m2", "held")))


class Busy(ThreadingHTTPServer):
    """Takes nothing; with ``wait`` it asks to be left alone for so long."""

    daemon_threads = True

    def __init__(self, wait: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.wait = wait
        self.asked = threading.Semaphore(0)
        self.times = 0


class _Web(BaseHTTPRequestHandler):
    server: Busy

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(429 if self.server.wait else 503)
        if self.server.wait:
            self.send_header("Retry-After", str(self.server.wait))
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.server.times += 1
        self.server.asked.release()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


@contextmanager
def telling(folder: Path, server: Busy, **job: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The worker, with one channel and its job not yet written."""
    (folder / "team").write_text(f"json://127.0.0.1:{server.server_port}/\n")
    (folder / "team").chmod(0o600)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    worker = subprocess.Popen(
        [sys.executable, "-m", "costguard.notify.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    )
    yield worker
    worker.kill()
    worker.communicate()
    server.shutdown()
    server.server_close()


def job(folder: Path, **more: Any) -> bytes:
    """A warning over that channel, with a minute for it."""
    settings = {"channels": {"team": {"urls": f"file:{folder / 'team'}"}}, "runtime": str(folder)}
    message = {"id": "m1", "kind": "warning", "level": "warning", "title": "gpu-7 will be stopped", "body": "Hold it."}
    whole = {"message": message, "channels": ["team"], "settings": settings, "deadline": 60.0, **more}
    return json.dumps(whole).encode() + b"\n"


def answer(worker: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What it says at its end; it ends by itself, whatever else it still listens for."""
    assert worker.stdout is not None
    found: dict[str, Any] = json.loads(worker.stdout.readline())
    assert worker.wait(PATIENCE) in {0, 1}
    return found


def write(worker: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert worker.stdin is not None
    worker.stdin.write(data)
    worker.stdin.flush()


@pytest.mark.parametrize("wait", [0, 20])
def test_no_further_try_of_what_a_later_message_contradicts(tmp_path: Path, wait: int) -> None:
    """The service fails, or asks to wait; meanwhile somebody holds the machine. What was on its way comes no more, and is said at once."""
    with Busy(wait) as server, telling(tmp_path, server) as worker:
        write(worker, job(tmp_path))
        assert server.asked.acquire(timeout=PATIENCE)
        began = time.monotonic()
        write(worker, STOP_TRYING + b"\n")
        found = answer(worker)
        assert "a later message says how it stands" in found["failed"]["team"]
        assert server.times <= 2, "one try may have begun before"
        assert time.monotonic() - began < 10.0


@pytest.mark.parametrize("again", [True, False])
def test_what_has_not_left_yet_does_not(tmp_path: Path, again: bool) -> None:
    """A further try that is still made ready, or one that waits because its service wants to be left alone."""
    if not again:
        RetryAfter(str(tmp_path), "team").keep(boot_clock() + 20.0)
    with Busy() as server, telling(tmp_path, server) as worker:
        write(worker, job(tmp_path, again=again) + STOP_TRYING + b"\n")
        assert "a later message says how it stands" in answer(worker)["failed"]["team"]
        assert server.times == 0


def test_a_first_try_is_made_in_any_case(tmp_path: Path) -> None:
    """Who reads of the end of a countdown has read of its beginning."""
    with Busy() as server, telling(tmp_path, server) as worker:
        write(worker, job(tmp_path) + STOP_TRYING + b"\n")
        assert "HTTP 503" in answer(worker)["failed"]["team"]
        assert server.times == 1
