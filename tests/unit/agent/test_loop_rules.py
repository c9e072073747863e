"""The loop's own rules: its beat after a hole and a bug, what it writes how often, whose end it hears, for what it waits."""

from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.journal import LOG_EVERY_SECONDS
from costguard.agent.leaving import LEAVE_WITHIN_SECONDS
from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective
from tests.unit.agent.test_bugs import Buggy

INTERVAL = 10.0


class Seen(Watch):
    """Moments of ticks, words to the service manager, and lines."""

    def __init__(self) -> None:
        self.beats: list[float] = []
        self.status: list[tuple[float, str]] = []
        self.lines: list[tuple[float, str]] = []
        self.messages: list[float] = []

    def served(self, now: Instant, message: str) -> None:
        if message.startswith("WATCHDOG=1"):
            self.beats.append(now.boot)
        if "STATUS=" in message:
            self.status.append((now.boot, message.partition("STATUS=")[2]))

    def said(self, now: Instant, line: str) -> None:
        self.lines.append((now.boot, line))

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.messages.append(now.boot)


def lived(kind: type[SimHost] = SimHost, *, until: float = 3000.0, faults: Faults | None = None, stall: float = 0.0,
          script: list[Phase] | None = None, **policy: Any) -> tuple[Seen, Loop, SimHost]:  # fmt: skip
    """A guard until so many seconds."""
    seen = Seen()
    host = kind(Machine(gpus=1, script=script or [Phase(9**9, 0.9)]), seed=3, until=until, watch=seen, faults=faults)
    loop = Loop(host, effective(interval=INTERVAL, **policy), host.start())
    if stall:
        host.world.at(1000.0, lambda: host.stall(stall))
    try:
        loop.run()
    except SimOff:
        host.die()
    return seen, loop, host


@pytest.mark.parametrize("stall", [0.0, 7.0, 12.0, 25.0, 400.0])
def test_after_a_hole_the_beat_is_the_old_one(stall: float) -> None:
    """No tick is made up for, and none is left out; of two that say the same, one is heard of."""
    seen, _, _ = lived(stall=stall)
    gaps = [after - before for before, after in pairwise(seen.beats)]
    assert max(gaps) <= stall + 2 * INTERVAL + 0.1
    later = [gap for at, gap in zip(seen.beats, gaps, strict=False) if at > 1000.0 + stall + 4 * INTERVAL]
    assert all(abs(gap - INTERVAL) <= 0.1 or abs(gap - 2 * INTERVAL) <= 0.1 for gap in later)
    assert later.count(max(later)) > len(later) / 2
    assert sum(gap < INTERVAL - 1.0 for gap in gaps) <= 2


@pytest.mark.parametrize("stall", [12.0, 25.0, 400.0])
def test_after_a_hole_in_a_countdown_the_beat_is_the_old_one(stall: float) -> None:
    """Where each reading is asked for: no tick is made up for, and none is left out."""
    seen, loop, _ = lived(stall=stall, script=[Phase(300.0, 0.9)], until=1900.0, kill_duration=300.0, grace=3000.0)
    assert loop.last.state.core.phase == "WARNING"
    gaps = [after - before for before, after in pairwise(seen.beats)]
    later = [gap for at, gap in zip(seen.beats, gaps, strict=False) if at > 1000.0 + stall + 2 * INTERVAL]
    assert len(later) > 20
    assert min(later) >= INTERVAL - 0.1
    assert max(later) <= INTERVAL + 0.1
    assert sum(gap < INTERVAL - 1.0 for gap in gaps) <= 3


def test_what_a_message_says_is_not_written_twice() -> None:
    """The sentence of the tick in which people are told stands in that line's place."""
    seen, _, _ = lived(script=[Phase(300.0, 0.9)], until=1900.0, kill_duration=300.0, grace=600.0)
    told = [at for at, line in seen.lines if line.startswith("<4>") and "warning" in line]
    assert told
    assert not [line for at, line in seen.lines if at == told[0] and line.startswith("<6>")]


