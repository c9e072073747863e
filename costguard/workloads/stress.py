"""Put a load on GPUs, look how warm they get, and take it away again: one process for each GPU, and the reader beside them."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from costguard.agent.granted import VISIBLE
from costguard.process.child import Child, EndedError, SilentError
from costguard.process.wire import MalformedError, from_line, to_line
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.question import Question
from costguard.tree.members import OwnTree
from costguard.tree.processes import send
from costguard.tree.signals import become_subreaper
from costguard.workloads.load import LoadAnswer, LoadJob

LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "load.py")

ANSWER_SECONDS, FIRST_ANSWER_SECONDS = 10.0, 30.0
"""Deadline of the reader: without persistence mode the driver needs 1 to 3 s for each GPU."""

GONE_SECONDS = 0.5
"""From TERM to KILL for a load that ends; it has nothing to save."""

AGAIN_SECONDS = 0.02
"""Between two looks at whom a load started and left."""

LOOK_SECONDS = 1.0
"""Between two looks at the sensors."""


_FIND = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 3)"
_ABSENT = 3
FIND_SECONDS = 20.0
"""For a Python to look for the library, which it does not load."""


def missing_torch(python: str) -> str:
    """Why this Python could not make the load; empty where PyTorch is there, or where that cannot be told. Raises OSError."""
    with suppress(subprocess.TimeoutExpired):
        code = subprocess.run(
            [python, "-c", _FIND],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=FIND_SECONDS,
            check=False,
        ).returncode
        return "No module named 'torch'" if code == _ABSENT else f"it ends with {code}" if code else ""
    return ""


class TargetGpu(NamedTuple):
    """One GPU that gets a load."""

    key: str
    uuid: str
    number: int


class Meter:
    """What the sensors of one GPU showed while it had a load."""

    def __init__(self) -> None:
        self._degrees: list[float] = []
        self._watts: list[float] = []

    def take(self, found: object) -> None:
        """One look; what is not given, or makes no sense, is left out."""
        for value, kept in zip(found if isinstance(found, list) else (), (self._degrees, self._watts), strict=False):
            if isinstance(value, int | float):
                kept.append(float(value))

    def summary(self) -> dict[str, float | None]:
        """Highest and mean; None for what was never given."""
        return {
            "temperature_max": max(self._degrees, default=None),
            "temperature_mean": _mean(self._degrees),
            "power_max": max(self._watts, default=None),
            "power_mean": _mean(self._watts),
        }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 1) if values else None


class Load:
    """The process that loads one GPU."""

    def __init__(self, python: str, gpu: TargetGpu, job: LoadJob) -> None:
        """Start it. Raises OSError."""
        self.gpu, self.meter = gpu, Meter()
        self.said = LoadAnswer()
        self.failed = ""
        self.began = time.monotonic()
        self._unread = b""
        self.process = subprocess.Popen(
            [python, LOAD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, VISIBLE: gpu.uuid},
            bufsize=0,
            start_new_session=True,
        )
        assert self.process.stdin is not None  # pipes were asked for
        assert self.process.stdout is not None
        self.words, self._job = self.process.stdout, self.process.stdin
        with suppress(BrokenPipeError):
            self._job.write(to_line(job._replace(parent=os.getpid())) + b"\n")

    def heard(self) -> None:
        """Take what it says; the end of its words is its end."""
        data = self.words.read(65536)
        self._unread += data or b""
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            with suppress(MalformedError):  # a library writes what it likes
                self.said = from_line(LoadAnswer, line)
                self.failed = self.said.failed
        if not data:
            self.process.kill()  # one that only closed its output would be waited for, past its time
            code = self.process.wait()
            self.failed = self.failed or self.said.missing or f"the load ended with {code}"

    def close(self) -> None:
        """Close its pipes."""
        self.words.close()
        self._job.close()

    def summary(self, seconds: float) -> dict[str, Any]:
        """What became of it, for people and programs."""
        return {
            "gpu": self.gpu.number,
            "uuid": self.gpu.uuid,
            "held": self.said.held,
            "chunks": self.said.chunks,
            "seconds": round(seconds, 1),
            "failed": self.failed or None,
            "less": self.said.why or None,
            **self.meter.summary(),
        }


class Sensors:
    """The reader of GPUs, asked for its sensors. A reader that fails costs the summary, not the load."""

    def __init__(self) -> None:
        self._child: Child | None = Child("nvml", stderr=subprocess.DEVNULL)
        self._reads = 0
        self._asked = 0.0
        with suppress(EndedError):
            self._child.send(NvmlJob(sensors=True))

    def first(self) -> dict[str, Any]:
        """The first answer, waited for; empty when there is none."""
        self.ask()
        return self.answer(FIRST_ANSWER_SECONDS)

    def ask(self) -> None:
        """Ask for the next one."""
        self._reads += 1
        self._asked = time.monotonic()
        if self._child is not None:
            with suppress(EndedError):
                self._child.send(Question(self._reads))

    def answer(self, seconds: float = 0.001) -> dict[str, Any]:
        """The answer, when it comes in so many seconds; empty before."""
        if self._child is None:
            return {}
        try:
            found = json.loads(self._child.line(time.monotonic() + seconds))
        except SilentError:
            if time.monotonic() > self._asked + ANSWER_SECONDS:
                self.end()
            return {}
        except (EndedError, OSError, ValueError):
            self.end()
            return {}
        return found if isinstance(found, dict) else {}

    def end(self) -> None:
        """Kill it."""
        if self._child is not None:
            self._child.kill()
            self._child = None


class Signalled(Exception):
    """A signal came; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Loads:
    """All loads of one `costguard stress`."""

    def __init__(self, sensors: Sensors) -> None:
        """What is started from now on is ended with it, whatever it does to its parents and session."""
        self._sensors = sensors
        become_subreaper()
        self._tree = OwnTree()
        self.loads: list[Load] = []
        self.began = self.ended = time.monotonic()

    def start(self, python: str, gpus: Sequence[TargetGpu], job: LoadJob) -> None:
        """Start one load for each GPU. Raises OSError, and then `end` is due."""
        for gpu in gpus:
            self.loads.append(Load(python, gpu, job))

    def run(self, until: float, tell: Callable[[Load], None]) -> None:
        """Let them work until the monotonic clock reads that, every one has failed, or somebody ends this (Told).

        ``tell``: hears at once of one that failed while others go on. One that holds nothing at the end has failed.
        """
        look, asked = self.began, False
        while (now := time.monotonic()) < until and (living := [load for load in self.loads if not load.failed]):
            if asked:
                self._look(self._sensors.answer())
            if now >= look:
                self._sensors.ask()
                asked, look = True, now + LOOK_SECONDS
            pipes = {load.words: load for load in living}
            for pipe in select.select(list(pipes), [], [], max(0.0, min(0.2, until - now)))[0]:
                pipes[pipe].heard()
                if pipes[pipe].failed and not all(load.failed for load in self.loads):
                    tell(pipes[pipe])
        for load in self.loads:
            load.failed = load.failed or ("" if load.said.held else "it held no memory when its time was over")

    def _look(self, answer: Mapping[str, Any]) -> None:
        found = answer.get("sensors")
        for load in self.loads:
            if isinstance(found, dict) and load.said.held and not load.failed:
                load.meter.take(found.get(load.gpu.key))

    def end(self) -> None:
        """Release every GPU: TERM, and KILL for whoever is left a moment later; then for whom they started."""
        self.ended = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGKILL):
            end = time.monotonic() + GONE_SECONDS
            for load in self.loads:
                if load.process.poll() is None:
                    load.process.send_signal(number)
            for load in self.loads:
                with suppress(subprocess.TimeoutExpired):
                    load.process.wait(max(0.0, end - time.monotonic()))
        end = time.monotonic() + GONE_SECONDS
        while (left := self._tree.members()) and time.monotonic() < end:
            for process in left:
                send(process, signal.SIGKILL)
            time.sleep(AGAIN_SECONDS)
        for load in self.loads:
            load.close()
        self._sensors.end()

    def summary(self) -> list[dict[str, Any]]:
        """What became of each."""
        return [load.summary(self.ended - load.began) for load in self.loads]
