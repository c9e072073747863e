"""Two GPUs on a bus, the stand-in library, and readers that look at them: in this process, or in others."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pynvml
import pytest

from costguard.readers.nvml.codes import SUCCESS
from costguard.readers.nvml.gpu import Gpu, Reading
from costguard.readers.nvml.learnt import Learnt
from costguard.readers.nvml.library import Nvml
from costguard.readers.nvml.reader import Reader
from costguard.testing.nvml import ReaderProcess, Script, write_sysfs
from tests.clock import Clock
from tests.libraries import Libraries

Answer = dict[str, Any]

TICK = 10.0
KEYS = ["0000:01:00.0", "0000:02:00.0"]


class Time(Protocol):
    """Of the machine as readers see it."""

    def pass_over(self, seconds: float) -> None: ...

    def boottime(self) -> float: ...


class Standing:
    """A time that nothing but the test moves."""

    def __init__(self, script: Script, at: float = 86400.0) -> None:
        self._script, self._now = script, at
        script.stand(at)

    def pass_over(self, seconds: float) -> None:
        self._now += seconds
        self._script.stand(self._now)

    def boottime(self) -> float:
        return self._now


def take_library(library: Path, environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give this process the library, as a driver would."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pynvml, "nvmlLib", pynvml.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})


class Inner:
    """A reader in this process. Its answers pass through JSON as those of others do."""

    def __init__(self, sysfs: Path, devfs: Path, time: Time, given: Mapping[str, Any]) -> None:
        self._time, self._number = time, 0
        given = json.loads(json.dumps(given))
        self.reader = Reader(
            str(sysfs),
            str(devfs),
            given["counters"],
            given["known"],
            given["learnt"],
            clock=time.boottime,
            holders=given.get("holders", False),
            sensors=given.get("sensors", False),
            background_is_idle=given.get("background_is_idle", False),
        )

    def read(self, *, look: bool = False) -> Answer:
        """The answer to the next question, which takes its time."""
        self._number += 1
        self._time.pass_over(0.01)
        answer: Answer = json.loads(json.dumps(self.reader.read(self._number, self._time.boottime(), look=look)))
        assert answer["read"] == self._number
        return answer


class World:
    """Two GPUs on a bus, a script for them, and readers in this process on demand."""

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
        self.folder = folder
        self.sysfs = write_sysfs(folder / "sys", KEYS)
        self.script = Script(folder / "gpus", gpus=2, ring_dry=False)
        self.clock = Standing(self.script)
        self.log = folder / "calls"
        self._stack, self._monkeypatch = stack, monkeypatch
        self.take(library)

    def take(self, library: Path) -> None:
        """Another driver, before the first reader."""
        take_library(library, self.script.environment(library, self.log), self._monkeypatch)

    def reader(
        self,
        sysfs: Path | None = None,
        counters: object = None,
        known: Sequence[str] = (),
        learnt: object = None,
        *,
        holders: bool = False,
        sensors: bool = False,
        background_is_idle: bool = False,
    ) -> Inner:
        made = Inner(
            sysfs or self.sysfs,
            self.folder / "dev",
            self.clock,
            {
                "counters": counters,
                "known": known,
                "learnt": learnt,
                "holders": holders,
                "sensors": sensors,
                "background_is_idle": background_is_idle,
            },
        )
        self._stack.callback(made.reader.detach)
        return made

    def calls(self) -> list[tuple[str, str]]:
        return called(self.log)


class Apart:
    """The same for readers in processes of their own."""

    def __init__(self, folder: Path, libraries: Libraries, stack: ExitStack, clock: Clock) -> None:
        self.folder = folder
        self.clock = clock
        self.libraries, self.library = libraries, libraries.nvml()
        self.sysfs = write_sysfs(folder / "sys", KEYS)
        self.script = Script(folder / "gpus", gpus=2, machine=clock.boottime, ring_dry=False)
        self.log = folder / "calls"
        self._stack = stack

    def reader(
        self,
        environment: Mapping[str, str] | None = None,
        sysfs: Path | None = None,
        counters: Mapping[str, object] | None = None,
    ) -> ReaderProcess:
        found = self.script.environment(self.library, self.log) if environment is None else environment
        return self._stack.enter_context(
            ReaderProcess(found, sysfs=sysfs or self.sysfs, devfs=self.folder / "dev", counters=counters)
        )

    def calls(self) -> list[tuple[str, str]]:
        return called(self.log)


def called(log: Path) -> list[tuple[str, str]]:
    """The functions that were called, each with its GPU."""
    return [(line.split()[2], line.split()[3]) for line in log.read_text().splitlines()]


def loads(answer: Answer) -> list[float | None]:
    return [row[1] for row in answer["gpus"]]


def words(answer: Answer, gpu: int = 0) -> str:
    text: str = answer["gpus"][gpu][4]
    return text


running: list[Time] = []
"""The time of the test that runs: a fixture of it puts it here."""


def settle(seconds: float = 0.6) -> None:
    """Let the energy counter grow for a measurable time."""
    running[-1].pass_over(seconds)


def signs(reader: ReaderProcess | Inner, reads: int = 1, seconds: float = 0.6) -> list[str]:
    """What the first GPU shows after so many reads, each over a measurable time."""
    found: list[str] = []
    for _ in range(reads):
        settle(seconds)
        found = reader.read()["gpus"][0][2]
    return found


class Machine:
    """One GPU of the stand-in, read every ten seconds of a time of its own."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._nvml = Nvml()
        code, self._handle = self._nvml.open_index(0)
        assert code == SUCCESS
        self.begin_anew()
        self.now = 1000.0
        self.watts = 70.0
        self.script.stand(self.now)

    def begin_anew(self) -> None:
        """What was learnt of the GPU is lost, as after a boot."""
        self.learnt = Learnt()
        self.gpu = Gpu(self._nvml, self._handle, learnt=self.learnt)

    def restart(self) -> None:
        """A fresh reader, with what the one before it handed over."""
        self.learnt = Learnt(json.loads(json.dumps(self.learnt.saved())))
        counter = self.gpu.meter.anchor
        self.gpu.close()
        self.gpu = Gpu(self._nvml, self._handle, counter, self.learnt)

    def tick(self, ticks: int = 1, seconds: float = TICK) -> Reading:
        for _ in range(ticks):
            self.script.set(power=self.watts)
            self.now += seconds
            self.script.stand(self.now)
            reading = self.gpu.read(self.now)
        return reading

    def close(self) -> None:
        self.gpu.close()
        self._nvml.shutdown()
