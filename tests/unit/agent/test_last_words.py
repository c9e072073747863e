"""What a reader says before it ends is what people read, wherever they look."""

import itertools
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.agent.reader import ReaderProcess
from costguard.host.ports import Instant
from costguard.notify.compose import compose
from costguard.readers.nvml.job import NvmlJob
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective

WORDS = "the driver is not loaded (NVML 9, Init)"


class Down(Faults):
    """The driver is down from a moment on, until another."""

    def __init__(self, since: float = 0.0, until: float = 9e9) -> None:
        self.since, self.until = since, until

    def take(self, subject: str, host: SimHost) -> str:
        return "down" if subject == "nvml" and self.since <= host.now < self.until else ""


class Heard(Watch):
    """What the journal and people got."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.told: list[dict[str, Any]] = []

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.told.append(message)


def watched(faults: Faults, *looks: float, until: float = 1500.0) -> tuple[Heard, list[dict[str, Any]]]:
    """A guard on two GPUs; its status at some moments."""
    heard, seen = Heard(), []
    host = SimHost(Machine(gpus=2, script=[Phase(9**9, 0.9)]), until=until, watch=heard, faults=faults)
    loop = Loop(host, effective(), host.start())
    for moment in looks:
        host.world.at(moment, lambda: seen.append(loop.status()))
    try:
        loop.run()
    except SimOff:
        host.die()
    return heard, seen


@pytest.mark.parametrize("since", [0.0, 300.0])
def test_a_driver_that_is_down_is_named_everywhere(since: float) -> None:
    """In status as long as it lasts, in the journal once, and in the alarm; never "exit code 3"."""
    heard, seen = watched(Down(since), *(since + after for after in (12.0, 15.0, 61.0, 405.0, 1000.0)))
    for report in seen:
        assert report["agent"]["reader"] == WORDS
        assert {gpu["words"] for gpu in report["gpus"]} == {WORDS}
        assert WORDS in report["agent"]["troubles"]["nvml"]
    assert [line for line in heard.lines if WORDS in line] == [f"<3>no GPU can be read: {WORDS}"]
    (alarm,) = [message for message in heard.told if message["kind"] == "unknown_alarm"]
    assert WORDS in compose("unknown_alarm", alarm["facts"]).body
    assert not [line for line in heard.lines if "exit code" in line]


def test_the_words_end_with_their_cause() -> None:
    """The driver is loaded again: nothing of it stays."""
    heard, seen = watched(Down(300.0, 340.0), 500.0)
    assert seen[0]["agent"]["reader"] == "answers"
    assert seen[0]["agent"]["troubles"] == {}
    assert "<5>the GPU reader works again" in heard.lines


class Gone(Faults):
    """No GPU answers the driver: a reader sees that for two reads, and ends for a fresh one, which sees the same."""

    def __init__(self) -> None:
        self.fates = itertools.cycle(("blind", "blind", "down"))

    def take(self, subject: str, host: SimHost) -> str:
        return next(self.fates) if subject == "nvml" and 300.0 <= host.now < 3000.0 else ""


def test_a_new_reader_that_sees_no_gpu_either_is_no_news() -> None:
    """A card that is lost for a week: said once, and once that it is back, however many readers tried meanwhile."""
    heard, seen = watched(Gone(), 2900.0, 4500.0, until=4600.0)
    assert [line for line in heard.lines if "no GPU can be read" in line] == [f"<3>no GPU can be read: {WORDS}"]
    assert heard.lines.count("<5>the GPU reader works again") == 1
    assert WORDS in seen[0]["agent"]["troubles"]["nvml"]
    assert seen[1]["agent"]["troubles"] == {}


def child(*lines: bytes, code: int) -> str:
    """The words about a reader that wrote these lines in answer to its first read, and ended."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]))
    host.start()
    reader = ReaderProcess(host, "nvml", NvmlJob)
    reader.ask(1.0)
    for line in lines:
        reader.line(line, 2.0)
    reader.ended(code, 3.0)
    return reader.failure


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [
        ([b'{"last_words":"ModuleNotFoundError: No module named pynvml"}'], 1,
         "ModuleNotFoundError: No module named pynvml; the reader ended (exit code 1)"),
        ([b'{"read":1,"gpus":[],"error":"no permission (NVML 4, Init)"}'], 3, "no permission (NVML 4, Init)"),
        ([b'{"read":1,"gpus":[],"error":"no permission (NVML 4, Init)"}'], -11,
         "no permission (NVML 4, Init); the reader ended (signal 11)"),
        ([], -11, "the reader ended (signal 11); the journal may say why"),
    ],
)  # fmt: skip
def test_the_end_of_a_process_never_hides_its_reason(lines: list[bytes], code: int, words: str) -> None:
    """What failed comes first; how the process ended only where it adds something."""
    assert child(*lines, code=code) == words


class Flaky(Faults):
    """One GPU fails now and then."""

    def take(self, subject: str, host: SimHost) -> str:
        return "partial" if subject == "nvml" and 300.0 <= host.now < 500.0 and host.now % 20.0 < 10.0 else ""


def test_one_gpu_that_fails_is_named_in_the_journal_without_flooding_it() -> None:
    """Which, why, and that it ended: at most two lines a minute."""
    heard, _ = watched(Flaky(), until=900.0)
    named = [line for line in heard.lines if "cannot be read: NVML 999" in line]
    assert 1 <= len(named) <= 8
    assert any("can be read again" in line for line in heard.lines)
