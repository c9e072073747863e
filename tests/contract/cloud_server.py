"""Example Cloud itself, on loopback: the metadata service and the API of one machine."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ALL = ("machines.read", "machines.stop", "machines.terminate", "machines.hibernate", "machines.tag")
ENDED = {"stop": "stopped", "terminate": "gone", "hibernate": "asleep"}


class Cloud:
    """Its state, everything that was asked, and what is to go wrong."""

    def __init__(self) -> None:
        self.machine: dict[str, Any] = {"status": "running", "protected": False, "rights": list(ALL)}
        self.identity = {"id": "m-42", "project": "p1", "region": "north", "zone": "north-1", "type": "gpu.large"}
        self.notices: list[dict[str, Any]] = []
        self.tags: dict[str, str] = {}
        self.calls: list[str] = []
        self.fail: dict[str, int] = {}  # HTTP status for a path or its first part; 0: hang up before anything is done
        self.mute: set[str] = set()  # paths that are done, and never answered
        self.slow = 0.0
        self.took = threading.Event()  # a request with an effect has arrived
        self.wait = threading.Event()  # and is not done before this
        self.wait.set()
        self.url = ""

    @property
    def asked(self) -> list[str]:
        """The requests with an effect."""
        return [call for call in self.calls if call.startswith("POST")]

    @property
    def settings(self) -> dict[str, str]:
        """The section ``[cloud]`` that leads here."""
        return {"metadata_endpoint": self.url, "api_endpoint": self.url}

    def answer(self, method: str, path: str) -> tuple[int, object]:
        """What this cloud says; one request at a time."""
        self.calls.append(f"{method} {path}")
        parts = urlsplit(path)
        if method == "POST":
            self.took.set()
            self.wait.wait(20.0)
        for known, status in self.fail.items():
            if parts.path.startswith(known):
                return status, {"error": "scripted"}
        places: dict[str, object] = {
            "/machine": self.identity,
            "/notices": {"notices": self.notices},
            "/tags": self.tags,
            "/token": {"token": "t"},
        }
        if parts.path in places:
            return 200, places[parts.path]
        if not parts.path.startswith(f"/machines/{self.identity['id']}"):
            return 404, {}
        verb = parts.path.rpartition("/")[2]
        if method == "GET":
            return 200, self.machine
        if method == "PUT":
            if "machines.tag" not in self.machine["rights"]:
                return 403, {}
            self.tags[unquote(verb)] = parse_qs(parts.query)["value"][0]
            return 200, {}
        if f"machines.{verb}" not in self.machine["rights"]:
            return 403, {}
        if self.machine["protected"]:
            return 409, {}
        self.machine["status"] = ENDED[verb]
        if verb in self.mute:
            return 0, {}
        return 200, {"request": "r-" + parse_qs(parts.query)["attempt"][0]}


@contextmanager
def running() -> Iterator[Cloud]:
    """The cloud, for as long as the context lasts."""
    cloud = Cloud()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(cloud.slow)
            with lock:
                status, found = cloud.answer(self.command, self.path)
            if status == 0:
                self.close_connection = True
                return
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing: the tests read `Cloud.calls`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cloud.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield cloud
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
