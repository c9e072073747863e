"""The driver is let go on request, and stays so until somebody says otherwise."""

import json
from functools import partial
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.engine.observation import Known, Unknown
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, World, effective


class Clients(Watch):
    """What clients hear."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        self.answers.append(json.loads(answer))


class Dying(Faults):
    """The reader dies at each read of some time."""

    def take(self, subject: str, host: SimHost) -> str:
        return "die" if subject == "nvml" and 290.0 < host.now < 320.0 else ""


class Story:
    """A guard with a working GPU, and what its users and its readers do."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.clients = Clients()
        self.world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
        self.faults = faults or Faults()
        self.seen: dict[float, object] = {}
        self.readers: dict[float, int] = {}

    def guard(self, until: float, **policy: Any) -> tuple[SimHost, Loop]:
        host = SimHost(world=self.world, until=until, watch=self.clients, faults=self.faults)
        loop = Loop(host, effective(**policy), host.start())
        return host, loop

    def watch(self, host: SimHost, loop: Loop, *when: float) -> None:
        def note(moment: float) -> None:
            self.seen[moment] = loop.seen.readings[0]
            self.readers[moment] = [type(child).__name__ for child in host.children.values()].count("Reader")

        for moment in when:
            host.world.at(moment, partial(note, moment))


def ask(host: SimHost, when: float, command: str, uid: int = 0) -> None:
    def send() -> None:
        host.request(uid, {"command": command})

    host.world.at(when, send)


@pytest.mark.parametrize("faults", [Faults(), Dying()])
def test_it_stays_detached_until_attach(faults: Faults) -> None:
    """No reader runs and every GPU is unknown, also after the reader died; attach starts a fresh one."""
    story = Story(faults)
    host, loop = story.guard(1000.0)
    ask(host, 300.5, "detach")
    ask(host, 700.5, "attach")
    story.watch(host, loop, 330.0, 650.0, 750.0)
    loop.run()
    assert [story.readers[at] for at in (330.0, 650.0, 750.0)] == [0, 0, 1]
    for at in (330.0, 650.0):
        reading = story.seen[at]
        assert isinstance(reading, Unknown)
        assert "detached on request" in reading.reason
    assert isinstance(story.seen[750.0], Known)
    assert [answer["done"] for answer in story.clients.answers] == [True, True]


def test_it_stays_detached_over_a_restart_of_the_agent() -> None:
    """The next agent of this boot does not touch the driver either; the one after an attach does."""
    story = Story()
    host, loop = story.guard(400.0)
    ask(host, 300.5, "detach")
    loop.run()
    host, loop = story.guard(900.0)
    story.watch(host, loop, 500.0, 880.0)
    ask(host, 600.5, "attach")
    loop.run()
    assert story.readers == {500.0: 0, 880.0: 1}
    host, loop = story.guard(1000.0)
    story.watch(host, loop, 980.0)
    loop.run()
    assert isinstance(story.seen[980.0], Known)


def test_a_driver_that_is_taken_up_counts_anew() -> None:
    """What the old driver had counted proves nothing about the time in which nothing was read."""
    story = Story()
    host, loop = story.guard(900.0)
    ask(host, 300.5, "detach")
    ask(host, 600.5, "attach")
    left: list[object] = []
    for when in (590.0, 600.7):
        host.world.at(when, lambda: left.append(dict(loop.gpu_side.reader.handover["counters"])))
    loop.run()
    assert [bool(counters) for counters in left] == [True, False]


def test_a_reload_of_other_places_does_not_take_the_driver_up() -> None:
    """A new configuration makes a new reader, and it is as detached as the old one."""
    story = Story()
    host, loop = story.guard(600.0)
    host.world.configuration = effective()
    host.world.configuration["host"]["sysfs"] = "/host/sys"
    ask(host, 300.5, "detach")
    host.world.at(350.0, lambda: host.signal("HUP"))
    story.watch(host, loop, 500.0)
    loop.run()
    assert loop.config["host"]["sysfs"] == "/host/sys"
    assert story.readers == {500.0: 0}


def test_detach_is_for_root_and_the_agents_user() -> None:
    """Anybody else could blind the watch."""
    story = Story()
    host, loop = story.guard(600.0)
    ask(host, 300.5, "detach", uid=4321)
    story.watch(host, loop, 500.0)
    loop.run()
    assert story.clients.answers[0]["done"] is False
    assert isinstance(story.seen[500.0], Known)


def test_whoever_asks_twice_is_told_so() -> None:
    """Nothing changes, and the words say that."""
    story = Story()
    host, loop = story.guard(600.0)
    for when, command in ((300.5, "attach"), (310.5, "detach"), (320.5, "detach")):
        ask(host, when, command)
    loop.run()
    assert ["already attached" in said["words"] for said in story.clients.answers] == [True, False, False]
    assert ["already detached" in said["words"] for said in story.clients.answers] == [False, False, True]


class Requests(SimHost):
    """Notes when the reader was asked, and whether with a look at the devices; and when a worker was released."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, seed=3, until=7200.0)
        self.sent: list[tuple[float, str]] = []

    def send(self, child: int, line: bytes) -> bool:
        asked = json.loads(line)
        self.sent.append((self.now, "go" if "go" in asked else "look" if asked.get("look") else "read"))
        return super().send(child, line)


def test_which_gpus_there_are_is_looked_up_right_before_an_action() -> None:
    """While a warning runs every reading comes with a look at the devices, so also the last one before the request."""
    host = Requests(Machine(gpus=1, script=[Phase(600.0, 0.9)]))
    policy = effective(mode="live", kill_action="shutdown", kill_duration=900.0, grace=300.0)
    with pytest.raises(SimOff):
        Loop(host, policy, host.start()).run()
    words = [word for _, word in host.sent]
    released = words.index("go")
    (last, word), (went, _) = host.sent[released - 1 : released + 1]
    assert word == "look"
    assert went - last <= 0.25
    assert "look" not in [word for at, word in host.sent if at < 600.0 + 900.0]
