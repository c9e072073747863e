"""Records of a fleet at a store of objects: each step of each attempt of each machine is there afterwards, whatever failed."""

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.clouds.core.conftest import Rented, codes
from tests.contract.cloud_server import Cloud


class Store(ThreadingHTTPServer):
    """Keeps one object for each path, as object stores do; ``faults`` are what happens to the next requests."""

    def __init__(self, *, careful: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.careful = careful  # whether it knows If-None-Match
        self.objects: dict[str, bytes] = {}
        self.overwritten = 0
        self.faults: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/records/"

    def records(self) -> list[tuple[str, str, str, str]]:
        """What is there: machine, incident, attempt, step."""
        found = [json.loads(text) for text in self.objects.values()]
        return sorted((r["instance"], r["incident"], r["attempt"], r["step"]) for r in found)


class Handler(BaseHTTPRequestHandler):
    server: Store

    def do_PUT(self) -> None:
        """Store it, unless the script or the condition says otherwise."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        there = self.path in self.server.objects
        if fault == "busy":
            code = 503
        elif there and self.server.careful and self.headers["If-None-Match"] == "*":
            code = 412
        else:
            self.server.overwritten += there
            self.server.objects[self.path] = body
            code = 500 if fault == "stored, and said it failed" else 201
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Quiet."""


@pytest.fixture(params=[True, False], ids=["careful", "simple"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with Store(careful=request.param) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def act(rented: Rented, instance: str, incident: str, attempt: str) -> None:
    """One whole attempt of a real worker."""
    answers = rented.ask("act", "terminate", incident=incident, attempt=attempt, instance=instance)
    assert answers["outcome"]["status"] in {"accepted", "refused", "failed"}, answers


def test_every_record_is_kept(rented: Rented, store: Store) -> None:
    """Two machines, two attempts, two incidents and a reboot: two objects for each, and none was overwritten."""
    rented.sink = {"url": store.url, "method": "PUT"}
    wanted = [
        ("cloud:m-1", "b-i1", "b-a2"), ("cloud:m-1", "b-i1", "b-a3"), ("cloud:m-1", "b-i7", "b-a8"),
        ("cloud:m-1", "c-i1", "c-a2"), ("cloud:m-2", "b-i1", "b-a2"),
    ]  # fmt: skip
    for number, each in enumerate(wanted):
        shutil.rmtree(rented.root / "results", ignore_errors=True)  # of another machine, or another boot
        act(rented, *each)
        assert len(store.objects) == 2 * (number + 1)
    assert store.records() == sorted((*each, step) for each in wanted for step in ("outcome", "prepared"))
    assert store.overwritten == 0


@pytest.mark.parametrize("fault", ["busy", "stored, and said it failed"])
def test_a_retried_record_is_there_once(rented: Rented, store: Store, fault: str) -> None:
    """A try whose answer was lost may replace nothing but its own record; the action is not held up by it."""
    rented.sink = {"url": store.url, "method": "PUT"}
    store.faults = [fault]
    act(rented, "cloud:m-1", "b-i1", "b-a2")
    assert store.records() == [("cloud:m-1", "b-i1", "b-a2", "outcome"), ("cloud:m-1", "b-i1", "b-a2", "prepared")]


def test_what_would_overwrite_is_no_evidence(rented: Rented, cloud: Cloud, store: Store, tmp_path: Path) -> None:
    """A live `terminate` is refused with an address that keeps one record of many, and nothing is sent to it."""
    rented.sink = {"url": store.url + "record.json", "method": "PUT"}
    answers = rented.ask("act", "terminate")
    assert answers["plan"]["verdict"] == "refuse"
    assert "no_sink" in codes(answers)
    assert (cloud.asked, store.objects) == ([], {})
    rented.sink["method"] = "POST"  # a webhook, which tells them apart by itself
    assert "no_sink" not in codes(rented.ask("plan", "terminate"))
