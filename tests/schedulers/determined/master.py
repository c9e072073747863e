"""A stand-in of Determined's master on loopback: it refuses what the master refuses, with the codes of its gateway."""

import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "v2.c4n4ry-of-a-token"
TASK = "1b2c3d4e-0000-4000-8000-00000000abcd"
KEYS = {
    "notebooks": "notebook",
    "shells": "shell",
    "commands": "command",
    "tensorboards": "tensorboard",
    "trials": "trial",
}
PAGES: dict[int | str, tuple[int, bytes]] = {
    "page": (200, b"<html>log in first</html>"),
    "nothing": (200, b""),
    "list": (200, b"[]"),
    "healthy": (200, b'{"status": "ok"}'),
    "no-backend": (404, b"default backend - 404"),
    "no-route": (404, b'{"message": "no Route matched with those values"}'),
    "gateway": (502, b"<html>bad gateway</html>"),
}
"""Answers of others that stand before a master: a proxy, an ingress."""

_PATH = re.compile(r"/api/v1/(?P<folder>notebooks|shells|commands|tensorboards|trials)/(?P<id>[^/]+)(?P<kill>/kill)?")
_UUID = re.compile(r"(\d+\.)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


class Master:
    """What it knows: tasks by folder and id, their allocations, who the token is."""

    def __init__(self) -> None:
        self.url = ""
        self.tasks: dict[tuple[str, str], dict[str, Any]] = {}
        self.allocations: dict[str, list[dict[str, Any]]] = {}
        self.me: dict[str, Any] = {"username": "alice", "admin": False}
        self.asked: list[str] = []
        self.fails: dict[str, list[int | str]] = {}
        """By *METHOD*: what the next such requests get. ``slow``: no answer; ``slow-after``: none, but it is done; ``cut``."""
        self.older = False  # one without /api/v1/tasks
        self.cluster = "c-1"
        self.refusal = "invalid credentials"
        self.on_kill: Callable[[], object] = list  # what happens at the moment of a kill
        self.after = "STATE_TERMINATED"
        self.patience = 30.0

    def add(self, folder: str, name: str, task: str = TASK, slots: int = 1, **more: Any) -> None:
        """A task that runs, with an allocation of so many GPUs."""
        own = {
            "id": int(name) if folder == "trials" else name,
            "state": "STATE_RUNNING",
            "startTime": "2026-11-23T08:00:00Z",
        }
        own |= {} if folder == "trials" else {"username": "alice"}
        self.tasks[folder, name] = own | more
        self.allocations[task] = [
            {"allocationId": f"{task}.1", "taskId": task, "state": "STATE_RUNNING", "slots": slots}
        ]

    @property
    def killed(self) -> list[str]:
        """The kills that it was asked for."""
        return [one.removeprefix("POST ") for one in self.asked if one.startswith("POST ")]

    def answer(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        if path == "/api/v1/me" and method == "GET":
            return 200, {"user": self.me}
        if path == "/api/v1/master" and method == "GET":
            return 200, {"version": "0.38.1", "masterId": "m-1", "clusterId": self.cluster}
        if (found := re.fullmatch(r"/api/v1/tasks/([^/]+)", path)) and method == "GET" and not self.older:
            listed = self.allocations.get(found[1])
            return (
                (404, _error(5, "task not found"))
                if listed is None
                else (200, {"task": {"taskId": found[1], "allocations": listed}})
            )
        match = _PATH.fullmatch(path)
        if not match or bool(match["kill"]) != (method == "POST"):
            return 404, _error(5, "Not Found")
        folder, name = match["folder"], match["id"]
        if folder == "trials" and not name.isdecimal():
            return 400, _error(
                3, f'type mismatch, parameter: id, error: strconv.ParseInt: parsing "{name}": invalid syntax'
            )
        if folder != "trials" and not _UUID.fullmatch(name):
            return 400, _error(3, "invalid task id")
        if match["kill"]:
            self.on_kill()
        task = self.tasks.get((folder, name))
        if task is None:
            return 404, _error(5, f"{KEYS[folder]} {name} not found")
        if not match["kill"]:
            return 200, {KEYS[folder]: task, "config": {}}
        if not self.me.get("admin") and task.get("username", "alice") != self.me["username"]:
            return 403, _error(7, "access denied")
        task["state"] = "STATE_STOPPING_KILLED" if folder == "trials" and self.after == "ending" else self.after
        return 200, {} if folder == "trials" else {KEYS[folder]: task}


def _error(code: int, words: str) -> dict[str, Any]:
    return {"error": {"code": code, "reason": "?", "error": words}}


def handler_of(master: Master) -> type[BaseHTTPRequestHandler]:
    """What answers for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._serve("POST")

        def _serve(self, method: str) -> None:
            master.asked.append(f"{method} {self.path}")
            fault = (master.fails.get(method) or [""]).pop(0) if master.fails.get(method) else ""
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._write(401, _error(16, master.refusal))
                return
            if fault == "slow-after":
                master.answer(method, self.path)
            if fault in {"slow", "slow-after"}:
                time.sleep(master.patience)
                return
            if fault == "cut":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
                return
            if fault in PAGES:
                self._write(*PAGES[fault])
                return
            if fault:
                self._write(int(fault), _error(13, "scripted"))
                return
            self._write(*master.answer(method, self.path))

        def _write(self, status: int, answer: object) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    return Handler


@contextmanager
def serving(master: Master, certificate: Callable[[ssl.SSLContext], object] | None = None) -> Iterator[Master]:
    """The master, on loopback; with a certificate over TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(master))
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    master.url = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield master
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(url: str, kind: str = "NOTEBOOK", task: str = TASK, trial: str = "", **more: str) -> dict[str, str]:
    """What Determined gives to a container."""
    own = {
        "DET_MASTER": url, "DET_CLUSTER_ID": "c-1", "DET_AGENT_ID": "agent-1", "DET_SLOT_IDS": "[0]", "DET_TASK_ID": task,
        "DET_TASK_TYPE": kind, "DET_ALLOCATION_ID": f"{task}.1", "DET_USER": "alice", "DET_USER_TOKEN": TOKEN,
    }  # fmt: skip
    return own | ({"DET_TRIAL_ID": trial} if trial else {}) | more
