"""Ticks go on, whatever the reader does."""

import json
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent import reader
from costguard.agent.gpu_side import GpuSide
from costguard.agent.loop import Loop
from costguard.agent.reader import ANSWER_WITHIN_SECONDS, StreamPlan
from costguard.engine.observation import Known
from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.host.ports import Instant
from costguard.readers.nvml.job import NvmlJob
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, Watch, effective
from costguard.testing.simprograms import Reader

RULES = rules_of(Policy())

INTERVAL = 15.0


class Driver(Faults):
    """The driver hangs from 600 to 1500 s; it answers within milliseconds otherwise."""

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == "nvml" and 600.0 < host.now < 1500.0 else ""


class SlowStart(Driver):
    """The same, and after that each answer takes 1 to 4.5 s."""

    def take(self, subject: str, host: SimHost) -> str:
        return "slow" if subject == "nvml" and host.now > 1500.0 else super().take(subject, host)


class Beats(Watch):
    """When the loop ticked, and what was seen then."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.seen: list[tuple[float, bool, float]] = []
        self.loop: Loop | None = None

    def served(self, now: Instant, message: str) -> None:
        if not message.startswith("WATCHDOG=1") or self.loop is None:
            return
        self.at.append(now.boot)
        for reading in self.loop.seen.readings:
            known = isinstance(reading, Known)
            self.seen.append((now.boot, known, reading.covers if isinstance(reading, Known) else 0.0))


def beats(faults: Faults) -> Beats:
    """2400 seconds of a guard with one working GPU."""
    watch = Beats()
    made = Machine(gpus=1, script=[Phase(9**9, 0.9)], counters=False, ring=60.0)
    host = SimHost(made, seed=3, until=2400.0, watch=watch, faults=faults)
    watch.loop = Loop(host, effective(interval=INTERVAL), host.start())
    watch.loop.run()
    return watch


def test_a_hung_reader_delays_a_tick_by_no_more_than_its_answer_time() -> None:
    """Neither the hung read nor any restart stops the ticks: what cannot be read is said in time."""
    watch = beats(Driver())
    gaps = [after - before for before, after in zip(watch.at, watch.at[1:], strict=False)]
    assert max(gaps) <= 2 * INTERVAL + ANSWER_WITHIN_SECONDS + 0.1
    assert not all(known for _, known, _ in watch.seen)


class Deaf(Faults):
    """The driver hangs from the first moment until 900 s."""

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == "nvml" and host.now < 900.0 else ""


class Journal(Watch):
    """What the guard wrote."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)


def test_a_driver_that_hangs_from_the_first_moment_is_told() -> None:
    """No GPU is known that could say it: the journal and the status do, once, and that it works again."""
    journal = Journal()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=2400.0, watch=journal, faults=Deaf())
    loop = Loop(host, effective(interval=INTERVAL), host.start())
    told: list[str] = []
    host.world.at(600.0, lambda: told.append(loop.journal.troubles.get("nvml", "")))
    loop.run()
    assert "did not answer within 30 s" in told[0]
    assert len([line for line in journal.lines if "did not answer" in line]) == 1
    assert len([line for line in journal.lines if "the GPU reader works again" in line]) == 1
    assert isinstance(loop.seen.readings[0], Known)


def test_the_first_answer_of_a_new_reader_is_used_when_it_comes() -> None:
    """It reaches back over the hole further than any later one, so the next tick must not throw it away."""
    watch = beats(Driver())
    back = next(covers for at, known, covers in watch.seen if known and at > 1520.0)
    assert back == 60.0
    slow = beats(SlowStart())
    back = next(covers for at, known, covers in slow.seen if known and at > 1520.0)
    assert back == 60.0


def test_a_tick_between_two_beats_keeps_the_rhythm() -> None:
    """The answer that no tick waited for adds one tick and moves none."""
    watch = beats(SlowStart())
    first = watch.at[0]
    beside = [abs((at - first + INTERVAL / 2) % INTERVAL - INTERVAL / 2) for at in watch.at if at < 600.0]
    assert max(beside) <= 0.5
    late = [at for at in watch.at if at > 1600.0]
    assert all((at - first) % INTERVAL <= 5.0 for at in late[-20:])


class Asked(SimHost):
    """Notes what the guard writes to its reader, and which readers it starts and kills."""

    def __init__(self, machine: Machine, faults: Faults | None = None, *, until: float) -> None:
        super().__init__(machine, seed=3, until=until, watch=Beats(), faults=faults or Faults())
        self.asked: list[tuple[float, dict[str, Any]]] = []
        self.started: list[float] = []
        self.killed: list[float] = []

    def send(self, child: int, line: bytes) -> bool:
        if isinstance(self.children.get(child), Reader):
            self.asked.append((self.now, json.loads(line)))
        return super().send(child, line)

    def spawn(self, program: str, job: bytes) -> int:
        if program == "nvml":
            self.started.append(self.now)
        return super().spawn(program, job)

    def kill(self, child: int) -> None:
        if isinstance(self.children.get(child), Reader):
            self.killed.append(self.now)
        super().kill(child)

    def live(self, **policy: Any) -> Loop:
        """The life of a guard here; what it saw stands in ``beats``."""
        loop = Loop(self, effective(interval=INTERVAL, **policy), self.start())
        assert isinstance(self.watch, Beats)
        self.watch.loop = loop
        loop.run()
        return loop

    @property
    def beats(self) -> Beats:
        assert isinstance(self.watch, Beats)
        return self.watch


