"""What costguard costs the machine that it watches, beside what other ways of watching cost.

One run on one machine, 8 GPUs of the stand-in library: the figures of NVML itself are those of the
stand-in, so compare columns, not machines. Exit code 1 when a figure is over its target.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import beside, clouds, engine, others, ours, replay, world
from costguard.testing.nvml import CompilerMissingError


class Figure(NamedTuple):
    """One line of the table. ``limit`` is a target: at most, or at least where ``least``."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    least: bool = False

    @property
    def ok(self) -> bool | None:
        """Whether it is within its target; None without one."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.least else self.value <= self.limit


RESIDENT_MIB = 30.0
"""Of all that stays in memory on a rented machine: the guard, and the readers of GPUs, host and metadata service."""

HOST_LOOK_MS = 0.3
"""Milliseconds of CPU that a look at what the GPUs do not show may cost, where the processor's caches are warm."""

WARM_SECONDS = 1.0
"""Up to this interval they are. Later most of a look is what any Python costs that wakes: a bare one is measured beside it."""


class Sizes(NamedTuple):
    """How much is done: in a full run, where nothing else is said."""

    ticks: int = 200
    seconds: float = 30.0
    interval: float = 0.25
    reads: int = 100_000
    polls: int = 40
    steps: int = 200_000
    stops: int = 9
    samples: int = replay.MONTH
    sessions: int = replay.SESSIONS
    plans: int = 30
    beside: tuple[tuple[float, int], ...] = ((1.0, 75), (10.0, 60))  # interval in seconds, and ticks of it


QUICK = Sizes(
    ticks=40, seconds=6.0, reads=5_000, polls=10, steps=20_000, stops=3, samples=replay.MONTH // 6,
    sessions=replay.SESSIONS // 10, plans=8, beside=((1.0, 30),),
)  # fmt: skip


def main() -> int:
    """Measure, and print the figures of each part as soon as it is over."""
    arguments = _arguments()
    sizes = QUICK if arguments.quick else Sizes()
    environment = describe()
    print("\n".join(f"{key:>12}  {value}" for key, value in environment.items()), flush=True)
    print(f"{'':54}{'measured':>10}      target\n" + "-" * 84, flush=True)
    figures: list[Figure] = []
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="costguard-bench-") as folder:
        try:
            place = world.make(Path(folder))
        except CompilerMissingError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        for name in arguments.parts or PARTS:
            part = PARTS[name]
            _progress(f"{name}: {part.__doc__}")
            try:
                found = part(place, sizes)
            except (ours.AgentFailedError, clouds.CloudFailedError) as error:
                failures.append(f"{name}: {error}")
                continue
            figures += found
            print(table(found), flush=True)  # what takes half an hour is not lost when it is interrupted
    for failure in failures:
        print(f"not measured: {failure}", file=sys.stderr)
    if arguments.json:
        rows = [{**figure._asdict(), "ok": figure.ok} for figure in figures]
        Path(arguments.json).write_text(json.dumps({"environment": environment, "figures": rows}, indent=1) + "\n")
    return 1 if failures or any(figure.ok is False for figure in figures) else 0


