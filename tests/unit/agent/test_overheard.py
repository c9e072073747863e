"""What a reader said in an answer that the guard did not take is not said again: its work must count all the same."""

import json
from typing import Any

import pytest

from costguard.agent.gpu_side import SIGNS_KEPT, GpuSide
from costguard.agent.loop import Loop
from costguard.agent.reader import StreamPlan
from costguard.engine.observation import Known, Unknown
from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective

RULES = rules_of(Policy())

KEY = "0000:01:00.0"
BOOTED = 20.0
"""Seconds since boot when a simulated guard starts."""

FOREVER = Phase(9**9, 0.0)


class DeliveryResult(Watch):
    """When people were warned, and when that was taken back."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def said(self, now: Any, line: str) -> None:
        self.at.setdefault(line[3:].partition(":")[0], now.boot)


def life(
    script: list[Phase], until: float, stall: tuple[float, float] | None = None, interval: float = 10.0
) -> dict[str, float]:
    """A guard on a machine without an energy counter: when it said what first."""
    watch = DeliveryResult()
    host = SimHost(Machine(gpus=2, script=script, counters=False, ring=16.0), seed=3, until=until, watch=watch)
    if stall is not None:
        host.world.at(stall[0], lambda: host.stall(stall[1]))
    settings = effective(interval=interval, kill_duration=1200.0, grace=300.0, mode="live", unused_after=0.0)
    Loop(host, settings, host.start()).run()
    return watch.at


@pytest.mark.parametrize("after", [0.7, 2.0, 5.0, 8.0])
def test_work_right_after_the_warning_began_takes_it_back(after: float) -> None:
    """The reader may have told of it by itself, in the moment in which the guard began to ask."""
    warned = life([Phase(100.0, 0.9), FOREVER], 1500.0)["warning"] - BOOTED
    script = [Phase(100.0, 0.9), Phase(warned + after - 100.0, 0.0), Phase(1.0, 0.9), FOREVER]
    told = life(script, warned + 60.0)
    assert told["cancelled"] <= warned + BOOTED + 2 * 10.0


@pytest.mark.parametrize("stall", [5.2, 6.5, 7.4])
def test_work_that_was_told_while_the_guard_stood_still_counts(stall: float) -> None:
    """The answer is too old to be a reading; what it saw happened since the last one nevertheless."""
    told = life([Phase(100.0, 0.9), FOREVER], 1500.0, interval=15.0)["warning"] - BOOTED
    script = [Phase(100.0, 0.9), Phase(375.0, 0.0), Phase(2.0, 0.9), FOREVER]
    later = life(script, 1900.0, (479.0, 1.0 + stall), interval=15.0)["warning"] - BOOTED
    assert later >= told + 300.0


def test_work_that_waits_behind_an_answer_that_came_too_late_is_heard_first() -> None:
    """A deadline goes by a GPU that cannot be read: a guard that stood still hears all that was written meanwhile before it decides."""
    watch = DeliveryResult()
    script = [Phase(1400.0, 0.0), Phase(9000.0, 0.9)]
    host = SimHost(Machine(gpus=1, script=script, counters=False, ring=180.0), seed=3, watch=watch)
    settings = effective(interval=60.0, kill_action="command", mode="live", lifetime=1500.0, unused_after=None)
    host.world.at(1200.0, lambda: host.signal("TERM"))
    Loop(host, settings, host.start()).run()
    again = SimHost(world=host.world, watch=watch, until=5000.0)
    again.stall(600.0)  # from its first question on, over the deadline
    Loop(again, settings, again.start()).run()
    assert watch.at["deadline passed"] > 1800.0
    assert "warning" not in watch.at


def gpu_side() -> GpuSide:
    """Of a guard whose reader answers by itself; its first answer was observed."""
    host = SimHost(Machine(gpus=1, script=[FOREVER]))
    state = Loop(host, effective(), host.start()).last.state
    made = GpuSide(host, effective(), state, {}, lambda *_: None, detached=False)
    made.ask(100.0, look=False, stream=StreamPlan(110.0, 10.0))
    assert made.line(answer(1), 100.5)
    made.observe(100.5, RULES)
    return made


def answer(number: int, load: float = 0.0, signs: tuple[str, ...] = (), **more: Any) -> bytes:
    """A whole one."""
    row = [KEY, load, signs, 10.0, f"load {load:.0%}"]
    return json.dumps({"read": number, "gpus": [row], "counters": {}, **more}).encode()


def seen(found: GpuSide, now: float) -> tuple[float, tuple[str, ...]]:
    """Load and signs of the GPU in a tick."""
    (reading,) = found.observe(now, RULES)[0].readings
    assert isinstance(reading, Known)
    return reading.load, reading.signs


def test_both_answers_of_a_slow_reader_count() -> None:
    """The one that it had on its way is taken; the other, to the question, says what is since then."""
    found = gpu_side()
    assert not found.reader.late(111.1)
    found.ask(111.1, look=False)
    assert found.line(answer(2, at=110.0), 113.0)
    assert seen(found, 113.0) == (0.0, ())
    assert not found.line(answer(3, 0.8, ("SM 70 %",)), 113.5)
    found.ask(120.0, look=False)
    assert found.line(answer(4), 120.1)
    assert seen(found, 120.1) == (0.8, ("SM 70 %",))
    found.ask(130.0, look=False)
    assert found.line(answer(5), 130.1)
    assert seen(found, 130.1) == (0.0, ()), "told once"


def test_work_that_is_the_same_as_before_counts_too() -> None:
    """The guard stood still: that the machine worked as before is said once, and the next answer says what is since then."""
    found = gpu_side()
    found.ask(110.0, look=False, stream=StreamPlan(120.0, 10.0))
    assert found.line(answer(2, 1.0), 110.1)
    assert seen(found, 110.1) == (1.0, ())
    assert not found.line(b'{"same":2,"read":3,"at":120.0}', 132.0)
    found.ask(132.0, look=False)
    assert found.line(answer(4), 132.1)
    assert seen(found, 132.1) == (1.0, ())
    found.ask(142.0, look=False)
    assert found.line(answer(5), 142.1)
    assert seen(found, 142.1) == (0.0, ()), "told once"


def test_it_is_told_also_of_a_gpu_that_is_lost_meanwhile() -> None:
    """I1: a deadline would else take it for one that was quiet when it was lost. Then unknown stays unknown."""
    found = gpu_side()
    assert not found.line(answer(2, 0.0, ("decoder 3 %",), at=104.0), 110.0)
    found.ask(110.0, look=False)
    assert found.line(answer(3).replace(b'0.0, [], 10.0, "load 0%"', b'null, [], 0, "lost"'), 110.1)
    (worked,) = found.observe(110.1, RULES)[0].readings
    assert isinstance(worked, Known)
    assert (worked.load, worked.signs, worked.covers) == (0.0, ("decoder 3 %",), 0.0)
    assert not isinstance(found.observe(115.0, RULES)[0].readings[0], Known)
    found.ask(120.0, look=False, stream=StreamPlan(130.0, 10.0))
    assert found.line(answer(4), 120.1)
    assert seen(found, 120.1) == (0.0, ()), "told once"
    assert found.line(b'{"same":4,"read":5,"at":130.0}', 130.1)
    assert seen(found, 130.1) == (0.0, ()), "nor is it a part of what is the same"


def test_what_is_no_work_makes_nothing_known() -> None:
    """I1: a load below the threshold that was overheard says nothing of a GPU that cannot be read now."""
    found = gpu_side()
    assert not found.line(answer(2, 0.002, at=104.0), 110.0)
    found.ask(110.0, look=False)
    assert found.line(answer(3).replace(b'0.0, [], 10.0, "load 0%"', b'null, [], 0, "lost"'), 110.1)
    assert isinstance(found.observe(110.1, RULES)[0].readings[0], Unknown)
    found.ask(120.0, look=False)
    assert found.line(answer(4), 120.1)
    assert seen(found, 120.1) == (0.002, ()), "it waits for a reading"


def test_a_gpu_that_an_answer_that_was_not_taken_does_not_list_was_not_seen() -> None:
    """I1: as if it had said so."""
    found = gpu_side()
    found.ask(110.0, look=False)
    assert not found.line(answer(2, at=110.0).replace(KEY.encode(), b"another"), 110.0)
    assert found.line(answer(2).replace(b"10.0,", b"0.5,"), 110.6)
    assert isinstance(found.observe(110.6, RULES)[0].readings[0], Unknown)
    found.ask(120.0, look=False)
    assert not found.line(b'{"read":2,"at":120.0,"gpus":[]}', 120.0)
    assert found.line(answer(3).replace(b"10.0,", b"0.5,"), 120.6)
    assert isinstance(found.observe(120.6, RULES)[0].readings[0], Unknown)


@pytest.mark.parametrize(("reach", "known"), [(0.5, False), (10.2, True)])
def test_what_an_answer_that_was_not_taken_could_not_read_is_a_hole(reach: float, known: bool) -> None:
    """I1: the next one says what is since then; of what was before it proves nothing, unless its evidence reaches that far."""
    found = gpu_side()
    found.ask(110.0, look=False)
    lost = answer(2, at=110.0).replace(b'0.0, [], 10.0, "load 0%"', b'null, [], 0, "lost"')
    assert not found.line(lost, 110.0)
    assert found.line(answer(2).replace(b"10.0,", b"%a," % reach), 110.6)
    (reading,) = found.observe(110.6, RULES)[0].readings
    assert isinstance(reading, Known) is known
    found.ask(120.0, look=False)
    assert found.line(answer(3), 120.1)
    assert seen(found, 120.1) == (0.0, ()), "told once"


def test_no_hole_hides_the_work_that_is_seen_now() -> None:
    """A deadline acts on a machine that cannot be read, and must not take one at work for such a one."""
    found = gpu_side()
    lost = answer(2, at=110.0).replace(b'0.0, [], 10.0, "load 0%"', b'null, [], 0, "lost"')
    assert not found.line(lost, 500.0)
    found.ask(500.0, look=False)
    assert found.line(answer(3, 0.8), 500.1)
    assert seen(found, 500.1) == (0.8, ())


def test_what_is_kept_has_a_bound() -> None:
    """Whatever a reader writes meanwhile."""
    found = gpu_side()
    for number in range(1000):
        assert not found.line(answer(0, number / 2000, (f"sign {number}",)), 101.0)
    found.ask(110.0, look=False)
    assert not found.line(b'{"read":0,"gpus":[7],"info":[]}', 110.0)
    assert found.line(answer(2), 110.1)
    load, signs = seen(found, 110.1)
    assert load == 0.4995
    assert len(signs) == SIGNS_KEPT


def test_an_answer_that_makes_no_sense_is_none() -> None:
    """Whoever waits for signs of life takes each for a reader that answers."""
    found = gpu_side()
    assert found.answered
    found.ask(110.0, look=False)
    assert found.line(b'{"read":2,"gpus":[7],"counters":{}}', 110.1)
    found.observe(110.1, RULES)
    assert not found.answered


def test_devices_that_an_answer_that_came_too_late_named_are_known() -> None:
    """They are named once: else a guard told to watch GPU 0 would miss it for as long as its reader lives."""
    host = SimHost(Machine(gpus=1, script=[FOREVER]))
    state = Loop(host, effective(), host.start()).last.state
    found = GpuSide(host, effective(), state, {}, lambda *_: None, detached=False)
    found.ask(100.0, look=False)
    info = {KEY: {"index": 0, "uuid": "GPU-1", "name": "H100"}}
    assert not found.line(answer(1, info=info), 900.0)
    found.ask(900.0, look=False)
    assert found.line(answer(2), 900.1)
    _, met = found.observe(900.1, RULES)
    assert met is not None
    assert [device.number for device in met.devices] == [0]