class AfterBug(Seen):
    """What is left to do a second after each bug was told."""

    def __init__(self) -> None:
        super().__init__()
        self.host: SimHost | None = None
        self.loop: Loop | None = None
        self.left: list[tuple[int, int, int]] = []

    def said(self, now: Instant, line: str) -> None:
        super().said(now, line)
        if "BUG" in line and self.host is not None:
            self.host.world.at(now.boot + 1.0, self.look)

    def look(self) -> None:
        assert self.loop is not None
        self.left.append((len(self.loop._fresh_starts), len(self.loop._effects), len(self.loop._events)))


def test_what_a_bug_left_is_done_at_once() -> None:
    """The guard begins again in the same moment; nothing waits for the next tick."""
    seen = AfterBug()
    host = BuggyBeat(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1200.0, watch=seen)
    seen.host, seen.loop = host, Loop(host, effective(interval=INTERVAL), host.start())
    seen.loop.run()
    assert seen.left == [(0, 0, 0)]


class BuggyBeat(Buggy):
    """A bug at the end of a tick."""

    bugs, where = (1000.0,), "WATCHDOG"


def test_after_a_bug_the_beat_goes_on() -> None:
    """One tick is lost, and the next one comes in time."""
    seen, _, _ = lived(BuggyBeat)
    (lost,) = [at for at, line in seen.lines if "BUG" in line]
    gaps = [after - before for before, after in pairwise(seen.beats)]
    assert min(at - lost for at in seen.beats if at > lost) <= INTERVAL + 0.1
    assert max(gaps) <= 3 * INTERVAL + 0.1
    assert sorted(gaps)[-2] <= 2 * INTERVAL + 0.1
    assert min(gaps[1:]) >= INTERVAL - 0.1, "and none is made up for"


def test_a_sentence_that_differs_in_numbers_only_is_written_once() -> None:
    """The status of the service is that of the journal, and neither changes while only the time does."""
    seen, _, _ = lived()
    sentences = [line for _, line in seen.lines if line.startswith("<6>")]
    assert len(sentences) <= 4
    assert [f"<6>{words}" for _, words in seen.status] == sentences


def test_a_cause_that_changes_is_written_in_its_tick_or_a_minute_after_the_one_before() -> None:
    """Whatever else stays as it is: the state, what is remembered, or nothing."""
    script = [
        Phase(600.0, 0.9), Phase(400.0), Phase(300.0, unknown={0: "gone"}), Phase(300.0), Phase(300.0, 0.9),
        Phase(300.0, 0.9, unknown={0: "gone"}), Phase(300.0, unknown={0: "x"}), Phase(9**9),
    ]  # fmt: skip
    seen, _, _ = lived(script=script, until=4000.0)
    written = [(round(at), line[3:].partition(":")[0]) for at, line in seen.lines if line.startswith("<6>")]
    assert written == [(20, "STARTING"), *((at, "ARMED") for at in (610, 680, 1020, 1320, 1620, 1920, 2520))]
    causes = [line.partition(": ")[2][:22] for at, line in seen.lines if line.startswith("<6>ARMED")]
    works, quiet, unknown = "GPU 0 is busy; work is", "the GPU quiet for ", "GPU 0 cannot be read f"
    assert [
        cause.startswith(one)
        for cause, one in zip(causes, [works, quiet, unknown, quiet, works, unknown, quiet], strict=True)
    ] == [True] * 7


class Present(Seen):
    """The moment of the engine's last step at each word to the service manager."""

    def __init__(self) -> None:
        super().__init__()
        self.loop: Loop | None = None
        self.steps: list[float] = []

    def served(self, now: Instant, message: str) -> None:
        super().served(now, message)
        if message.startswith("WATCHDOG=1") and self.loop is not None:
            self.steps.append(self.loop.last.state.at)


def test_what_a_tick_says_is_of_that_tick() -> None:
    """Status, history and heartbeat follow the step of the engine, not the one before."""
    seen = Present()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=600.0, watch=seen)
    seen.loop = Loop(host, effective(interval=INTERVAL), host.start())
    seen.loop.run()
    assert len(seen.steps) > 30
    assert seen.steps == seen.beats


