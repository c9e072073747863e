"""``costguard stress``: a load for GPUs, of costguard's own."""

import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cli.fill import named_gpus
from costguard.cli.starting import as_callback
from costguard.config import values
from costguard.errors import REFUSED, CostguardError

if TYPE_CHECKING:
    from costguard.workloads.load import LoadJob
    from costguard.workloads.stress import Load, Loads, TargetGpu

FAILED = 1
"""Exit code when a GPU's load failed."""

FOREVER_SECONDS = 100 * 365 * 86400.0
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?B?|B?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

HELP = """\
Hold a share of the GPUs' free memory, and compute on it, until the duration is over or somebody ends it.

For burn-in, to reserve GPUs, and as background work of `costguard fill`. It needs PyTorch, in costguard's Python or in that
of --python. TERM or Ctrl-C releases the GPUs within a second. At the end it reports temperature and power of each. Exit
codes: 0 when the time was over or somebody ended it, 1 when a GPU failed, 2 for wrong options, 3 without PyTorch or a GPU.
"""


def size(text: str) -> int:
    """Bytes: ``512MiB``, ``1G``, a bare number; units are powers of 1024."""
    found = _SIZE.fullmatch(text.strip())
    count = int(float(found[1]) * 1024 ** _POWERS[found[2][:1].lower().replace("b", "")]) if found else 0
    if not 1 << 20 <= count <= 1 << 40:
        raise ValueError(f"{text} is out of range; allowed: 1MiB to 1TiB, such as 512MiB")
    return count


def _share(text: str) -> float:
    """A share of everything."""
    try:
        found = values.share(text)
    except ValueError as error:
        raise ValueError(f"{error}; allowed: more than 0%, up to 100%") from None
    if not found:
        raise ValueError(f"{text} is zero; allowed: more than 0%, up to 100%")
    return found


def _duration(text: str) -> float:
    """How long; no time at all would load nothing."""
    found = values.seconds(text)
    if not found:
        raise ValueError(f"{text} is zero; allowed: more than 0s, such as 30s, 10m, 1h30m")
    return found


