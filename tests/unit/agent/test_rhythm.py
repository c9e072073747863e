"""Ticks go on, whatever the reader does."""

from costguard.agent.loop import Loop
from costguard.agent.ports import Instant
from costguard.agent.supervise import ANSWER_WITHIN
from costguard.engine.observation import Known
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, Watch, effective

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
    assert max(gaps) <= INTERVAL + ANSWER_WITHIN + 0.1
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
    host.world.at(600.0, lambda: told.append(loop.troubles.get("nvml", "")))
    loop.run()
    assert "did not answer within 30 s" in told[0]
    assert len([line for line in journal.lines if "did not answer" in line]) == 1
    assert len([line for line in journal.lines if "the GPU reader answers again" in line]) == 1
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
    off = [at for at in watch.at if at < 600.0 and (at - first) % INTERVAL > 0.5]
    assert off == []
    late = [at for at in watch.at if at > 1600.0]
    assert all((at - first) % INTERVAL <= 5.0 for at in late[-20:])
