"""``costguard record``: write down what the GPUs do, without guarding anything."""

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from costguard.errors import CostguardError

if TYPE_CHECKING:
    from costguard.engine.observation import Device, Reading
    from costguard.replay.own import Writer

PATIENCE = 10.0
"""Seconds within which the reader must answer; then it is ended and started anew, and what it owed is unknown."""

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
    from costguard.config.values import seconds
    from costguard.replay.own import Writer

    try:
        every, length = seconds(interval), seconds(duration) if duration else LONGEST
    except ValueError as error:
        raise click.UsageError(f"{error}; allowed: a duration such as 10 (seconds), 10s, 30m or 8h") from None
    if not 0.1 <= every <= 3600.0:
        raise click.UsageError(f"--interval {interval} is out of range; allowed: 0.1s to 1h")
    if nvidia_hardware({"sysfs": sysfs}) is False:
        click.echo(NO_HARDWARE)
        return
    try:
        writer = Writer(out, time.time(), every)
    except FileExistsError:
        raise CostguardError(f"{out} exists and was left alone", "Name another file with --out.") from None
    except OSError as error:
        raise CostguardError(f"{out} cannot be written: {error.strerror}", "Name another file with --out.") from None
    recorder = _Recorder(writer, sysfs)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        recorder.run(every, length)
    except KeyboardInterrupt:
        pass  # the ordinary way to end it
    except OSError as error:
        raise CostguardError(
            f"{out} could not be written on: {error.strerror}", "What was written so far is whole."
        ) from None
    finally:
        with suppress(OSError):  # a full disk was told above
            recorder.end()
    click.echo(f"{out}: {writer.ticks} looks. Next: costguard replay {out}")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


class _Recorder:
    """Asks one NVML reader, tick by tick, and writes what it says."""

    def __init__(self, writer: "Writer", sysfs: str) -> None:
        self._writer = writer
        self._job: dict[str, object] = {"sysfs": sysfs, "procfs": "/proc", "devfs": "/dev", "counters": None}
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._number = 0
        self._devices: dict[str, Device] = {}
        self._words = ""

    def run(self, every: float, length: float) -> None:
        """Look in a steady rhythm; the clock counts suspended time, as the guard's does."""
        start = _now()
        due = start
        while due < start + length:
            while (wait := due - _now()) > 0:
                time.sleep(min(wait, 1.0))
            at = _now()
            self._look(at - start)
            due = max(due + every, at)

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
                if not keys:
                    self._tell(str(answer.get("error") or "no GPU was found"))
        except (KeyError, TypeError, ValueError) as error:
            readings = {}
            self._tell(f"the reader's answer makes no sense ({error})")
        missing = Unknown("not listed any more" if readings else self._words or "the reader does not answer")
        devices = list(self._devices.values())
        if devices:
            self._writer.meet(devices)
            self._writer.tick(after, [readings.get(device.key, missing) for device in devices])

    def _tell(self, words: str) -> None:
        if words != self._words:
            self._words = words
            click.echo(f"note: {words}", err=True)

    # -- the reader ------------------------------------------------------------------------------------------

    def _ask(self) -> dict[str, Any] | None:
        """One answer; None when none came in time."""
        self._number += 1
        try:
            process = self._process or self._start()
            self._send(process, {"read": self._number})
            end = time.monotonic() + PATIENCE
            while (line := self._line(process, end)) is not None:
                answer = json.loads(line)
                if isinstance(answer, dict) and answer.get("read") == self._number:
                    self._job["counters"] = answer.get("counters") or self._job["counters"]
                    return answer
        except BrokenPipeError:
            self._tell("the reader ended; it is started anew")
        except (OSError, ValueError) as error:
            self._tell(f"the reader failed: {getattr(error, 'strerror', None) or error}")
        else:
            self._tell("the reader does not answer")
        self._kill()
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        from costguard.agent.programs import command_lines

        self._rest = b""
        process = subprocess.Popen(
            command_lines()["nvml"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._process = process
        self._send(process, self._job)
        return process

    def _send(self, process: subprocess.Popen[bytes], value: dict[str, object]) -> None:
        assert process.stdin is not None  # a pipe was asked for
        process.stdin.write(json.dumps(value).encode() + b"\n")
        process.stdin.flush()

    def _line(self, process: subprocess.Popen[bytes], end: float) -> bytes | None:
        assert process.stdout is not None  # a pipe was asked for
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return None
            piece = os.read(process.stdout.fileno(), 65536)
            if not piece:
                return None
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def _kill(self) -> None:
        """End the reader at once; one that cannot be killed is left to the kernel."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None  # pipes were asked for
            with suppress(OSError):  # what was still to be written has no reader
                pipe.close()

    def end(self) -> None:
        """Close the file and end the reader."""
        self._kill()
        self._writer.close()


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
