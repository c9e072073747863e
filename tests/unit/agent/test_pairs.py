"""A machine at rest, or at steady work: of two readings in a row that say the same, the guard hears of one."""

import json
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent import decode
from costguard.agent.gpu_side import GpuSide
from costguard.agent.loop import Loop
from costguard.agent.reader import ReaderProcess, StreamPlan
from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.host.ports import Instant
from costguard.readers.nvml.job import NvmlJob
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, effective
from costguard.testing.simprograms import Reader
from costguard.testing.simworld import World

INTERVAL = 10.0
RULES = rules_of(Policy())
RESTS = [Phase(9**9, 0.0)]
ROW = b'["a",0.0,[],10.0,""]'


class Ticks(Watch):
    """When the guard ticked, what people were told, and what was done."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.told: list[tuple[str, float]] = []
        self.minutes: list[tuple[float, ...]] = []

    def served(self, now: Instant, message: str) -> None:
        if message.startswith("WATCHDOG"):
            self.at.append(now.boot)

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        if program == "notify":
            self.told.append((job["message"]["kind"], now.boot))
        if program == "history":
            self.minutes += [tuple(row.values()) for row in job["machine"]]

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.told.append((job["action"], now.boot))


class Asked(SimHost):
    """Notes the questions to the reader; ``silent`` is whether that one may leave anything unsaid."""

    def __init__(self, world: World, *, until: float, silent: bool = True) -> None:
        self.ticks = Ticks()
        super().__init__(world=world, until=until, watch=self.ticks)
        self.asked: list[tuple[float, dict[str, Any]]] = []
        self.silent = silent

    def send(self, child: int, line: bytes) -> bool:
        if isinstance(self.children.get(child), Reader):
            self.asked.append((self.now, json.loads(line)))
            line = line if self.silent else line.replace(b",2]", b"]")
        return super().send(child, line)


def life(script: list[Phase], until: float, *, silent: bool = True, wish: float = 0.0, **policy: Any) -> Asked:
    """One guard, alone with a machine; at ``wish`` somebody holds it."""
    host = Asked(World(Machine(gpus=2, script=script, counters=False, ring=18.0), seed=3), until=until, silent=silent)
    loop = Loop(host, effective(interval=INTERVAL, **policy), host.start())
    if wish:
        hold = {"command": "hold", "seconds": 600.0, "reason": "why"}

        def ask() -> None:
            host.request(1000, hold)

        host.world.at(wish, ask)
    loop.run()
    return host


STORIES: dict[str, tuple[list[Phase], dict[str, Any]]] = {
    "rest after work": (
        [Phase(700.0, 0.9), *RESTS],
        {"kill_duration": 900.0, "grace": 300.0, "kill_action": "command"},
    ),
    "never any work": (RESTS, {"unused_after": 1800.0, "grace": 300.0, "kill_action": "command"}),
    "work that comes back": (
        [Phase(700.0, 0.9), Phase(1000.0, 0.0), Phase(400.0, 0.5), *RESTS],
        {"kill_duration": 900.0, "grace": 300.0, "kill_action": "command"},
    ),
    "one that cannot be read": ([Phase(700.0, 0.9), Phase(9**9, 0.0, unknown={1: "gone"})], {"kill_duration": 900.0}),
    "a lifetime": ([Phase(9**9, 0.9)], {"lifetime": 2000.0, "unused_after": None}),
}


@pytest.mark.parametrize("name", STORIES)
def test_what_is_left_unsaid_changes_no_decision(name: str) -> None:
    """People are told, and something is done, in the same tick as by a guard that hears of every reading."""
    script, policy = STORIES[name]
    heard, every = (life(script, 4500.0, silent=silent, mode="live", **policy) for silent in (True, False))
    assert [what for what, _ in heard.ticks.told] == [what for what, _ in every.ticks.told]
    assert [at for _, at in heard.ticks.told] == pytest.approx([at for _, at in every.ticks.told], abs=0.1)
    assert every.ticks.told
    assert len(heard.ticks.at) < 0.8 * len(every.ticks.at)


def test_the_minutes_of_the_history_are_whole() -> None:
    """A tick that nobody said is counted in its own minute."""
    heard = life(RESTS, 3 * 3600.0 + 900.0, kill_duration=9.0**6, unused_after=None)
    assert len(heard.ticks.minutes) > 100
    assert {round(sum(row[1:]) / INTERVAL) for row in heard.ticks.minutes[1:-1]} <= {5, 6, 7}


def test_a_wish_is_heeded_in_the_next_tick() -> None:
    """The engine has something to think about: the guard asks, and does not wait for what comes by itself."""
    host = life(RESTS, 1300.0, wish=1003.0, kill_duration=3600.0)
    assert [at for at, _ in host.asked if 900.0 < at <= 1003.0 + INTERVAL]
    assert [at for at in host.ticks.at if 1003.0 <= at - 20.0 <= 1003.0 + INTERVAL + 0.1]


def test_each_reading_is_heard_of_when_a_decision_is_near() -> None:
    """And while people are warned; else the guard would be late by an interval."""
    host = life([Phase(700.0, 0.9), *RESTS], 1650.0, kill_duration=900.0)
    near = [at for at in host.ticks.at if at - 20.0 >= 1580.0]
    assert max(b - a for a, b in pairwise(near)) <= 2 * INTERVAL + 0.1
    assert max(b - a for a, b in pairwise(near) if a - 20.0 >= 1600.0) <= INTERVAL + 0.1
    calm = [at for at in host.ticks.at if 1000.0 <= at - 20.0 < 1400.0]
    assert len(calm) <= 24


def test_a_cloud_is_asked_in_each_interval() -> None:
    """What it announces may leave half a minute: no tick is left out for the GPUs' sake."""
    world = World(Machine(gpus=2, script=RESTS), seed=3)
    host = Asked(world, until=900.0)
    loop = Loop(host, {**effective(interval=INTERVAL), "providers": ["x=costguard_x"]}, host.start())
    loop.run()
    assert max(b - a for a, b in pairwise(host.ticks.at)) <= INTERVAL + 0.1
    assert not [line for _, line in host.asked if line.get("then", [])[2:]]


