"""Messages that leave the machine, from the real guard to a real receiver."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .conftest import Agent

CANARY = "c4n4ry"


class Chat(ThreadingHTTPServer):
    """Takes every message, and remembers whether the action had happened when it came."""

    daemon_threads = True

    def __init__(self, acted: Path) -> None:
        super().__init__(("127.0.0.1", 0), Room)
        self.acted = acted
        self.titles: list[tuple[str, bool]] = []
        self.pictures: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        """As apprise takes it."""
        return f"json://127.0.0.1:{self.server_port}/{CANARY}"


class Room(BaseHTTPRequestHandler):
    server: Chat

    def do_POST(self) -> None:
        """One message."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for attached in message.get("attachments") or ():
            self.server.pictures[message["title"]] = base64.b64decode(attached["base64"])
        self.server.titles.append((message["title"], self.server.acted.exists()))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the interface of http.server
        """Nothing is printed."""


@pytest.fixture
def chat(agent: Agent) -> Iterator[Chat]:
    """Where messages go, and the file that names it to the agent."""
    with Chat(agent.folder / "acted") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (agent.folder / "urls").write_text(server.url)
        (agent.folder / "urls").chmod(0o600)
        yield server
        server.shutdown()


def test_a_warning_is_in_the_chat_before_the_action_and_its_address_nowhere(agent: Agent, chat: Chat) -> None:
    """Nobody sits at the machine: the countdown begins when the chat has it, and the end is told there too."""
    script = agent.folder / "act"
    script.write_text(f"#!/bin/sh\necho acted > {chat.acted}\n")
    script.chmod(0o755)
    agent.start(
        "mode=live", "window_rule=unbroken", "kill_duration=2s", "grace=1s", "boot_grace=0s", "kill_action=command",
        f'actions.command.run=["{script}"]', f"notify.channels.team.urls=file:{agent.folder}/urls",
    )  # fmt: skip
    agent.gpus.set(util=90)
    agent.until(lambda report: bool(report["armed"]))
    agent.gpus.set(util=0)
    agent.until(lambda report: report["phase"] == "DONE")
    agent.until(lambda report: any(acted for _, acted in chat.titles))
    warned = [title for title, acted in chat.titles if not acted]
    assert any("the configured command" in title and "will be run" in title for title in warned), chat.titles
    assert any("will be run" in title and data.startswith(b"\x89PNG") for title, data in chat.pictures.items())
    for path in agent.folder.rglob("*"):
        if path.is_file() and path.name != "urls":
            assert CANARY.encode() not in path.read_bytes(), path
