"""The agent and nvitop side by side, at an interval as it is in use: between two ticks the caches go cold."""

import time
from typing import NamedTuple

from bench import others
from bench.measure import cpu_ms, tree
from bench.ours import Agent
from bench.world import World

SETTLED = 5.0
"""Seconds after the start of the agent in which it does what it does once."""


class Cost(NamedTuple):
    """Milliseconds of CPU per tick of all resident processes of the agent, of its guard alone, and of nvitop."""

    agent: float
    guard: float
    nvitop: float


def measure(world: World, interval: float, ticks: int) -> Cost:
    """Over the same minutes, so that both meet the same neighbours. Raises AgentFailedError."""
    with others.resident(world, interval) as nvitop, Agent(world, interval, logging=False) as agent:
        time.sleep(max(SETTLED, 2.4 * interval))
        before = {pid: cpu_ms(pid) for pid in (*tree(agent.pid), nvitop)}
        time.sleep(ticks * interval)
        alive = {*tree(agent.pid), nvitop}  # a worker that lives at one end alone is not resident
        spent = {pid: (cpu_ms(pid) - used) / ticks for pid, used in before.items() if pid in alive}
        return Cost(sum(spent.values()) - spent[nvitop], spent[agent.pid], spent[nvitop])
