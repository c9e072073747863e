"""One account of Lambda Cloud on loopback: strict about keys, methods, paths and bodies, in the API's own words.

Sources: as the package.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "secret_test_0123456789abcdef"
ME = "0920582c7ff041399e34823a0be62549"
PREFIX = "/api/v1"


def instance(number: str = ME, **more: Any) -> dict[str, Any]:
    """One, as the API shows it."""
    kind = {"name": "gpu_2x_h100_sxm5", "price_cents_per_hour": 638, "specs": {"vcpus": 52, "gpus": 2}}
    found = {"id": number, "name": "trainer", "ip": "198.51.100.2", "private_ip": "10.0.2.100", "status": "active"}
    rest = {"region": {"name": "us-west-1", "description": "California, USA"}, "instance_type": kind}
    actions = {"terminate": {"available": True}}
    return {**found, **rest, "file_system_names": ["data"], "is_reserved": False, "actions": actions, **more}


class Account:
    """Its instances, what was asked, and what is to go wrong."""

    def __init__(self) -> None:
        self.instances = {ME: instance()}
        self.log: list[str] = []
        self.agents: list[str] = []
        self.faults: list[tuple[str, str]] = []  # beginning of "METHOD path", and what goes wrong, once each
        self.url = ""

    @property
    def effects(self) -> list[str]:
        """The requests that change something."""
        return [line for line in self.log if line.startswith("POST")]

    def fault(self, line: str) -> str:
        """What is to go wrong with a request."""
        for number, (beginning, kind) in enumerate(self.faults):
            if line.startswith(beginning):
                del self.faults[number]
                return kind
        return ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """What the API says to somebody with a good key."""
        place = path.removeprefix(PREFIX)
        if (method, place) == ("GET", "/instances"):
            return 200, {"data": list(self.instances.values())}
        if method == "GET" and place.startswith("/instances/"):
            found = self.instances.get(place.removeprefix("/instances/"))
            return (200, {"data": found}) if found else _no(404, "global/object-does-not-exist")
        if (method, place) == ("POST", "/instance-operations/terminate"):
            return self._terminate(body)
        return _no(404, "global/not-found")

    def _terminate(self, body: bytes) -> tuple[int, object]:
        try:
            wanted = json.loads(body)
            ids = wanted["instance_ids"]
            good = set(wanted) == {"instance_ids"} and bool(ids) and all(isinstance(one, str) for one in ids)
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            return _no(400, "global/invalid-parameters")
        if any(one not in self.instances for one in ids):
            return _no(404, "global/object-does-not-exist")
        if any(self.instances[one]["status"] in {"terminating", "terminated"} for one in ids):
            return _no(400, "global/invalid-parameters")
        for one in ids:
            self.instances[one]["status"] = "terminating"
        return 200, {"data": {"terminated_instances": [self.instances[one] for one in ids]}}


def _no(status: int, code: str) -> tuple[int, object]:
    return status, {"error": {"code": code, "message": f"{code} (stand-in)", "suggestion": ""}}


@contextmanager
def running() -> Iterator[Account]:
    """The account at an address on loopback."""
    account = Account()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer, or fail as it was asked to."""
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            line = f"{self.command} {self.path.removeprefix(PREFIX)}"
            account.log.append(line)
            account.agents.append(self.headers.get("User-Agent", ""))
            kind = account.fault(line)
            if kind == "cut_before":
                self.close_connection = True
                return
            status, said = _no(401, "global/invalid-api-key")
            typed = self.command == "GET" or self.headers.get("Content-Type") == "application/json"
            if kind == "throttle":
                status, said = _no(429, "global/too-many-requests")
            elif kind in {"error", "page", "blocked"}:
                status, said = {"error": _no(503, "provider/internal-unavailable"), "page": (200, None)}.get(
                    kind, (403, None)
                )
            elif self.headers.get("Authorization") == f"Bearer {KEY}" and typed and self.path.startswith(PREFIX):
                status, said = account.answer(self.command, self.path, body)
            if kind == "cut_after":
                self.close_connection = True
                return
            data = b"<html>sign in</html>" if said is None else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            if kind == "drip":
                for sign in data:
                    self.wfile.write(bytes([sign]))
                    self.wfile.flush()
                    time.sleep(0.2)
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    account.url = f"http://127.0.0.1:{server.server_port}{PREFIX}"
    try:
        yield account
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
