"""What a reader found out about a GPU: told, at most daily, and nothing else."""

from functools import partial
from typing import Any

import pytest

from costguard.agent.gpu_side import GpuSide
from costguard.agent.loop import Loop
from costguard.cli.status_view import findings
from costguard.engine import Finding, Policy, initial, step
from costguard.engine.effects import Tell
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, World, effective


class Strange(Faults):
    """The reader finds something in each answer of some time."""

    def __init__(self, word: str) -> None:
        self.word = word

    def take(self, subject: str, host: SimHost) -> str:
        return self.word if subject == "nvml" and host.now > 100 else ""


class Messages(Watch):
    """What people got."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def message(self, now: object, message: dict[str, Any], delivered: bool) -> None:
        self.told.append(message["kind"])


@pytest.mark.parametrize(("hours", "times"), [(1, 1), (23, 1), (30, 2)])
def test_a_finding_is_told_once_a_day(hours: float, times: int) -> None:
    """It stands in every answer, and people hear of it once, and again after a day."""
    messages = Messages()
    machine = Machine(gpus=1, script=[Phase(9**9, 0.9)])
    host = SimHost(machine, seed=3, until=hours * 3600.0, watch=messages, faults=Strange("ghost"))
    loop = Loop(host, effective(interval=15.0), host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    assert messages.told.count("finding") == times


@pytest.mark.parametrize(("hours", "times"), [(3.0, 1), (30.0, 2)])
def test_a_restart_of_the_guard_is_no_news_about_a_gpu(hours: float, times: int) -> None:
    """A fleet that is upgraded would hear of each old finding again."""
    messages = Messages()
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    for until in (1800.0, 3600.0, hours * 3600.0):
        host = SimHost(world=world, until=until, watch=messages, faults=Strange("ghost"))
        world.at(until - 20.0, partial(host.signal, "TERM"))
        Loop(host, effective(interval=15.0), host.start()).run()
    assert messages.told.count("finding") == times


@pytest.mark.parametrize("kept", [7, [7], [{"gpu": "x"}], {"gpu": "x"}])
def test_what_cannot_be_read_of_an_earlier_guard_is_told_anew(kept: object) -> None:
    """A state of another version, or a damaged one."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    side = GpuSide(host, effective(), initial("boot", ""), {}, lambda *_: None, detached=True, told=kept)
    assert side.findings_told is None


class Spreading(Strange):
    """One GPU has it first, and soon all of them."""

    def __init__(self, after: float) -> None:
        super().__init__("ghost")
        self._all_at = 100.0 + after

    def take(self, subject: str, host: SimHost) -> str:
        found = super().take(subject, host)
        return "ghosts" if found and host.now > self._all_at else found


@pytest.mark.parametrize(
    ("after", "expected"), [(0.0, [["GPU 0", "GPU 1"]]), (40.0, [["GPU 0", "GPU 1"]]), (600.0, [["GPU 0"], ["GPU 1"]])]
)
def test_one_job_on_several_gpus_is_one_message(after: float, expected: list[list[str]]) -> None:
    """Those that are found out about within a minute are named together; whoever joins later is news."""
    messages = Readings()
    host = SimHost(Machine(gpus=2, script=[Phase(9**9, 0.9)]), until=1200.0, watch=messages, faults=Spreading(after))
    loop = Loop(host, effective(), host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    told = [facts for kind, facts in messages.told if kind == "finding"]
    assert [[name.partition(" (")[0] for name in facts["subjects"]] for facts in told] == expected
    assert {facts["text"] for facts in told} == {"use that nothing makes"}, "what is true of all is said once"


def test_a_finding_decides_nothing() -> None:
    """The engine asks for a message and changes nothing else."""
    before = initial("boot", "instance")
    done = step(before, Finding(5.0, ("0000:01:00.0",), "ghost", "words"), Policy())
    (told,) = done.effects
    assert isinstance(told, Tell)
    assert (told.kind, told.level, told.facts["text"]) == ("finding", "warning", "words")
    core = done.state.core
    assert [one.effect for one in core.pending_messages] == [told.id], "until it is known what became of the message"
    same = core._replace(serial=before.core.serial, unchanged_until=before.core.unchanged_until, pending_messages=())
    assert same == before.core


def test_a_finding_stands_in_the_status_while_it_is_so_and_beside_every_reading() -> None:
    """Not only in one message a day: in the status, for people and as JSON, and in what an incident's story is made of."""
    messages = Readings()
    host = SimHost(Machine(gpus=2, script=[Phase(9**9, 0.0)]), until=9000.0, watch=messages, faults=Strange("ghost"))
    loop = Loop(host, effective(unused_after=3600.0), host.start())
    seen: list[dict[str, Any]] = []
    for moment in (50.0, 500.0):
        host.world.at(moment, lambda: seen.append(loop.status()))
    loop.run()
    assert [[gpu["finding"] for gpu in report["gpus"]] for report in seen] == [[None, None], ["ghost", None]]
    assert seen[1]["gpus"][0]["finding_words"] == "use that nothing makes"
    assert [findings(report) for report in seen] == [[], ["GPU 0: use that nothing makes"]]
    warning = next(facts for kind, facts in messages.told if kind == "warning")
    assert [str(row[2]).startswith("ghost load: no process behind it; ") for row in warning["readings"]] == [
        True,
        False,
    ]


class Readings(Watch):
    """What people got, with its facts."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []

    def message(self, now: object, message: dict[str, Any], delivered: bool) -> None:
        self.told.append((message["kind"], message["facts"]))
