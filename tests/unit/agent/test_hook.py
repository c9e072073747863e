"""The pre-stop hook when the cloud takes the machine away: the real loop starts it once, and says when it failed."""

from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.engine import Notice
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective


class Journal(Watch):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def said(self, now: object, line: str) -> None:
        self.lines.append(line)


class Broken(Faults):
    def __init__(self, word: str) -> None:
        self.word = word

    def take(self, subject: str, host: SimHost) -> str:
        return self.word if subject == "hook" else ""


def announced(word: str = "", hooks: dict[str, Any] | None = None, **policy: Any) -> tuple[SimHost, Journal]:
    """A machine at work; after 1000 s the cloud announces its end, twice."""
    journal = Journal()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1500.0, watch=journal, faults=Broken(word))
    given = {"pre_stop": ["/usr/bin/save"], "timeout": 90.0} if hooks is None else hooks
    loop = Loop(host, {**effective(**{"mode": "live", **policy}), "hooks": given}, host.start())
    for moment in (1000.0, 1010.0):
        host.world.at(moment, lambda: loop.ask(Notice(host.clock().boot, host.clock().boot + 60.0, "Spot ends")))
    try:
        loop.run()
    except SimOff:
        host.die()
    return host, journal


def test_it_runs_once_and_gets_the_time_that_is_left() -> None:
    """The announcement is repeated every few seconds; the program is not."""
    host, journal = announced()
    ((at, job),) = host.world.saved
    assert 1000.0 <= at <= 1002.0
    assert job["hook"]["pre_stop"] == ["/usr/bin/save"]
    assert job["deadline"] == pytest.approx(60.0, abs=1.0)
    assert not [line for line in journal.lines if line.startswith("<3>")]


@pytest.mark.parametrize("word", ["fail", "hang", "die", "garbage"])
def test_its_failure_is_said(word: str) -> None:
    """Nobody finds out otherwise, because the machine is gone soon."""
    _host, journal = announced(word)
    assert len([line for line in journal.lines if line.startswith("<3>")]) == 1


def test_it_needs_to_be_configured_and_live() -> None:
    """A dry run has no effect, and nothing is started for nothing."""
    assert not announced(mode="dry-run")[0].world.saved
    host, journal = announced(hooks={"pre_stop": [], "timeout": 60.0})
    assert not host.world.saved
    assert not [line for line in journal.lines if line.startswith("<3>")]