RESTS = [Phase(9**9, 0.0)]


def test_a_reader_at_rest_is_asked_once() -> None:
    """Then it comes by itself and wakes the guard but once in two readings, once the engine is known to have nothing to decide."""
    host = Asked(Machine(gpus=8, script=RESTS), until=900.0)
    host.live(kill_duration=3600.0)
    assert [line["then"][1:] for _, line in host.asked] == [[INTERVAL], [INTERVAL, 2]]
    assert len(host.beats.at) <= 36, "with a whole answer every two minutes"
    assert all(known for _, known, _ in host.beats.seen)


def test_while_people_are_warned_each_reading_is_asked_for_with_a_look() -> None:
    """From the tick that begins the countdown on, until it is over."""
    host = Asked(Machine(gpus=2, script=RESTS), until=6000.0)
    loop = host.live(kill_duration=600.0, unused_after=1800.0, grace=300.0, kill_action="shutdown")
    asked = [at for at, line in host.asked if line.get("look")]
    assert 300.0 / INTERVAL - 1 <= len(asked) <= 300.0 / INTERVAL + 4
    assert max(b - a for a, b in pairwise(asked)) <= INTERVAL + 0.1
    assert loop.last.state.core.phase != "WATCHING"


class Late(Faults):
    """One answer that comes by itself takes three seconds; or none comes."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def take(self, subject: str, host: SimHost) -> str:
        return self.fault if subject == "nvml" and 300.0 < host.now < 316.0 else ""


def test_a_slow_answer_is_used_and_its_reader_lives() -> None:
    """It is asked when it does not come, and what it had on its way is as good."""
    host = Asked(Machine(gpus=2, script=RESTS), Late("slow"), until=900.0)
    host.live(kill_duration=3600.0)
    assert host.killed == [host.killed[-1]], "at the end of the guard alone"
    assert all(known for _, known, _ in host.beats.seen)
    assert max(b - a for a, b in pairwise(host.beats.at)) <= 2 * INTERVAL + 5.0


@pytest.mark.parametrize("away", [40.0, 7200.0])
def test_a_guard_that_stood_still_asks_anew(away: float) -> None:
    """What its reader said meanwhile is no reading of now, and no reader is killed for it."""
    host = Asked(Machine(gpus=2, script=[Phase(320.0, 0.0), Phase(9**9, 0.9)]), until=8000.0)
    host.world.at(305.0, lambda: host.stall(away))
    loop = host.live(kill_duration=3600.0)
    assert host.started == host.started[:1]
    after = [at for at, _ in host.asked if at > 300.0]
    assert 305.0 + away - 0.1 <= after[0] <= 305.0 + away + 2.0
    assert all(known for at, known, _ in host.beats.seen)
    assert isinstance(loop.seen.readings[0], Known)
    assert loop.seen.readings[0].load == 0.9


def test_a_machine_that_slept_loses_neither_reader_nor_reading() -> None:
    """Its clock of the boot goes on meanwhile, and nobody was late."""
    host = Asked(Machine(gpus=2, script=RESTS), until=8000.0)
    host.world.at(305.0, lambda: host.world.suspend(5000.0))
    host.live(kill_duration=3600.0)
    assert host.started == host.started[:1]
    assert all(known for _, known, _ in host.beats.seen)


def test_a_reader_that_dies_between_two_ticks_leaves_nothing_known() -> None:
    """What it said before is not said again."""
    host = Asked(Machine(gpus=2, script=RESTS), until=330.0)
    host.world.at(
        306.0, lambda: host.expire(host.beats.loop.gpu_side.reader.child or 0, 0.0, -9) if host.beats.loop else None
    )
    host.live(kill_duration=3600.0)
    unknown = min(at for at, known, _ in host.beats.seen if not known)
    assert 306.0 <= unknown - 20.0 <= 306.0 + INTERVAL


def reader_of(host: SimHost) -> reader.ReaderProcess:
    """A reader that was asked, and answered."""
    watched = reader.ReaderProcess(host, "nvml", NvmlJob)
    watched.ask(100.0, stream=StreamPlan(110.0, 10.0))
    assert watched.line(b'{"read":1,"gpus":[["a",0.0,[],1.0,""]]}', 100.5) is not None
    assert watched.streaming
    return watched


@pytest.mark.parametrize(
    ("line", "now", "taken"),
    [
        (b'{"same":1,"read":2,"at":110.0}', 110.1, True),
        (b'{"same":1,"read":2,"at":110.0}', 114.9, True),
        (b'{"same":1,"read":2,"at":110.0}', 115.1, False),
        (b'{"same":1,"read":2,"at":9110.0}', 110.1, False),
        (b'{"same":1,"read":2,"at":NaN}', 110.1, False),
        (b'{"read":2,"at":"now","gpus":[]}', 110.1, False),
        (b'{"same":1,"read":3,"at":110.0}', 110.1, False),
        (b'{"read":2,"gpus":[]}', 110.1, False),
    ],
)
def test_an_answer_that_nobody_asked_for_must_be_the_next_and_fresh(line: bytes, now: float, taken: bool) -> None:
    """Dated, under its number, and not old."""
    reader = reader_of(SimHost(Machine(gpus=1, script=RESTS)))
    assert (reader.line(line, now) is not None) is taken


def test_what_came_by_itself_is_no_answer_to_a_question() -> None:
    """A reader that wrote ahead while the guard stood still does not answer with that."""
    reader = reader_of(SimHost(Machine(gpus=1, script=RESTS)))
    reader.end_stream()
    reader.ask(300.0)
    for number in range(2, 9):
        assert reader.line(b'{"read":%d,"at":299.9,"gpus":[]}' % number, 300.1) is None
    assert reader.waiting


def test_the_same_as_what_was_not_taken_is_asked_for() -> None:
    """Only what the guard has read itself can be said again."""
    host = SimHost(Machine(gpus=1, script=RESTS))
    gpu_side = GpuSide(
        host, effective(), Loop(host, effective(), host.start()).last.state, {}, lambda *_: None, detached=False
    )
    gpu_side.ask(100.0, look=False, stream=StreamPlan(110.0, 10.0))
    assert gpu_side.line(b'{"read":1,"gpus":[["a",0.0,[],1.0,""]]}', 100.5)
    first, _ = gpu_side.observe(100.5, RULES)
    assert gpu_side.line(b'{"same":1,"read":2,"at":110.0}', 110.1)
    again, _ = gpu_side.observe(110.1, RULES)
    assert again is first
    assert not gpu_side.line(b'{"same":2,"read":3,"at":120.0}', 120.1)
    assert not gpu_side.reader.streaming


def test_counters_beside_nothing_new_reach_the_next_reader() -> None:
    """They are what a reader, or a guard, that begins anew bridges its gap with; the answer is the same for all that."""
    reader = reader_of(SimHost(Machine(gpus=1, script=RESTS)))
    assert reader.line(b'{"same":1,"read":2,"at":110.0,"counters":{"a":[110.0,7]}}', 110.1) is not None
    assert reader.handover["counters"]["a"] == [110.0, 7]
    assert reader.line(b'{"same":1,"read":3,"at":120.0}', 120.1) is not None
    assert reader.handover["counters"]["a"] == [110.0, 7]


class Deeds(Watch):
    """When people were warned, and whether anything was done."""

    def __init__(self) -> None:
        self.warned: list[float] = []
        self.done: list[str] = []

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        if program == "notify" and job["message"]["kind"] == "warning":
            self.warned.append(now.boot)

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.done.append(job["action"])


def guarded(*script: Phase) -> Deeds:
    deeds = Deeds()
    host = SimHost(Machine(gpus=1, script=script), seed=1, until=2400.0, watch=deeds)
    config = effective(
        mode="live", kill_action="command", kill_duration=900.0, grace=300.0, window_rule="unbroken", interval=10.0
    )
    Loop(host, config, host.start()).run()
    return deeds


def test_an_answer_that_crosses_a_question_is_not_lost() -> None:
    """I1: at rest a reader answers by itself; the first question of a countdown must not lose what it has just seen."""
    quiet = guarded(Phase(600.0, 0.9))
    assert quiet.done == ["command"]
    burst = quiet.warned[0] - 20.0 + 3.0  # the boot clock read 20 at the beginning
    worked = guarded(Phase(600.0, 0.9), Phase(burst - 600.0), Phase(4.0, 0.9))
    assert worked.warned[0] == quiet.warned[0]
    assert worked.done == []


def test_a_question_is_not_answered_with_the_same() -> None:
    """It asks for what is seen now, not for what was said before."""
    reader = reader_of(SimHost(Machine(gpus=1, script=RESTS)))
    reader.end_stream()
    reader.ask(300.0, look=True)
    asked = 2 + 1  # after the one that was due by itself
    assert reader.line(b'{"same":1,"read":%d}' % asked, 300.1) is None
    assert reader.waiting
    assert reader.line(b'{"read":%d,"gpus":[]}' % asked, 300.2) is not None