def _program(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError("it is empty; allowed: a program, such as /usr/bin/python3")
    return text


@click.command(
    help=HELP,
    epilog=examples(
        "costguard stress --duration 10m",
        "costguard stress --gpus 0 --work matmul --memory 50% --duration 1h --json",
        "costguard stress --work hold --memory 50%",
        "costguard stress --load 30% --python /usr/bin/python3",
        "costguard stress --dry-run",
    ),
)
@click.option("--gpus", multiple=True, callback=named_gpus, metavar="LIST", help="Numbers or UUIDs of the GPUs (default: all that may be used).")  # fmt: skip
@click.option("--work", type=click.Choice(["elementwise", "matmul", "hold"]), default="elementwise", show_default=True, help="What is computed; hold: nothing.")  # fmt: skip
@click.option("--memory", callback=as_callback(_share), metavar="SHARE", default="88%", show_default=True, help="How much of the free memory is held.")  # fmt: skip
@click.option("--chunk", callback=as_callback(size), metavar="SIZE", default="512MiB", show_default=True, help="Bytes of one allocation.")  # fmt: skip
@click.option("--load", callback=as_callback(_share), metavar="SHARE", default="100%", show_default=True, help="The share of the time spent computing.")  # fmt: skip
@click.option("--duration", callback=as_callback(_duration), metavar="TIME", help="How long (default: until somebody ends it).")  # fmt: skip
@click.option(
    "--python",
    callback=as_callback(_program),
    metavar="PROGRAM",
    help="A Python that has PyTorch (default: costguard's own).",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(
    gpus: tuple[str, ...],
    work: str,
    memory: float,
    chunk: int,
    load: float,
    duration: float | None,
    python: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """See `HELP`."""
    from costguard.workloads.load import LoadJob
    from costguard.workloads.stress import Loads, Sensors, Signalled, missing_torch

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _end_on_signal)
    sensors = Sensors()
    loads = Loads(sensors)
    try:
        chosen = _chosen(sensors.first(), gpus)
        plan = LoadJob(memory, chunk, work, load)
        if dry_run:
            if missing := missing_torch(python or sys.executable):
                raise _no_torch(python, missing)
            _print_dry_run(chosen, plan, duration)
            return
        loads.start(python or sys.executable, chosen, plan)
        loads.run(time.monotonic() + (FOREVER_SECONDS if duration is None else duration), _tell_failure)
    except Signalled:
        pass  # the ordinary way to end it
    except OSError as error:
        raise CostguardError(
            f"{python or sys.executable} cannot be run: {error.strerror}", "name another --python"
        ) from error
    finally:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        loads.end()
        for number, handler in before.items():
            signal.signal(number, handler)
    _conclude(loads, python, as_json=as_json)


def _tell_failure(load: "Load") -> None:
    """At once: the others may go on for days."""
    click.echo(f"costguard stress: GPU {load.gpu.number} failed: {load.failed}; the others go on", err=True)


def _end_on_signal(number: int, _frame: FrameType | None) -> NoReturn:
    from costguard.workloads.stress import Signalled

    raise Signalled(number)


def _chosen(answer: Mapping[str, Any], wanted: Sequence[str]) -> "list[TargetGpu]":
    """The GPUs that get a load. Raises CostguardError."""
    from costguard.agent import decode
    from costguard.agent.granted import granted
    from costguard.engine.observation import Observation
    from costguard.workloads.stress import TargetGpu

    if not answer or answer.get("error") or "info" not in answer:
        why = str(answer.get("error") or "the driver does not answer")
        raise CostguardError(f"no GPU can be used: {why}", "see `nvidia-smi`", REFUSED)
    devices = decode.devices(answer)
    found = granted(Observation(*decode.readings(answer)), devices, os.environ)
    there = [
        TargetGpu(one.key, one.uuid, -1 if one.number is None else one.number)
        for one in devices
        if one.key in found.keys
    ]
    usable = [gpu for gpu in there if gpu.uuid]
    if not usable or found.doubt:
        raise CostguardError(
            f"no GPU can be used: {found.doubt or found.why or 'none can be opened'}", "see `nvidia-smi`", REFUSED
        )
    picked: dict[str, TargetGpu] = {}
    for name in wanted:
        gpu = next((gpu for gpu in usable if name.lower() in (str(gpu.number), gpu.uuid.lower())), None)
        if gpu is None:
            listed = ", ".join([f"{gpu.number} ({gpu.uuid})" for gpu in usable])
            raise CostguardError(f"there is no GPU {name} to use", f"there are {listed}")
        picked[gpu.key] = gpu
    return list(picked.values()) or usable


def _print_dry_run(chosen: "Sequence[TargetGpu]", plan: "LoadJob", duration: float | None) -> None:
    from costguard.engine.words import spell

    doing = "hold it" if plan.work == "hold" else f"compute ({plan.work}, {values.show_share(plan.load)} of the time)"
    end = "until somebody ends it" if duration is None else f"for {spell(duration)}"
    for gpu in chosen:
        part = f"{values.show_share(plan.memory)} of the free memory of GPU {gpu.number} ({gpu.uuid})"
        click.echo(f"DRY RUN: would take {part} and {doing}, {end}")


def _no_torch(python: str | None, missing: str) -> CostguardError:
    from costguard import extras

    where = python or "costguard's Python"
    hint = f"`{extras.install(extras.STRESS)}`, or name a Python that has it with --python"
    return CostguardError(f"{where} has no PyTorch ({missing}), which the load needs", hint, REFUSED)


def _conclude(loads: "Loads", python: str | None, *, as_json: bool) -> None:
    """Print what became of each GPU; end with the code that says whether all went well."""
    if missing := next((load.said.missing for load in loads.loads if load.said.missing), ""):
        raise _no_torch(python, missing)
    rows = loads.summary()
    if as_json:
        emit("stress", {"gpus": rows})
    for row in () if as_json else rows:
        click.echo(_line(row))
    if any(row["failed"] for row in rows):
        raise SystemExit(FAILED)


def _line(row: Mapping[str, Any]) -> str:
    """One GPU's summary for people."""
    from costguard.engine.words import spell

    name = f"GPU {row['gpu']}"
    if row["failed"]:
        return f"{name}: failed after {spell(row['seconds'])}: {row['failed']}"
    held = f"{row['held'] / (1 << 30):.1f} GiB held in {row['chunks']} chunks"
    less = f" (less than asked for: {row['less']})" if row["less"] else ""
    warm = "temperature unknown" if row["temperature_max"] is None else f"at most {row['temperature_max']:.0f} °C, {row['temperature_mean']:.0f} °C on average"  # fmt: skip
    drew = "power unknown" if row["power_max"] is None else f"at most {row['power_max']:.0f} W, {row['power_mean']:.0f} W on average"  # fmt: skip
    return f"{name}: {spell(row['seconds'])}, {held}{less}; {warm}; {drew}"
