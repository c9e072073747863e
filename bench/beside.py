"""The agent and nvitop side by side, at an interval as it is in use: between two ticks the caches go cold.

Both meet the same neighbours, so the share of one in the other is the figure; the milliseconds depend on who else runs.
"""

import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

from bench import others
from bench.measure import children_cpu_ms, command_line, cpu_ms, ended_children_ms, tree
from bench.ours import Agent
from bench.world import GPUS, World
from costguard.agent import memory, recorder
from costguard.agent.persist import PersistJob
from costguard.history.job import Batch, GpuMinute, MachineMinute
from costguard.host import clock
from costguard.process.command_lines import LIGHT, command_lines
from costguard.process.wire import to_line

SETTLED = 5.0
"""Seconds after the start of the agent in which it does what it does once."""

EARLY = 15
"""Ticks after that, which are told apart: what is done for the first time costs more."""

STRETCH = 5
"""Ticks of which a share is made, to show how far shares differ."""

_TIMES = 5  # that a rare process is started, to know what it costs


class Cost(NamedTuple):
    """Milliseconds of CPU per tick of all resident processes of the agent, of some alone, of its ended children, and of others.

    ``host``: the reader of what the GPUs do not show. ``bare``: a Python that only wakes and reads the files of its look.
    ``shares``: of the resident processes in nvitop, by stretches of ticks.
    """

    agent: float
    guard: float
    host: float
    children: float
    nvitop: float
    bare: float
    shares: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of the resident processes in nvitop."""
        return self.agent / self.nvitop


class Ticks(NamedTuple):
    """The first ticks after the start, and those after them."""

    early: Cost
    later: Cost


class _Spent(NamedTuple):
    """What was used up to one moment, in milliseconds."""

    agent: float
    guard: float
    host: float
    children: float
    nvitop: float
    bare: float


class _Neighbours:
    """An agent, a nvitop that looks at the same GPUs and a bare Python, and what they have used."""

    def __init__(self, agent: int, nvitop: int, bare: int) -> None:
        self._agent, self._nvitop, self._bare = agent, nvitop, bare
        self._resident = tree(agent)
        self._host = [pid for pid in self._resident if LIGHT["host"] in command_line(pid)]
        self.spent = [self._look()]

    def look(self) -> None:
        """Note it at this moment."""
        self.spent.append(self._look())

    def _look(self) -> _Spent:
        alive = set(tree(self._agent))  # a worker that lives at one end alone is not resident
        resident = {pid: cpu_ms(pid) for pid in self._resident if pid in alive}
        host = sum(resident.get(pid, 0.0) for pid in self._host)
        children, others_used = ended_children_ms(self._agent), (cpu_ms(self._nvitop), cpu_ms(self._bare))
        return _Spent(sum(resident.values()), cpu_ms(self._agent), host, children, *others_used)


def measure(places: Sequence[World], interval: float, ticks: int) -> list[Ticks]:
    """An agent and a nvitop in each world, all over the same minutes. Raises AgentFailedError."""
    with ExitStack() as running:
        groups = []
        for place in places:
            nvitop, bare = [
                running.enter_context(others.resident(code, place, interval)) for code in (others.NVITOP, others.BARE)
            ]
            groups.append((running.enter_context(Agent(place, interval, logging=False)).pid, nvitop, bare))
        time.sleep(max(SETTLED, 2.4 * interval))
        looked = [_Neighbours(*group) for group in groups]
        begin = time.monotonic()
        for done in range(STRETCH, ticks + 1, STRETCH):
            time.sleep(max(0.0, begin + done * interval - time.monotonic()))
            for group in looked:
                group.look()
    early = EARLY // STRETCH
    return [Ticks(_cost(group.spent[: early + 1]), _cost(group.spent[early:])) for group in looked]


def _cost(spent: Sequence[_Spent]) -> Cost:
    """Of the time between the first and the last of them."""
    ticks = (len(spent) - 1) * STRETCH
    agent, guard, host, children, nvitop, bare = (
        (last - first) / ticks for first, last in zip(spent[0], spent[-1], strict=True)
    )
    shares = tuple((late.agent - soon.agent) / (late.nvitop - soon.nvitop) for soon, late in pairwise(spent))
    return Cost(agent, guard, host, children, nvitop, bare, shares)


def rare(place: World, interval: float) -> float:
    """Milliseconds of CPU per tick of the processes that the guard of a machine starts at which nothing happens, by their hourly number."""
    gpus = tuple(
        GpuMinute(minute * 60, f"0000:{gpu:02x}:00.0", 60.0, 0.0, 0.0, 0.0, 0.0)
        for minute in range(60)
        for gpu in range(GPUS)
    )
    minutes = tuple(MachineMinute(minute * 60, 0.0, 60.0, 0.0) for minute in range(60))
    jobs = {
        "history": (
            recorder.FLUSH_EVERY_SECONDS,
            [
                to_line(Batch(str(place.folder / "rare.sqlite"), str(n), "", 0.0, True, gpus, minutes, ()))
                for n in range(_TIMES)
            ],
        ),
        "persist": (memory.COMMIT_EVERY_SECONDS, [to_line(PersistJob(str(place.folder / "rare.json"), "{}"))] * _TIMES),
        "clock": (clock.SYNCED_CHECK_SECONDS, [b""] * _TIMES),
    }
    return sum(interval / every * _mean_cpu_ms(program, lines) for program, (every, lines) in jobs.items())


def _mean_cpu_ms(program: str, lines: Sequence[bytes]) -> float:
    """Of one process that does one of these jobs."""
    command = command_lines()[program]

    def work() -> None:
        for line in lines:
            subprocess.run(command, input=line + b"\n", capture_output=True, check=False)

    return children_cpu_ms(work) / len(lines)
