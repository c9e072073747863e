"""``costguard record``: record what the GPUs do, without guarding anything."""

import json
import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from costguard.cli.examples import examples
from costguard.cli.invoked import invoked
from costguard.cli.record_senses import SenseWatch, configured
from costguard.clocks import boot_clock
from costguard.engine.words import several
from costguard.errors import REFUSED, CostguardError
from costguard.process.child import Child, EndedError, SilentError
from costguard.readers.nvml.job import NvmlJob
from costguard.readers.question import Question

if TYPE_CHECKING:
    from costguard.engine.observation import Device, Reading
    from costguard.replay.formats.recording import Writer

ANSWER_SECONDS, FIRST_ANSWER_SECONDS = 10.0, 30.0
"""Deadline of the reader; then it is killed and restarted, and the reading is unknown.

The first answer takes longer: without persistence mode the driver needs 1 to 3 s for each GPU.
"""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a recording: a person, a service manager, and a closed terminal."""

NO_HARDWARE = "No NVIDIA GPU on this machine, so there is nothing to record: costguard exits with code 0."

LONGEST_SECONDS = 10 * 365 * 86400.0


@click.command(
    epilog=examples(
        "costguard record --out night.jsonl.gz",
        "costguard record --out hour.jsonl --duration 1h --interval 5s --no-senses",
    )
)
@click.option("--out", required=True, metavar="FILE", help="Where to write; compressed when the name ends in .gz.")
@click.option(
    "--interval", default="10s", show_default=True, metavar="DURATION", help="Time between two looks, 0.1s to 1h."
)
@click.option("--duration", metavar="DURATION", help="How long. Default: until Ctrl-C.")
@click.option("--no-senses", is_flag=True, help="Record only the GPUs, not who types or which programs work.")
@click.option("--sysfs", default="/sys", hidden=True)
def command(out: str, interval: str, duration: str | None, sysfs: str, *, no_senses: bool) -> None:
    """Record what every GPU of this machine does to FILE, for `costguard replay`.

    That is load, signs of work, what could not be read and why, and what the senses see, with names of users and programs
    (--no-senses leaves those out). It holds no policy and no decision. Ctrl-C ends it and leaves a complete file. An existing
    file is never overwritten. On a machine without NVIDIA hardware it says so and exits with code 0.
    """
    from costguard.cli.hardware import nvidia_hardware

    every, length = _durations(interval, duration)
    if out == "-":
        raise click.UsageError("--out must be a file, not standard output")
    if nvidia_hardware({"sysfs": sysfs}) is False:
        click.echo(NO_HARDWARE)
        return
    recorder = _Recorder(_created(out, every), sysfs, None if no_senses else configured(sysfs))
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` sets it
            signal.signal(number, _interrupt)
    trouble: OSError | None = None
    try:
        recorder.run(every, length)
    except KeyboardInterrupt:
        pass  # the ordinary way to end it
    except OSError as error:
        trouble = error
    finally:
        late = recorder.end()
    _conclude(out, recorder, trouble or late)


def _durations(interval: str, duration: str | None) -> tuple[float, float]:
    from costguard.config.values import seconds, spoken_seconds

    try:
        every, length = seconds(interval), spoken_seconds(duration) if duration else LONGEST_SECONDS
    except ValueError as error:
        raise click.UsageError(f"{error}; allowed: a duration such as 10s, 30m, 1h30m or 8h") from None
    if not 0.1 <= every <= 3600.0:
        raise click.UsageError(f"--interval {interval} is out of range; allowed: 0.1s to 1h")
    if length <= 0.0:
        raise click.UsageError(f"--duration {duration} is out of range; allowed: more than 0")
    return every, length


def _created(out: str, every: float) -> "Writer":
    from costguard.replay.formats.recording import Writer

    try:
        return Writer(out, time.time(), every)
    except FileExistsError:
        raise CostguardError(f"{out} exists and was left alone", "name another file with --out") from None
    except OSError as error:
        raise CostguardError(f"{out} cannot be written: {error.strerror}", "name another file with --out") from None


def _conclude(out: str, recorder: "_Recorder", trouble: OSError | None) -> None:
    """Report what was recorded; a recording without a single look is removed."""
    name = shlex.quote(out)
    if trouble is not None:
        message = f"writing {out} failed: {trouble.strerror}; the recording ends there"
        raise CostguardError(message, f"`costguard replay {name}` reads what was written before")
    if not recorder.looks:
        with suppress(OSError):
            os.unlink(out)
        why = recorder.problem or "it ended before the first look"
        raise CostguardError(f"nothing was recorded, and {out} was removed: {why}", "see `costguard doctor`", REFUSED)
    click.echo(f"{out}: {several(recorder.looks, 'look')}. Next: {invoked()} replay {name}")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End once; a second signal does not disturb the end."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Write a line as a whole: a signal takes effect afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Recorder:
    """Asks one NVML reader, tick by tick, and writes its answers."""

    def __init__(self, writer: "Writer", sysfs: str, senses: SenseWatch | None) -> None:
        self._writer, self._senses = writer, senses
        self._learnt: dict[str, object] = {}
        self._job = NvmlJob(sysfs=sysfs, learnt=self._learnt)
        self._process: Child | None = None
        self._stuck: list[Child] = []  # killed, but still there
        self._number = 0
        self._devices: dict[str, Device] = {}
        self._answered = False  # whether the present process has answered
        self.problem = ""

    @property
    def looks(self) -> int:
        """How many looks were written."""
        return self._writer.ticks

    def run(self, every: float, length: float) -> None:
        """Look at fixed intervals; the clock counts suspended time, as the guard's does."""
        start = boot_clock()
        due = start
        while due < start + length:
            while (wait := due - boot_clock()) > 0:
                time.sleep(min(wait, 1.0))
            at = boot_clock()
            self._look(at - start)
            due = max(due + every, boot_clock())  # after a slow look the intervals start anew

    def _look(self, after: float) -> None:
        from costguard.agent import decode
        from costguard.engine.observation import Device, Unknown

        answer = self._ask()
        readings: dict[str, Reading] = {}
        try:
            if answer is not None:
                keys, found = decode.readings(answer)
                readings = dict(zip(keys, found, strict=True))
                facts = {device.key: device for device in decode.devices(answer)} if "info" in answer else {}
                for key in keys:
                    self._devices[key] = facts.get(key) or self._devices.get(key) or Device(key)
                if answer.get("error") or not keys:
                    self._tell(str(answer.get("error") or "no GPU was found"))
                else:
                    self.problem = ""
        except (KeyError, TypeError, ValueError) as error:
            readings = {}
            self._tell(f"internal error: malformed answer of the reader ({error}); please report it")
        missing = Unknown("no longer listed" if readings else self.problem)
        devices = list(self._devices.values())
        if devices:
            vetoes = self._senses.look(boot_clock()) if self._senses is not None else ()
            with _undisturbed():
                self._writer.meet(devices)
                self._writer.seen(after, vetoes)
                self._writer.tick(after, [readings.get(device.key, missing) for device in devices])
                if answer is None:
                    self._writer.flush()  # the next look may take long

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            click.echo(f"note: {problem}", err=True)

    def _ask(self) -> dict[str, Any] | None:
        """One answer; None when none came in time."""
        self._number += 1
        try:
            process = self._process or self._start()
            process.send(Question(self._number))
            end = time.monotonic() + (ANSWER_SECONDS if self._answered else FIRST_ANSWER_SECONDS)
            while True:
                answer = json.loads(process.line(end))
                if isinstance(answer, dict) and "last_words" in answer:
                    self._tell(str(answer["last_words"]))
                elif isinstance(answer, dict) and answer.get("read") == self._number:
                    self._answered = True
                    self._job.counters = answer.get("counters") or self._job.counters
                    self._learnt |= answer.get("learnt", {})
                    return answer
        except EndedError:
            self._tell(self.problem or "the reader ended; it is restarted")
        except SilentError:
            self._tell("the reader does not answer")
        except (OSError, ValueError) as error:
            self._tell(f"the reader failed: {getattr(error, 'strerror', None) or error}")
        self._kill()
        return None

    def _start(self) -> Child:
        from costguard.agent.reader import UNREAPED_LIMIT

        self._stuck = [process for process in self._stuck if process.wait(0.0) is None]
        if len(self._stuck) >= UNREAPED_LIMIT:
            raise ValueError("readers hang in the driver and cannot be killed; no new one is started")
        self._answered = False
        self._process = Child("nvml", environment=os.environ)
        self._process.send(self._job)
        return self._process

    def _kill(self) -> None:
        """Kill the reader; one that cannot be killed is left to the kernel."""
        process, self._process = self._process, None
        if process is not None and not process.kill(1.0):
            self._stuck.append(process)

    def end(self) -> OSError | None:
        """Kill the reader and close the file; returns an error of the last write."""
        self._kill()
        if self._senses is not None:
            self._senses.end()
        try:
            self._writer.close()
        except OSError as error:
            return error
        return None
