"""`costguard stop` beside an agent: whoever waits is told what became of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from costguard.cli.stop import AGENT_SECONDS, SILENT_SECONDS, StopFate, _objections, _Question, follow
from costguard.errors import CostguardError


def report(phase: str, fate: str = "", words: str = "", **incident: Any) -> dict[str, Any]:
    """A status while, or after, a person's stop is under way."""
    now = {"reason": "person", "action": "stop", "proof": "", "receipt": "", "detail": "", **incident}
    return {
        "phase": phase,
        "sentence": f"{phase}: a sentence.",
        "incident": None if phase == "WATCHING" else now,
        "wish": {"fate": fate, "words": words},
    }


class Agent:
    """Answers one status after the other, the last one for ever, on a clock that its listeners move."""

    def __init__(self, *answers: dict[str, Any] | None) -> None:
        self.answers: Iterator[dict[str, Any] | None] = iter(answers)
        self.last: dict[str, Any] | None = None
        self.now = 0.0

    def status(self) -> dict[str, Any]:
        self.last = next(self.answers, self.last)
        if self.last is None:
            raise CostguardError("it hung up", "", 3)
        return self.last

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def follow(self) -> StopFate:
        return follow(self.status, "stop", pause=self.pause, clock=self.clock)


@pytest.mark.parametrize(
    ("ends", "status", "detail"),
    [
        (report("FAILED", "failed", "503", detail="503"), "failed", "503"),
        (report("WATCHING", "failed", "503"), "failed", "503"),
        (report("WATCHING", "withdrawn", "bob holds it"), "withdrawn", "bob holds it"),
        (report("DONE", "cannot", "no right"), "refused", "no right"),
        (report("WATCHING", "cannot", "no right"), "refused", "no right"),
        (report("DONE", "acted"), "done", "DONE: a sentence."),
        (report("CONFIRMING", proof="r-1"), "accepted", "CONFIRMING: a sentence."),
        (report("CONFIRMING", detail="the worker was lost"), "unknown", "the worker was lost"),
        (report("WATCHING"), "withdrawn", "WATCHING: a sentence."),
    ],
)
def test_it_waits_for_the_end_and_says_which(ends: dict[str, Any], status: str, detail: str) -> None:
    """Also where the phase has gone on already: on a machine at work that takes one tick."""
    agent = Agent(report("WARNING"), report("WARNING"), ends)
    fate = agent.follow()
    assert (fate.status, fate.detail) == (status, detail)
    assert agent.now <= 2.0


def test_it_waits_while_the_agent_tries_again(capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes of tries, each reason shown once; the end is that of the last."""
    tries = [report("WARNING", detail="503 from the cloud")] * 600
    agent = Agent(report("WARNING"), *tries, report("FAILED", "failed", "503 at last", detail="503 at last"))
    assert agent.follow().detail == "503 at last"
    assert capsys.readouterr().err.count("503 from the cloud") == 1


def test_an_agent_that_is_started_again_is_waited_for() -> None:
    """It answers no more for some seconds, then says that it took the wish back."""
    agent = Agent(report("WARNING"), *[None] * 20, report("WATCHING", "withdrawn", "started again"))
    assert agent.follow().status == "withdrawn"
    gone = Agent(report("WARNING"), None)
    fate = gone.follow()
    assert fate.status == "unknown"
    assert "it hung up" in fate.detail
    assert gone.now <= SILENT_SECONDS + 2.0


def test_it_does_not_wait_for_ever() -> None:
    """An agent that never ends it leaves the asker with the command that shows it."""
    agent = Agent(report("ACTING"))
    assert agent.follow().status == "unknown"
    assert agent.now <= AGENT_SECONDS + 1.0


def test_what_users_wrote_does_not_write_on_the_screen_of_who_stops(capsys: pytest.CaptureFixture[str]) -> None:
    """Any user may give a hold a reason; root reads it before the question, with the name of who wrote it."""
    report = {
        "gpus": [],
        "holds": [{"owner": "uid 0", "reason": "x\x1b]0;mine\x07\x1b[2J\x9b31m\u202ey\nAll is quiet"}],
        "vetoes": [{"source": "terminals", "reason": "ann\x1b[8m types"}],
    }
    _Question(yes=True, as_json=False)(_objections(report), "")
    written = capsys.readouterr().err
    assert all(line.isprintable() for line in written.splitlines())
    assert [line.split(" x")[0] for line in written.splitlines()] == [
        "  ! held by uid 0 (root):",
        "  ! terminals: ann [8m types",
    ]
