"""What the resident processes of costguard cost."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

from bench.measure import Memory, children_cpu_ms, command_line, cpu_ms, ended_children_ms, memory, rss_kib, tree, until
from bench.world import GPUS, World
from costguard.process.command_lines import HEAVY, LIGHT
from costguard.testing.nvml import ReaderProcess

Progress = Callable[[str], None]

CONFIGURATION = """\
mode = "dry-run"
kill_action = "shutdown"
grace = "5m"
[notify]
channels = []
[host]
sysfs = "{sysfs}"
"""

RESIDENTS = tuple(LIGHT[name] for name in ("guard", "nvml", "host"))
"""What stays on every machine; on a rented one, the cloud reader as well."""


class Resident(NamedTuple):
    """Milliseconds of CPU per tick of all resident processes, their memory, calls per GPU and tick."""

    cpu: float
    memory: Memory
    calls: float


class Growth(NamedTuple):
    """KiB of resident memory that many reads added."""

    reads: int
    kib: int


def reader(world: World, ticks: int, interval: float) -> Resident:
    """The NVML reader alone, asked as the guard asks it."""
    with ReaderProcess(world.environment(logging=True), sysfs=world.sysfs) as process:
        process.read()
        world.log.write_text("")
        for _ in range(20):
            process.read()
        calls = len(world.log.read_text().splitlines()) / 20 / GPUS
    with ReaderProcess(world.environment(), sysfs=world.sysfs) as process:
        for _ in range(5):
            process.read()
        before = cpu_ms(process.pid)
        for _ in range(ticks):
            time.sleep(interval)
            process.read()
        return Resident((cpu_ms(process.pid) - before) / ticks, memory([process.pid]), calls)


def growth(world: World, reads: int, progress: Progress) -> Growth:
    """Read again and again, as fast as it goes."""
    with ReaderProcess(world.environment(), sysfs=world.sysfs) as process:
        for _ in range(min(2000, reads)):
            process.read()
        before = rss_kib(process.pid)
        for number in range(reads):
            process.read()
            if number and number % 20_000 == 0:
                progress(f"{number} of {reads} reads, {rss_kib(process.pid) - before:+} KiB")
        return Growth(reads, rss_kib(process.pid) - before)


class AgentFailedError(Exception):
    """The agent did not start or ended; the words are its own."""


def agent(world: World, seconds: float, interval: float) -> tuple[Resident, float]:
    """The whole agent, started as people start it; also milliseconds per tick of its short-lived workers."""
    calls = _agent_calls(world, interval)
    with Agent(world, interval, logging=False) as running:
        time.sleep(max(2.0, 5 * interval))
        pids = tree(running.pid)
        before = {pid: cpu_ms(pid) for pid in pids}
        workers, start = ended_children_ms(running.pid), time.monotonic()
        time.sleep(seconds)
        ticks = (time.monotonic() - start) / interval
        # A worker that is alive at either end is not resident.
        spent = [cpu_ms(pid) - used for pid, used in before.items() if pid in tree(running.pid)]
        workers = (ended_children_ms(running.pid) - workers) / ticks
        return Resident(sum(spent) / ticks, memory(tree(running.pid)), calls), workers


def _agent_calls(world: World, interval: float) -> float:
    world.log.write_text("")
    with Agent(world, interval, logging=True) as running:
        time.sleep(1.0)
        world.log.write_text("")
        time.sleep(max(3.0, 10 * interval))
        running.stop()
    calls = [line.split()[2:] for line in world.log.read_text().splitlines()]
    # one call or another is made in each tick
    ticks = max(Counter(name for name, gpu in calls if gpu == "0").values(), default=1)
    return len([1 for _, gpu in calls if gpu != "-"]) / ticks / GPUS


class Agent:
    """`costguard run`, ended with everything it started."""

    def __init__(
        self,
        world: World,
        interval: float,
        *,
        logging: bool,
        settings: Mapping[str, object] = MappingProxyType({}),
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``settings`` and ``environ``: more than those of a machine that nobody rents out."""
        configuration = world.folder / "config.toml"
        configuration.write_text(CONFIGURATION.format(sysfs=world.sysfs))
        command = [sys.executable, "-m", "costguard", "run", "--config", str(configuration)]
        command += ["--state-dir", str(world.folder / "state"), "--set", f"interval={interval}"]
        command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        self._output = world.folder / "agent.log"
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **world.environment(logging=logging), **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        if until(lambda: self._process.poll() is not None or self._resident(), 20) and self._process.poll() is None:
            return self
        self.stop()
        raise AgentFailedError(self._output.read_text().strip()[-2000:] or "it said nothing")

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it in the friendly way, then in the other."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _resident(self) -> bool:
        """Whether the guard runs its reader: that is what stays."""
        return any("costguard.readers.nvml.reader" in command_line(pid) for pid in tree(self.pid)[1:])


def residents(root: int) -> dict[str, int]:
    """The processes of an agent that stay, by their module."""
    wanted = {*RESIDENTS, HEAVY["cloud"]}
    return {module: pid for pid in tree(root) for module in wanted.intersection(command_line(pid))}


def help_cpu(times: int) -> float:
    """Milliseconds of CPU of ``costguard --help``, the best of some tries."""
    command = [sys.executable, "-m", "costguard", "--help"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return min(
        children_cpu_ms(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) for _ in range(times)
    )