def test_a_sentence_that_changes_within_its_state_is_written_once_a_minute() -> None:
    """Load that comes and goes is no story; a change of the state is one at once."""
    script = [Phase(seconds, load) for _ in range(60) for seconds, load in ((20.0, 0.9), (40.0, 0.0))]
    seen, _, _ = lived(script=script, until=2400.0)
    moments = [at for at, line in seen.lines if line.startswith("<6>IDLE")]
    gaps = [after - before for before, after in pairwise(moments)]
    assert len(moments) > 10
    assert min(gaps) >= LOG_EVERY_SECONDS
    assert max(gaps) <= LOG_EVERY_SECONDS + 5 * INTERVAL


class Deathly(Faults):
    """Messages die before they are sent, for a while."""

    def take(self, subject: str, host: SimHost) -> str:
        return "die" if subject == "notify" and host.now < 1530.0 else ""


def test_the_end_of_a_worker_is_heard_at_once() -> None:
    """A message that died is sent again after its pause, not after the time that it might have taken."""
    rules: dict[str, Any] = {"mode": "live", "kill_action": "shutdown", "kill_duration": 900.0, "grace": 300.0}
    seen, _, _ = lived(faults=Deathly(), script=[Phase(600.0, 0.9)], **rules)
    warned = [at for at, line in seen.lines if "warning: WARNING" in line]
    gaps = [after - before for before, after in pairwise(warned)]
    assert gaps
    assert gaps[0] <= 10.0 + 1.0 + 2 * INTERVAL


class Stuck(Faults):
    """One kind of writer hangs at the end."""

    def __init__(self, subject: str) -> None:
        self.subject = subject

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == self.subject and host.now >= 2999.0 else ""


@pytest.mark.parametrize(("subject", "waits"), [("persist", True), ("history", True), ("nothing", False)])
def test_a_guard_that_ends_waits_for_its_files_a_moment(subject: str, waits: bool) -> None:
    """For either of them, and not longer."""
    _, _, host = lived(faults=Stuck(subject))
    taken = host.now - 3000.0
    assert taken == pytest.approx(LEAVE_WITHIN_SECONDS, abs=0.1) if waits else taken < 1.0


@pytest.mark.parametrize("what", ["beat", "cloud", "configure", "notify"])
def test_a_guard_that_ends_leaves_no_child_behind(what: str) -> None:
    """One that acts finishes; nobody would hear what any other one says."""

    class Hangs(Faults):
        def take(self, subject: str, host: SimHost) -> str:
            return "hang" if subject == what and host.now > 1000.0 else ""

    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3, until=3000.0, faults=Hangs())
    config = {
        **effective(mode="live", unused_after=2450.0, boot_grace=600.0, grace=600.0, interval=INTERVAL),
        "heartbeat": {"url": "https://beats.example/x", "every": 60.0},
        "providers": ["x=costguard_x"],
        "cloud": {"notices": "on"},
    }
    loop = Loop(host, config, host.start())
    host.world.at(2999.5, lambda: host.signal("HUP"))
    assert loop.run() == 0
    assert host.children == {}


def test_the_driver_is_let_go_and_taken_up_in_words() -> None:
    """What was done, or that it was so already."""
    words: list[str] = []
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1000.0)
    loop = Loop(host, effective(), host.start())
    for moment, attach in enumerate((True, False, False, True, True), start=1):
        host.world.at(100.0 * moment, lambda attach=attach: words.append(loop.switch_driver(attach=attach)))  # type: ignore[misc]  # mypy cannot infer it
    loop.run()
    assert [one.partition(";")[0] for one in words] == [
        "nothing to do: the GPU driver is already attached",
        "GPU driver detached",
        "the GPU driver is already detached",
        "GPU driver attached",
        "nothing to do: the GPU driver is already attached",
    ]


def test_what_was_noted_at_the_start_is_said() -> None:
    """Before anything else, each in a line of its own."""
    seen = Seen()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=100.0, watch=seen)
    Loop(host, effective(interval=INTERVAL), host.start()._replace(notes=("one", "two"))).run()
    assert [line for _, line in seen.lines][:2] == ["<4>one", "<4>two"]