@pytest.mark.parametrize(
    ("policy", "above"),
    [
        ({}, 0.05),
        ({"arm_threshold": 0.3}, 0.3),
        ({"kill_threshold": 0.15}, 0.15),
        ({"kill_threshold": 0.7, "stop_below_load": True}, 0.7),
        ({"aggregate": "mean"}, None),
    ],
)
def test_the_reader_is_told_above_which_load_nothing_is_compared(policy: dict[str, Any], above: float | None) -> None:
    """Where a mean decides, each load counts to the percent."""
    host = life(RESTS, 200.0, kill_action="command", **policy)
    assert {line.get("above") for _, line in host.asked} == {above}


HIGHER: dict[str, Any] = {"arm_threshold": 0.4}


def test_a_reload_tells_the_reader_anew() -> None:
    """Other thresholds, other loads that may pass for alike; also where each reading is heard of."""
    host = Asked(World(Machine(gpus=2, script=[Phase(9**9, 0.9)]), seed=3), until=400.0)
    before, after = ({**effective(interval=INTERVAL, **one), "providers": ["x=costguard_x"]} for one in ({}, HIGHER))
    loop = Loop(host, before, host.start())
    host.world.at(203.0, lambda: loop._adopt(after))
    loop.run()
    assert [line["above"] for at, line in host.asked if at <= 203.0][-1] == 0.05
    assert [line["above"] for at, line in host.asked if 203.0 < at <= 203.0 + 2 * INTERVAL] == [0.4]


def paired() -> ReaderProcess:
    """A reader that was asked, answered, and may leave readings unsaid."""
    reader = ReaderProcess(SimHost(Machine(gpus=1, script=RESTS)), "nvml", NvmlJob)
    reader.ask(100.0, stream=StreamPlan(110.0, 10.0, pairs=True))
    assert reader.line(b'{"read":1,"gpus":[%s]}' % ROW, 100.5) is not None
    return reader


