"""Kill -9 of the guard, and of the process that runs it, while a program of the owner runs at each of its steps, or a summary is sent.

People are warned before anything is done, it is done once, no program runs twice but those that are documented to, and what was saved for
nothing is undone.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from costguard.notify import summary
from tests.faults.receivers import Receivers

from .conftest import Agent
from .test_agent import ours, until_gone

pytestmark = [pytest.mark.timeout(240), pytest.mark.thorough]

RATE = 5
PATIENCE = 90.0
STEPS = ("armed", "warning", "pre_stop", "cancelled", "undo", "post_boot")
AGAIN = ("pre_stop", "undo")
"""Run once more where an end of the agent cut them off: docs/configuration.md."""

SCRIPT = """#!/bin/sh
echo "$1 begins $COSTGUARD_INCIDENT" >> {folder}/ran
while [ -e "{folder}/shut-$1" ]; do sleep 0.05; done
echo "$1 ends $COSTGUARD_INCIDENT" >> {folder}/ran
"""

SETTINGS = (
    "mode=live", "window_rule=unbroken", "kill_duration=3s", "grace=60s", "boot_grace=0s", "interval=1s", "kill_action=command",
)  # fmt: skip


class Machine:
    """An agent with a program at each step, of which one stands still, and a chat."""

    def __init__(self, agent: Agent, receivers: Receivers) -> None:
        self.agent, self.receivers, self.folder = agent, receivers, agent.folder
        agent.environment |= receivers.environment
        script = self.written("hook", SCRIPT.format(folder=self.folder), 0o755)
        act = self.written("act", f"#!/bin/sh\necho acted >> {self.folder}/acted\n", 0o755)
        chat = self.written("slack", receivers.address("slack") + "\n", 0o600)
        self.settings = [*SETTINGS, f'actions.command.run=["{act}"]', f"notify.channels.slack.urls=file:{chat}"]
        self.settings += [f'hooks.{step}=["{script}", "{step}"]' for step in STEPS]
        self.logs = ""

    def written(self, name: str, text: str, mode: int) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def start(self) -> None:
        """Start the agent, or start it again."""
        self.agent.start(*self.settings, enough=bool)

    @property
    def log(self) -> str:
        """All that was ever said."""
        return self.logs + (self.folder / "log").read_text() + self.text("ran")

    def text(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def ran(self, step: str, what: str = "begins") -> Counter[str]:
        """How often the program of a step began, or ended, for each incident."""
        rows = [line.split(" ") for line in self.text("ran").splitlines()]
        return Counter(row[2] for row in rows if len(row) == 3 and row[:2] == [step, what])

    def until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, self.log
            time.sleep(0.02)

    def idle(self) -> None:
        """It works, and then no more."""
        self.agent.gpus.set(util=90)
        self.agent.until(lambda report: bool(report["armed"]))
        self.agent.gpus.set(util=0)

    def kill(self, who: str, step: str) -> None:
        """While the program of that step stands still; then it may go on."""
        self.until(lambda: self.ran(step))
        if who == "guard":
            assert self.agent.process is not None
            self.agent.process.kill()
            self.agent.process.wait(10)
        else:
            for pid in self.runners():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        (self.folder / f"shut-{step}").unlink()
        if who == "guard":
            self.logs = self.log
            self.start()

    def runners(self) -> list[int]:
        """The processes between the guard and the program."""
        found = []
        for pid in ours(self.agent):
            with suppress(OSError):
                if b"costguard.actions.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def recorded(self, step: str) -> bool:
        """Whether the history says of each run of that step how it ended; of the one before an action its plan says it."""
        asked = [("history", incident) if incident else ("history",) for incident in self.ran(step)]
        shown = [self.agent.ask(*one, "--json").stdout.replace(" ", "") for one in asked]
        return step == "pre_stop" or all(f'"step":"{step}"' in one for one in shown)


@pytest.fixture
def machine(agent: Agent) -> Iterator[Machine]:
    """An agent in a time that runs faster."""
    agent.hurry(RATE)
    agent.settings = [setting for setting in agent.settings if not setting.startswith("interval")]
    with Receivers(agent.folder) as receivers:
        yield Machine(agent, receivers)
        agent.stop()
        until_gone(agent)


@pytest.mark.parametrize("who", ["guard", "worker"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_while_a_program_of_the_owner_runs(machine: Machine, step: str, who: str) -> None:
    """Once it is dead the story goes on to its end; how the program ended is in the history."""
    machine.written(f"shut-{step}", "", 0o644)
    machine.start()
    if step == "post_boot":
        machine.kill(who, step)
    machine.idle()
    if step in {"armed", "warning", "pre_stop"}:
        machine.kill(who, step)
    if step in {"cancelled", "undo"}:
        machine.until(lambda: machine.ran("pre_stop", "ends"))  # something was saved
        machine.agent.gpus.set(util=90)
        machine.kill(who, step)
        machine.agent.gpus.set(util=0)
    machine.agent.until(lambda report: report["done"] == "acted", PATIENCE)
    machine.until(lambda: machine.recorded(step))
    assert machine.text("acted") == "acted\n", machine.log
    warned = [post.at for post in machine.receivers.posts if "will be" in post.title]
    moment = (machine.folder / "acted").stat().st_mtime - time.time() + time.monotonic()
    assert any(at < moment - 50.0 / RATE for at in warned), "of what was done people knew a whole countdown before"
    most = {one: 2 if one in AGAIN and one == step else 1 for one in STEPS}
    for one in STEPS:
        assert all(times <= most[one] for times in machine.ran(one).values()), (one, machine.log)
    assert max(machine.ran(step).values()) == most[step], machine.log
    if step in {"cancelled", "undo"}:  # what was saved for nothing
        assert machine.ran("undo", "ends")[next(iter(machine.ran(step)))] == 1, machine.log


@pytest.mark.parametrize("every", ["daily", "weekly"])
@pytest.mark.parametrize("step", ["before", "taken"])
def test_a_kill_of_the_guard_while_a_summary_is_sent(machine: Machine, step: Any, every: str) -> None:
    """The next guard sends it; twice only to a service that had it and had not answered. The next one begins where it ended."""
    state = machine.folder / "state"
    state.mkdir()
    begin = time.time() - 9 * 86400.0
    summary.keep(str(state), begin, begin)
    machine.settings = [
        *(one for one in machine.settings if "hooks." not in one),
        f"notify.summary={every}",
        "unknown_alarm=24h",
    ]
    machine.agent.hurry(1)
    machine.receivers.gate.shut("slack", step, "")
    machine.start()
    gate = machine.receivers.gate

    def soon() -> None:
        machine.agent.clock.pass_over(1300.0)

    soon()
    assert gate.arrived.wait(PATIENCE), machine.log
    assert machine.agent.process is not None
    machine.agent.process.kill()
    machine.agent.process.wait(10)
    gate.forget()
    machine.logs = machine.log
    machine.start()
    soon()
    machine.until(lambda: len(machine.receivers.posts) == (2 if step == "taken" else 1))
    machine.until(lambda: not (state / summary.SENDING).exists())
    sent = [post.title for post in machine.receivers.posts]
    assert len(set(sent)) == 1, sent
    soon()
    time.sleep(3.0)
    assert len(machine.receivers.posts) == len(sent), "it is told"