def describe() -> dict[str, str]:
    """What the figures depend on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            model = line.partition(":")[2].strip()
            break
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "processor": f"{model}, {os.cpu_count()} logical",
        "governor": governor.read_text().strip() if governor.exists() else "not readable",
        "load": " ".join(f"{value:.2f}" for value in os.getloadavg()) + " at the start",
        "system": f"{platform.system()} {platform.release()}, {platform.libc_ver()[0]} {platform.libc_ver()[1]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": ", ".join(f"{name} {_version(name)}" for name in ("nvidia-ml-py", "nvitop", "gpustat")),
        "machine": f"{world.GPUS} GPUs of the stand-in NVML library",
    }


def measure_reader(place: world.World, sizes: Sizes) -> list[Figure]:
    """The reader alone."""
    found = ours.reader(place, sizes.ticks, sizes.interval / 5)
    return [
        Figure("NVML reader: CPU per tick", found.cpu, "ms"),
        Figure("NVML reader: memory, alone on the machine", found.memory.alone, "MiB"),
        Figure("NVML reader: memory (PSS) beside other Pythons", found.memory.pss, "MiB"),
        Figure("NVML reader: NVML calls per GPU and tick", found.calls, "", 8),
    ]


def measure_growth(place: world.World, sizes: Sizes) -> list[Figure]:
    """Does it leak?"""
    found = ours.growth(place, sizes.reads, _progress)
    return [Figure(f"NVML reader: growth over {found.reads} reads", found.kib, "KiB", 256)]


def measure_agent(place: world.World, sizes: Sizes) -> list[Figure]:
    """Everything that stays in memory."""
    found, workers = ours.agent(place, sizes.seconds, sizes.interval)
    return [
        Figure("agent, all resident processes: CPU per tick", found.cpu, "ms"),
        Figure("agent: memory, alone on the machine", found.memory.alone, "MiB", RESIDENT_MIB),
        Figure("agent: memory (PSS) beside other Pythons", found.memory.pss, "MiB", RESIDENT_MIB),
        Figure("agent: NVML calls per GPU and tick", found.calls, "", 8),
        Figure("agent: CPU of short-lived workers, per tick", workers, "ms"),
    ]


def measure_beside(place: world.World, sizes: Sizes) -> list[Figure]:
    """At intervals as they are in use, where caches are cold, beside nvitop in the same minutes: at rest, and at steady work."""
    (place.folder / "work").mkdir()
    working = world.make(place.folder / "work")
    working.script.set(**world.WORK)
    figures = []
    for interval, ticks in sizes.beside:
        for state, found in zip(("at rest", "at work"), beside.measure((place, working), interval, ticks), strict=True):
            for when, cost in zip((f"first {beside.EARLY} ticks", "later"), found, strict=True):
                figures += _beside(f"{interval:g} s, {state}, {when}", cost, warm=interval <= WARM_SECONDS)
        figures.append(
            Figure(f"agent, {interval:g} s, at rest: rare processes, per tick", beside.rare(place, interval), "ms")
        )
    return figures


def _beside(where: str, cost: beside.Cost, *, warm: bool) -> list[Figure]:
    return [
        Figure(f"agent, {where}: CPU per tick", cost.agent, "ms"),
        Figure("  of it the guard", cost.guard, "ms"),
        Figure("  and the host reader, all senses", cost.host, "ms", HOST_LOOK_MS if warm else None),
        Figure("  beside a bare Python that reads the same", cost.bare, "ms"),
        Figure("  and children that ended", cost.children, "ms"),
        Figure("nvitop, in the same minutes: CPU per poll", cost.nvitop, "ms"),
        Figure(f"agent beside nvitop, {where}", 100 * cost.share, "%", 40),
        Figure(f"  least, of {beside.STRETCH} ticks", 100 * min(cost.shares), "%"),
        Figure(f"  most, of {beside.STRETCH} ticks", 100 * max(cost.shares), "%"),
    ]


def measure_processes(place: world.World, sizes: Sizes) -> list[Figure]:
    """A process for each poll."""
    return [
        Figure(f"{name}: CPU per poll", cpu, "ms") for name, cpu in others.process_per_poll(place, sizes.polls).items()
    ]


def measure_libraries(place: world.World, sizes: Sizes) -> list[Figure]:
    """Monitors as libraries."""
    figures = []
    for name, cost in others.libraries(place, sizes.polls).items():
        figures.append(Figure(f"{name}: CPU per poll", cost.cpu, "ms"))
        figures.append(Figure(f"{name}: memory (PSS)", cost.pss, "MiB"))
    return figures


def measure_engine(_place: world.World, sizes: Sizes) -> list[Figure]:
    """Decisions per second."""
    found = engine.speed(sizes.steps)
    return [
        Figure("engine: steps per second, a working day", found.day, "/s", 40_000, least=True),
        Figure("engine: steps per second, steady load", found.steady, "/s", 40_000, least=True),
        Figure("engine: steps per second, every GPU up and down", found.restless, "/s"),
    ]


def measure_replay(place: world.World, sizes: Sizes) -> list[Figure]:
    """Recordings: both readers, and twenty policies at once."""
    found = replay.speed(place.folder, sizes.samples, 3)
    fleet = replay.fleet_speed(place.folder, sizes.sessions, 3)
    fleet_of = f"replay: rows per second over {sizes.sessions} machines, standard library, read and counted"
    named = f"replay: {len(replay.POLICIES)} policies, {sizes.samples * world.GPUS / 1e6:.2f} M rows"
    return [
        Figure("replay: CSV rows per second, standard library", found.standard, "/s", 500_000, least=True),
        Figure("replay: CSV rows per second, fast reader", found.fast, "/s", 3_000_000, least=True),
        Figure("replay: the whole command, fast reader, rows per second", found.whole, "/s"),
        Figure(fleet_of, fleet, "/s", 400_000, least=True),
        Figure(named, found.compared, "s", 5.0 if sizes.samples == replay.MONTH else None),
        Figure(f"{named}, CPU", found.compared_cpu, "s"),
    ]


def measure_help(_place: world.World, sizes: Sizes) -> list[Figure]:
    """The first thing that people type."""
    return [Figure("costguard --help: CPU", ours.help_cpu(min(sizes.polls, 10)), "ms", 150)]


def measure_clouds(place: world.World, sizes: Sizes) -> list[Figure]:
    """From the decision to the accepted request; the worker's start is in the first figure."""
    figures = []
    for name, limit in clouds.LIMITS.items():
        found = clouds.speed(name, sizes.stops)
        figures.append(Figure(f"{name}: from the decision to the accepted request", found.whole, "s", limit))
        figures.append(Figure(f"{name}: from the last look to the accepted request", found.released, "s", 0.25))
        figures.append(Figure(f"{name}: memory of the worker while it waits", found.waiting, "MiB"))
    for name in clouds.CLOUDS:
        found_of = clouds.resident(place, name)
        figures.append(
            Figure(
                f"{name}: all resident processes, memory (PSS) beside other Pythons", found_of.pss, "MiB", RESIDENT_MIB
            )
        )
        figures.append(Figure(f"{name}: all resident processes, memory, alone on the machine", found_of.alone, "MiB"))
    growth = clouds.growth(place, sizes.plans)
    figures.append(Figure(f"guard: growth over {sizes.plans} plans made with a cloud", growth, "KiB", 256))
    return figures


PARTS: dict[str, Callable[[world.World, Sizes], list[Figure]]] = {
    "reader": measure_reader,
    "agent": measure_agent,
    "beside": measure_beside,
    "polls": measure_processes,
    "libraries": measure_libraries,
    "engine": measure_engine,
    "replay": measure_replay,
    "cli": measure_help,
    "clouds": measure_clouds,
    "growth": measure_growth,
}


def table(figures: list[Figure]) -> str:
    """Figures beside their targets."""
    lines = []
    for figure in figures:
        target = ""
        if figure.limit is not None:
            target = f"{'≥' if figure.least else '≤'} {figure.limit:g}  {'ok' if figure.ok else 'OVER'}"
        digits = 0 if figure.value >= 1000 else 2
        lines.append(f"{figure.what:54}{figure.value:>10.{digits}f} {figure.unit:4} {target}".rstrip())
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a shorter run; figures are rougher")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.parts if name not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return arguments


def _progress(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # heavy: not before it is needed

    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


if __name__ == "__main__":
    sys.exit(main())
