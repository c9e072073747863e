"""``costguard record``: write down what the GPUs do, without guarding anything."""

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

from costguard.cli.invoked import invoked
from costguard.engine.words import several
from costguard.errors import REFUSED, CostguardError
from costguard.process.child import Child, EndedError, SilentError
from costguard.readers.nvml.job import NvmlJob

if TYPE_CHECKING:
    from costguard.engine.observation import Device, Reading
    from costguard.replay.formats.recording import Writer

PATIENCE, FIRST_PATIENCE = 10.0, 30.0
"""Seconds within which the reader must answer; then it is ended and started anew, and what it owed is unknown.

The first answer takes longer: without persistence mode the driver needs 1 to 3 s for each GPU.
"""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends a recording: a person, a service manager, and a terminal that is closed."""

NO_HARDWARE = "No NVIDIA GPU on this machine: there is nothing to record, so costguard ends here (exit code 0)."

LONGEST = 10 * 365 * 86400.0


@click.command()
@click.option("--out", required=True, metavar="FILE", help="Where to write; packed when the name ends in .gz.")
@click.option("--interval", default="10s", show_default=True, metavar="DURATION", help="Between two looks, 0.1s to 1h.")
@click.option("--duration", metavar="DURATION", help="How long; without it, until Ctrl-C.")
@click.option("--sysfs", default="/sys", hidden=True)
def command(out: str, interval: str, duration: str | None, sysfs: str) -> None:
    """Write what every GPU of this machine does to FILE, for `costguard replay`.

    Load, signs of work and what could not be read, with the reason; no policy and no decision. Ctrl-C ends it, and the file
    is whole. An existing file is never overwritten. On a machine without NVIDIA hardware it says so and ends with exit code 0.
    """
    from costguard.cli.hardware import nvidia_hardware

    every, length = _durations(interval, duration)
    if out == "-":
        raise click.UsageError("--out names a file; standard output is none")
    if nvidia_hardware({"sysfs": sysfs}) is False:
        click.echo(NO_HARDWARE)
        return
    recorder = _Recorder(_created(out, every), sysfs)
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
        every, length = seconds(interval), spoken_seconds(duration) if duration else LONGEST
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
        raise CostguardError(f"{out} exists and was left alone", "Name another file with --out.") from None
    except OSError as error:
        raise CostguardError(f"{out} cannot be written: {error.strerror}", "Name another file with --out.") from None


def _conclude(out: str, recorder: "_Recorder", trouble: OSError | None) -> None:
    """Say what there is; a recording without a single look is none."""
    name = shlex.quote(out)
    if trouble is not None:
        words = f"{out} could not be written on: {trouble.strerror}; the recording ends there"
        raise CostguardError(words, f"`costguard replay {name}` reads what was written before that.")
    if not recorder.looks:
        with suppress(OSError):
            os.unlink(out)
        why = recorder.words or "it ended before the first look"
        raise CostguardError(f"nothing was recorded, and {out} was removed: {why}", "See `costguard doctor`.", REFUSED)
    click.echo(f"{out}: {several(recorder.looks, 'look')}. Next: {invoked()} replay {name}")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """End once; whoever asks again does not disturb the end."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A line is written as a whole: a signal that comes meanwhile takes effect afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Recorder:
    """Asks one NVML reader, tick by tick, and writes what it says."""

    def __init__(self, writer: "Writer", sysfs: str) -> None:
        self._writer = writer
        self._learnt: dict[str, object] = {}
        self._job = NvmlJob(sysfs=sysfs, learnt=self._learnt)
        self._process: Child | None = None
        self._stuck: list[Child] = []  # killed, and not gone
        self._number = 0
        self._devices: dict[str, Device] = {}
        self._answered = False  # whether the process that runs now has answered
        self.words = ""

    @property
    def looks(self) -> int:
        """How many were written."""
        return self._writer.ticks

    def run(self, every: float, length: float) -> None:
        """Look in a steady rhythm; the clock counts suspended time, as the guard's does."""
        start = _now()
        due = start
        while due < start + length:
            while (wait := due - _now()) > 0:
                time.sleep(min(wait, 1.0))
            at = _now()
            self._look(at - start)
            due = max(due + every, _now())  # after a look that took longer, a new rhythm

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
                    self.words = ""
        except (KeyError, TypeError, ValueError) as error:
            readings = {}
            self._tell(f"the reader's answer makes no sense ({error})")
        missing = Unknown("not listed any more" if readings else self.words)
        devices = list(self._devices.values())
        if devices:
            with _undisturbed():
                self._writer.meet(devices)
                self._writer.tick(after, [readings.get(device.key, missing) for device in devices])
                if answer is None:
                    self._writer.flush()  # the next look may take long

    def _tell(self, words: str) -> None:
        if words != self.words:
            self.words = words
            click.echo(f"note: {words}", err=True)

    # -- the reader ------------------------------------------------------------------------------------------

    def _ask(self) -> dict[str, Any] | None:
        """One answer; None when none came in time."""
        self._number += 1
        try:
            process = self._process or self._start()
            process.send({"read": self._number})
            end = time.monotonic() + (PATIENCE if self._answered else FIRST_PATIENCE)
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
            self._tell(self.words or "the reader ended; it is started anew")
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
            raise ValueError("readers hang in the driver and cannot be killed; no further one is started")
        self._answered = False
        self._process = Child("nvml", environment=os.environ)
        self._process.send(self._job)
        return self._process

    def _kill(self) -> None:
        """End the reader at once; one that cannot be killed is left to the kernel."""
        process, self._process = self._process, None
        if process is not None and not process.kill(1.0):
            self._stuck.append(process)

    def end(self) -> OSError | None:
        """End the reader and close the file; what went wrong with the last of it."""
        self._kill()
        try:
            self._writer.close()
        except OSError as error:
            return error
        return None


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