@pytest.mark.parametrize(
    ("line", "now", "taken"),
    [
        (b'{"same":1,"read":2,"at":110.0}', 110.1, True),
        (b'{"same":1,"read":3,"at":120.0,"unsaid":[1,110.0]}', 120.1, True),
        (b'{"same":1,"read":3,"at":120.0}', 120.1, False),
        (b'{"same":1,"read":2,"at":110.0,"unsaid":[1,100.0]}', 110.1, False),
        (b'{"same":1,"read":4,"at":130.0,"unsaid":[1,120.0]}', 130.1, False),
        (b'{"same":1,"read":3,"at":120.0,"unsaid":[1,110.0]}', 125.1, False),
    ],
)
def test_an_answer_after_one_that_was_not_said_has_its_number(line: bytes, now: float, taken: bool) -> None:
    """One may be left out, and only where that is said."""
    reader = paired()
    assert (reader.line(line, now) is not None) is taken


def test_one_that_says_nothing_for_two_readings_is_asked() -> None:
    """A reader that hangs is noticed within two intervals, and what is asked has a number of its own."""
    reader = paired()
    assert reader.deadline == 121.0
    alone = []
    for now in (120.9, 121.0):
        assert not reader.late(now)
        alone.append(reader.streaming)
    assert alone == [True, False]
    reader.ask(121.0)
    assert reader.deadline == 125.0
    assert reader.line(b'{"same":1,"read":3,"at":120.0,"unsaid":[1,110.0]}', 121.1) is not None, "late, and as good"
    reader.ask(130.0)
    assert reader.line(b'{"read":3,"gpus":[%s]}' % ROW, 130.1) is None
    assert reader.line(b'{"read":5,"gpus":[%s]}' % ROW, 130.2) is not None


@pytest.mark.parametrize(
    ("unsaid", "stood"),
    [
        ([1, 110.0], 110.0), ([1, 119.9], 119.9), ([2, 110.0], None), ([0, 110.0], None), ([1, 100.5], None), ([1, 90.0], None),
        ([1, 120.5], None), ([1], None), (110.0, None), ({}, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("short", [True, False])
def test_what_was_not_said_counts_where_it_can_be(unsaid: object, stood: float | None, short: bool) -> None:
    """Between the last look and this one, and as an answer that the guard has read."""
    assert stood_by(b'"same":1' if short else b'"gpus":[%s]' % ROW, unsaid) == stood


def stood_by(said: bytes, unsaid: object) -> float | None:
    """What a guard makes of a second answer, at 120 s after one at 100.5 s; of the third one nothing."""
    host = SimHost(Machine(gpus=1, script=RESTS))
    state = Loop(host, effective(), host.start()).last.state
    gpu_side = GpuSide(host, effective(), state, {}, lambda *_: None, detached=False)
    gpu_side.ask(100.0, look=False, stream=StreamPlan(110.0, 10.0, pairs=True))
    assert gpu_side.line(b'{"read":1,"gpus":[%s]}' % ROW, 100.5)
    gpu_side.observe(100.5, RULES)
    assert gpu_side.line(b'{%s,"read":3,"at":120.0,"unsaid":%s}' % (said, json.dumps(unsaid).encode()), 120.1)
    gpu_side.observe(120.1, RULES)
    found = gpu_side.skipped_at
    assert gpu_side.line(b'{"read":4,"at":130.0,"gpus":[%s]}' % ROW, 130.1)
    gpu_side.observe(130.1, RULES)
    assert gpu_side.skipped_at is None
    return found


@pytest.mark.parametrize("unsaid", [[1, "x"], [1, None], [1, True], [1, [110.0]], [[1], 110.0]])
def test_nonsense_was_not_said(unsaid: object) -> None:
    """Beside an answer that says everything it leaves that one as it is."""
    assert stood_by(b'"gpus":[%s]' % ROW, unsaid) is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"same":12,"read":13,"at":86400.125,"unsaid":[12,86390.125]}',
        b'{"same":12,"read":13,"at":86400.125,"unsaid":12,"x":[1]}',
        b'{"same":12,"read":13,"at":86400.125,"more":[12,86390.125]}',
    ],
)
def test_a_short_line_is_read_as_what_it_is(line: bytes) -> None:
    """The quick way and the thorough one find the same."""
    assert decode.message(line) == json.loads(line)
