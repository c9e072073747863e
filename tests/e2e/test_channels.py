"""Messages that leave the machine, from the real guard to a real receiver."""

import base64
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from costguard.agent.quota import LIMIT
from costguard.cli import reach
from costguard.config.paths import resolve
from costguard.notify.delivery_record import FOLDER

from .conftest import Agent

CANARY = "c4n4ry"


class Chat(ThreadingHTTPServer):
    """Takes every message, and remembers whether the action had happened when it came."""

    daemon_threads = True

    def __init__(self, acted: Path) -> None:
        super().__init__(("127.0.0.1", 0), Room)
        self.acted = acted
        self.titles: list[tuple[str, bool]] = []
        self.slow_came, self.slow_may_end = threading.Event(), threading.Event()
        self.slow: list[str] = []
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
        if self.path.startswith("/slow"):
            self.server.slow.append(message["title"])
            self.server.slow_came.set()
            self.server.slow_may_end.wait(60.0)
            self._fine()
            return
        for attached in message.get("attachments") or ():
            self.server.pictures[message["title"]] = base64.b64decode(attached["base64"])
        self.server.titles.append((message["title"], self.server.acted.exists()))
        self._fine()

    def _fine(self) -> None:
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


@pytest.mark.thorough
@pytest.mark.parametrize("killed", ["guard", "worker"])
def test_who_has_the_warning_does_not_get_it_again_after_a_kill(agent: Agent, chat: Chat, killed: str) -> None:
    """Killed while one channel has it and another has not answered: the first is spared, the second asked again, and then it acts."""
    script = agent.folder / "act"
    script.write_text(f"#!/bin/sh\necho acted > {chat.acted}\n")
    script.chmod(0o755)
    (agent.folder / "slow").write_text(f"json://127.0.0.1:{chat.server_port}/slow")
    (agent.folder / "slow").chmod(0o600)
    settings = (
        "mode=live", "window_rule=unbroken", "kill_duration=2s", "grace=3s", "boot_grace=0s", "kill_action=command",
        f'actions.command.run=["{script}"]', f"notify.channels.team.urls=file:{agent.folder}/urls",
        f"notify.channels.slow.urls=file:{agent.folder}/slow", 'notify.channels.slow.kinds=["warning"]',
    )  # fmt: skip
    agent.start(*settings)
    agent.gpus.set(util=90)
    agent.until(lambda report: bool(report["armed"]))
    agent.gpus.set(util=0)
    assert chat.slow_came.wait(60.0), (agent.folder / "log").read_text()
    end = time.monotonic() + 60.0
    records = Path(resolve(str(agent.folder / "state"), agent.environment).runtime) / FOLDER
    while not any('\n["team"' in path.read_text() for path in records.glob("*")):
        assert time.monotonic() < end
        time.sleep(0.02)
    if killed == "guard":
        assert agent.process is not None
        agent.process.kill()
        agent.process.wait(10)
        chat.slow_may_end.set()
        agent.start(*settings)
    else:
        for worker in workers(agent):
            os.kill(worker, signal.SIGKILL)
        chat.slow_may_end.set()
    agent.until(lambda report: report["phase"] == "DONE")
    agent.until(lambda report: any("done" in title for title, _ in chat.titles))
    # a guard that is away for long begins anew, and says so
    stories = 1 + sum("cancelled" in title for title, _ in chat.titles)
    warned = [title for title, _ in chat.titles if "will be run" in title]
    assert len(warned) == stories, chat.titles
    assert len(chat.slow) >= 2, "one answer was lost, so it was asked again"


@pytest.mark.thorough
def test_what_an_hour_held_back_is_told_after_the_next_boot(agent: Agent, chat: Chat) -> None:
    """The machine stops within the hour: one digest, once, whatever the guards of the next boots do."""
    agent.hurry(5)
    settings = (f"notify.channels.team.urls=file:{agent.folder}/urls", 'notify.channels.team.kinds=["notes"]')
    agent.start(*settings, "interval=2s")
    for number in range(1, LIMIT + 4):
        held = {"command": "hold", "seconds": 600.0 * number, "reason": "x"}
        assert reach.request(str(agent.folder / "state"), held)["done"]
    agent.stop()
    for boot in ("b007b007-0002", "b007b007-0003"):
        (agent.procfs / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
        agent.start(*settings, "interval=2s")
        agent.until(lambda _: bool(chat.titles))
        time.sleep(16.0)  # more than a minute of the agent's time
        agent.stop()
    (told,) = [title for title, _ in chat.titles]
    assert "3 messages held back" in told
    said = " ".join(agent.ask("history").stdout.split())
    assert said.count("held back for this hour's digest") == 3
    assert "notes delivered over team: JSON" in said


def workers(agent: Agent) -> list[int]:
    """The processes that send a message now."""
    mark, found = str(agent.folder / "gpus").encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            ours = mark in (path / "environ").read_bytes()
            if ours and b"costguard.notify.worker" in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found
