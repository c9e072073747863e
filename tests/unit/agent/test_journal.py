"""The journal is for people: no line begins with a name of ours."""

import re
from contextlib import suppress

import pytest

from costguard.agent.journal import PREFIXES, line
from costguard.agent.loop import Loop
from costguard.engine.effects import Tell
from costguard.host.ports import Instant
from costguard.notify import compose
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective
from costguard.testing.simworld import SimOff

INTERNAL = re.compile(r"<\d>[a-z]+(_[a-z]+)+\b|<\d>(nvml|bug|commitments|request) ")


class Lines(Watch):
    """Every line of the journal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)


def test_every_kind_of_message_has_its_words() -> None:
    """What people can be told begins with words of theirs."""
    lacking = compose._KINDS.keys() - PREFIXES.keys()
    assert not lacking, f"add {sorted(lacking)} to PREFIXES of agent/journal.py"


@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_no_line_begins_with_an_internal_name(mode: str) -> None:
    """A day with work, a warning, unreadable GPUs and a stop."""
    lines = Lines()
    phases = [Phase(1800, (0.9,)), Phase(2400, 0.0, unknown={0: "no answer"}), Phase(9**9, (0.0,))]
    host = SimHost(Machine(gpus=1, script=phases), until=20000.0, watch=lines)
    with suppress(SimOff):  # live, the machine goes off
        Loop(host, effective({"mode": mode, "kill_duration": 1200.0}), host.start()).run()
    assert any("warning: WARNING: " in each for each in lines.lines), lines.lines
    assert any("something cannot be seen: " in each for each in lines.lines)
    assert not [each for each in lines.lines if INTERNAL.match(each)]


def test_a_refused_plan_says_why() -> None:
    """One line of the journal is enough to know what to do."""
    told = Tell(
        "e1", "preflight_refused", "critical", {"findings": [["code", "the right ec2:StopInstances is missing", ""]]}
    )
    assert line(told, "IDLE: x.") == "plan refused: the right ec2:StopInstances is missing; IDLE: x."
    assert line(Tell("e2", "some_new_kind", "info", {}), "IDLE: x.") == "some new kind: IDLE: x."


def test_a_guard_that_ends_promises_nothing() -> None:
    """Its last line does not say in one breath that nobody guards and when the stop comes."""
    found = line(Tell("m1", "unguarded", "warning", {}), "WARNING: GPU 0 below 5 %; stop in 58s, at 12:58 UTC.")
    assert found.startswith("NOT GUARDED: costguard ended during a countdown")
    assert "12:58" not in found
