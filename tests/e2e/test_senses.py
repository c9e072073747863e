"""Who works on the machine keeps it up: a real agent with a real host reader, and a real terminal."""

import os
import pty
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from costguard.readers.host.senses import SENSES
from tests.e2e.conftest import Agent
from tests.unit.readers.host.notebook_server import TOKEN
from tests.unit.readers.host.notebooks import Notebook

ONLY_TERMINALS = [f"senses.{row.name}.enabled={str(row.name == 'terminals').lower()}" for row in SENSES]
DAY = 86400.0


@contextmanager
def session(agent: Agent) -> Iterator[tuple[int, str]]:
    """A program that reads from a terminal of its own, in the /proc of the test: what a person types into, and its device."""
    pid, person = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    folder = agent.procfs / str(pid)
    try:
        while os.readlink(f"/proc/{pid}/exe").rpartition("/")[2].startswith("python"):
            time.sleep(0.01)
        (folder / "fd").mkdir(parents=True)
        device = os.readlink(f"/proc/{pid}/fd/0")
        for one, text in ((pid, None), (1, "1 (init) S 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0")):
            (agent.procfs / str(one)).mkdir(exist_ok=True)
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                (agent.procfs / str(one) / "stat").write_text(text or file.read())
        (agent.procfs / "self").symlink_to("1")
        (folder / "fd" / "0").symlink_to(device)
        yield person, device
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(person)


def active(report: dict[str, Any]) -> list[str]:
    """Who works, as the one sense that is switched on sees it."""
    (sense,) = report["agent"]["senses"]
    return [one["who"] for one in sense["active"]]


def looked(report: dict[str, Any]) -> bool:
    """Whether that sense has seen everything it can."""
    return bool(report["gpus"]) and report["agent"]["senses"][0]["unknown"] == ""


def test_who_types_keeps_it_up_and_an_open_terminal_does_not(agent: Agent) -> None:
    """Within two ticks, by name, with what would end it; then `status` has it in words, and its end lets go."""
    with session(agent) as (person, device):
        long_ago = time.time() - DAY
        os.utime(device, (long_ago, long_ago))
        agent.hurry(20)
        settings = ("interval=5s", "arm_duration=off", "senses.terminals.quiet_for=1m")
        agent.start("senses.enabled=true", *ONLY_TERMINALS, *settings, enough=looked)
        assert active(agent.report()) == [], "nobody has typed for a day"
        os.write(person, b"make train\n")
        typed = time.monotonic()
        report = agent.until(lambda report: bool(active(report)) and bool(report["vetoes"]))
        assert time.monotonic() - typed < 20.0, "two ticks, on a machine that does much else"
        (veto,) = report["vetoes"]
        where = device.removeprefix("/dev/")
        assert re.fullmatch(rf"\S+ on {where} typed", veto["reason"])
        assert "until 1 min without input" in agent.ask("status").stdout
        agent.until(lambda report: not active(report) and not report["vetoes"])


@contextmanager
def notebook(agent: Agent, folder: Path) -> Iterator[Notebook]:
    """A stand-in for a Jupyter server with one kernel, in the /proc of the test."""
    folder.chmod(0o755)
    (agent.procfs / "1").mkdir(exist_ok=True)
    (agent.procfs / "1" / "stat").write_text("1 (init) S 0 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0")
    (agent.procfs / "1" / "net").symlink_to("/proc/self/net")
    (agent.procfs / "self").symlink_to("1")
    server = Notebook(agent.procfs, folder / "runtime", None)
    try:
        server.kernel()
        yield server
    finally:
        server.end()


def test_a_silent_cell_keeps_it_up_and_an_open_tab_does_not(agent: Agent, short_path: Path) -> None:
    """A real server process with its token; the token is in nothing that the agent writes."""
    with notebook(agent, short_path) as server:
        agent.hurry(20)
        only = [f"senses.{row.name}.enabled={str(row.name == 'jupyter').lower()}" for row in SENSES]
        settings = ("interval=5s", "arm_duration=off", "senses.jupyter.quiet_for=0s")
        agent.start("senses.enabled=true", *only, *settings, enough=looked)
        assert active(agent.report()) == [], "the kernel is idle, and its tab is open"
        server.say("state python3 busy")
        report = agent.until(lambda report: bool(active(report)) and bool(report["vetoes"]))
        assert re.fullmatch(r"kernel python3 of .+'s Jupyter was busy", report["vetoes"][0]["reason"])
        assert "without a busy cell" in " ".join(agent.ask("status").stdout.split())
        server.say("state python3 idle")
        report = agent.until(lambda report: not active(report) and not report["vetoes"])
        assert TOKEN not in str(report)
        assert TOKEN not in agent.ask("status", "--json").stdout
        kept = [agent.folder / "log", *(agent.folder / "state").rglob("*")]
        assert not [file for file in kept if file.is_file() and TOKEN.encode() in file.read_bytes()]
