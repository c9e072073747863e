"""Kill -9 of the guard, and of the process that sends, at each step of a message's way to mail, Slack, Teams and PagerDuty.

People are warned before anything is done, each of them reads how it ended, and who has answered is not told twice.
"""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from costguard.config.paths import resolve
from costguard.notify.delivery_record import FOLDER
from tests.faults.receivers import PATIENCE, Receivers, Step

from .conftest import Agent
from .test_agent import ours, until_gone

pytestmark = [pytest.mark.timeout(300), pytest.mark.thorough]

SERVICES = ("mail", "slack", "teams", "pagerduty")
WHO = ("guard", "sender")
STEPS: tuple[Step, ...] = ("before", "taken", "answered")
KINDS = {
    "warning": "will be",
    "acting": "is being",
    "done": " done",
}
"""By kind: what stands in its first line."""

SETTINGS = (
    "mode=live", "window_rule=unbroken", "kill_duration=3s", "grace=110s", "boot_grace=0s", "interval=1s",
    "kill_action=command",
)  # fmt: skip
"""A service that lost its warning gets it a minute later, within `grace`."""

RATE = 3
"""How much faster the agent's time runs."""

Who = Literal["guard", "sender"]


class Count(NamedTuple):
    """Of one message of an incident at a service: how often it was taken."""

    service: str
    kind: str
    incident: str


def kind_of(title: str) -> str:
    """The kind of a message, by its first line."""
    found = [kind for kind, words in KINDS.items() if words in title]
    return found[0] if found else title


def incident_of(text: str) -> str:
    """The incident that a message names."""
    found = re.search(r"incident ([0-9a-f]+-i\d+)", text.replace("\\", ""))
    return found[1] if found else "?"


class Machine:
    """An agent that runs a command when nobody works, and tells four channels."""

    def __init__(self, agent: Agent, receivers: Receivers) -> None:
        self.agent, self.receivers = agent, receivers
        self.acted = agent.folder / "acted"
        script = agent.folder / "act"
        # it takes its time: its end is told when the sender of its beginning, or the guard, is gone
        script.write_text(f"#!/bin/sh\necho acted >> {self.acted}\nsleep 5\n")
        script.chmod(0o755)
        agent.environment |= receivers.environment
        self.settings = [*SETTINGS, f'actions.command.run=["{script}"]']
        for service in SERVICES:
            path = agent.folder / service
            path.write_text(receivers.address(service) + "\n")
            path.chmod(0o600)
            self.settings.append(f"notify.channels.{service}.urls=file:{path}")
        self.kills: list[tuple[str, str]] = []  # whose message, and its kind
        self.logs = ""

    def start(self) -> None:
        """Start the agent, or start it again."""
        self.agent.start(*self.settings, enough=bool)

    def idle(self) -> None:
        """It works, and then no more."""
        self.agent.gpus.set(util=90)
        self.agent.until(lambda report: bool(report["armed"]))
        self.agent.gpus.set(util=0)

    @property
    def log(self) -> str:
        """All that was ever said."""
        return self.logs + (self.agent.folder / "log").read_text()

    def senders(self) -> list[int]:
        """The processes that send a message now."""
        mark, found = str(self.agent.folder / "gpus").encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    mark in (path / "environ").read_bytes()
                    and b"costguard.notify.worker" in (path / "cmdline").read_bytes()
                ):
                    found.append(int(path.name))
        return found

    def recorded(self, service: str, kind: str) -> bool:
        """Whether it is written down that the service took the latest message of a kind."""
        folder = Path(resolve(str(self.agent.folder / "state"), self.agent.environment).runtime) / FOLDER
        found = sorted(folder.glob(f"*-{kind}"), key=lambda path: path.stat().st_mtime)
        return bool(found) and f'\n["{service}"' in found[-1].read_text()

    def shut(self, service: str, step: Step, kind: str) -> None:
        """Stop the next message of this kind there."""
        self.receivers.gate.shut(service, "taken" if step == "answered" else step, KINDS[kind])

    def kill(self, who: Who, service: str, step: Step, kind: str, then: str = "") -> None:
        """When the message of this kind is at that step of the service's, and all others have it. ``then``: the next one that is stopped."""
        gate = self.receivers.gate
        assert gate.arrived.wait(PATIENCE), (service, step, kind, self.log)
        self._await(lambda: all(self.recorded(one, kind) for one in SERVICES if one != service), kind)
        if step == "answered":  # its sender has the answer, and can do nothing with it
            answers = len(self.receivers.answered)
            for pid in self.senders():
                os.kill(pid, signal.SIGSTOP)
            gate.forget()
            self._await(lambda: len(self.receivers.answered) > answers, "its answer")
        if who == "guard":
            assert self.agent.process is not None
            self.agent.process.kill()
            self.agent.process.wait(10)
        else:
            for pid in self.senders():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.kills.append((service, kind))
        gate.forget()
        if then and kind != "warning":
            self.shut(service, step, then)
        if who == "guard":
            self.logs = self.log
            self.start()
        if then and kind == "warning":  # first each has it
            self.until_told("warning")
            self.shut(service, step, then)

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, (what, self.log)
            time.sleep(0.02)

    def counts(self) -> Counter[Count]:
        """How often each message was taken."""
        return Counter(
            Count(post.service, kind_of(post.title), incident_of(post.text)) for post in self.receivers.posts
        )

    def until_told(self, kind: str) -> None:
        """Until every service has a message of this kind."""
        self._await(lambda: {one.service for one in self.counts() if one.kind == kind} == set(SERVICES), kind)


