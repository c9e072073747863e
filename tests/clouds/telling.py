"""The notification worker with addresses in a cloud's store, and the service at the end of them."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

CANARY = "c4n4ry0f7h3s70r3"
"""Stands in every address of a store: it may come out nowhere."""

NO_PLACE = "json://127.0.0.1:9/" + CANARY


class Chat(ThreadingHTTPServer):
    """Takes every message; ``taken`` are the moments (monotonic), ``asked`` the paths."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.taken: list[float] = []
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        """As apprise writes it, with the canary."""
        return f"json://127.0.0.1:{self.server_port}/{CANARY}"


class _Web(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append(time.monotonic())
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


@contextmanager
def chat() -> Iterator[Chat]:
    """A service on loopback."""
    with Chat() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class DeliveryResult(NamedTuple):
    """What the worker answered, whatever it printed, and how long it took (seconds)."""

    reached: Mapping[str, str]
    failed: Mapping[str, str]
    printed: str
    seconds: float


def tell(
    channels: Mapping[str, str],
    providers: list[str],
    cloud: Mapping[str, object],
    root: str,
    *,
    environ: Mapping[str, str],
    deadline: float = 25.0,
    sysfs: str = "",
) -> DeliveryResult:
    """A warning over channels with these references, from a machine whose files are below ``root``."""
    files = {"procfs": f"{root}/proc", "sysfs": sysfs or f"{root}/sys"}
    access = {"providers": providers, "cloud": dict(cloud), "host": files}
    job: dict[str, Any] = {
        "message": {"id": "m1", "kind": "warning", "level": "critical", "title": "box stops", "body": "Say so."},
        "channels": list(channels),
        "settings": {"channels": {name: {"urls": reference} for name, reference in channels.items()}},
        "deadline": deadline,
        "access": access,
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "costguard.notify.worker"],
        input=json.dumps(job).encode() + b"\n", capture_output=True, check=True, timeout=60, env={**os.environ, **environ},
    )  # fmt: skip
    printed = (done.stdout + done.stderr).decode()
    answer = {"reached": {}, "failed": {}, **json.loads(done.stdout)}
    assert CANARY not in printed, printed
    return DeliveryResult(answer["reached"], answer["failed"], printed, time.monotonic() - began)