def run(machine: Machine, who: Who, service: str, step: Step) -> None:
    """The whole story, with a kill at this step of each of its messages."""
    machine.start()
    machine.shut(service, step, "warning")
    machine.idle()
    for kind, then in (("warning", "acting"), ("acting", "done"), ("done", "")):
        machine.kill(who, service, step, kind, then)
    machine.until_told("done")
    machine.agent.until(lambda report: report["phase"] == "DONE")
    time.sleep(20.0 / RATE)  # so long in the agent's own time nothing more comes


def wrong(machine: Machine) -> Iterator[str]:
    """What of it should not be."""
    counts = machine.counts()
    acted = len(machine.acted.read_text().splitlines()) if machine.acted.exists() else 0
    incidents = {one.incident for one in counts if one.kind == "done"}
    if acted != len(incidents):
        yield f"acted {acted} times in {incidents}"
    moment = machine.acted.stat().st_mtime - time.time() + time.monotonic() if acted else 0.0
    for incident in incidents:
        for service in SERVICES:
            posts = [post for post in machine.receivers.of_service(service) if incident_of(post.text) == incident]
            if not any(kind_of(post.title) == "warning" and post.at < moment for post in posts):
                yield f"{service} was not warned of {incident} before it acted"
    for one, times in counts.items():
        if times > 1 + machine.kills.count((one.service, one.kind)):
            yield f"{one} came {times} times"
        if one.kind not in KINDS and "cancelled" not in one.kind and "not known yet" not in one.kind:
            yield f"{one.service} read: {one.kind}"
    keys: dict[tuple[str, str], set[str]] = {}
    for post in machine.receivers.of_service("pagerduty"):
        keys.setdefault((kind_of(post.title), incident_of(post.text)), set()).add(post.key)
    yield from (f"{what} rings twice: {found}" for what, found in keys.items() if len(found) > 1)


@pytest.fixture
def machine(agent: Agent) -> Iterator[Machine]:
    """An agent in a time that runs faster, and where its messages go."""
    agent.hurry(RATE)
    agent.settings = [setting for setting in agent.settings if not setting.startswith("interval")]
    with Receivers(agent.folder) as receivers:
        yield Machine(agent, receivers)
        receivers.gate.forget()
        for pid in ours(agent):  # one that was stopped must not outlive a test that failed
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT)
        agent.stop()
        until_gone(agent)


@pytest.mark.parametrize(
    ("who", "service", "step"),
    [
        ("guard", "mail", "taken"), ("sender", "mail", "answered"), ("sender", "slack", "before"), ("guard", "teams", "before"),
        ("guard", "pagerduty", "answered"), ("sender", "pagerduty", "taken"),
    ],
)  # fmt: skip
def test_a_kill_at_each_message(machine: Machine, who: Who, service: str, step: Step) -> None:
    """Of the warning, of the beginning and of the end: each is read, in time, and twice only where nobody could say that it was taken."""
    run(machine, who, service, step)
    assert list(wrong(machine)) == [], (machine.counts(), machine.log)
