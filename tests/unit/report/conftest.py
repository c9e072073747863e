"""Histories as the real loop and its recorder make them, on a simulated machine, in real files."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from costguard.agent.loop import Loop
from costguard.history import FILE, query, store
from costguard.history.job import Batch
from costguard.process.wire import build
from costguard.report import timeline
from costguard.report.timeline import Timeline
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, effective

WALL = 1_795_000_000.0
"""When the simulated machine boots: 2026-11-18 06:26:40 UTC."""

Ask = tuple[float, int, dict[str, object]]
"""A request of a user: when, who, what."""


class Recorded(NamedTuple):
    """A folder with a history, and from when to when it goes."""

    folder: Path
    since: float
    until: float

    @property
    def path(self) -> str:
        """The file."""
        return str(self.folder / FILE)

    def timeline(self, slots: int = 360, **more: Any) -> Timeline:
        """As it is drawn."""
        with query.reading(self.path) as database:
            events = query.events(database, 0.0)
            return timeline.read(database, events, self.since, self.until, slots, "box", **more)


def record(
    folder: Path, gpus: int, script: Sequence[Phase], seconds: float, asked: Sequence[Ask] = (), **policy: Any
) -> Recorded:
    """What the real guard records of a machine."""
    host = SimHost(
        Machine(gpus=gpus, script=script, model="NVIDIA H100 80GB HBM3"), seed=3, start_wall=WALL, until=seconds
    )
    host.world.history = deque()
    for at, uid, request in asked:
        host.world.at(at, partial(_ask, host, uid, request))
    rules = {"kill_duration": 3600.0, "mode": "live", "kill_action": "command", "price_per_hour": 10.0, **policy}
    loop = Loop(host, effective(**rules), host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    for batch in host.world.history:
        store.save(build(Batch, {**batch, "path": str(folder / FILE)}))
    return Recorded(folder, WALL, WALL + seconds)


def _ask(host: SimHost, uid: int, request: dict[str, object]) -> None:
    host.request(uid, request)


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Four GPUs: work, one that cannot be read, a hold, a countdown that work ends, an action."""
    script = [
        Phase(1800, 0.0), Phase(5400, (0.9, 0.5, 0.0, 0.97), jitter=0.05),
        Phase(2400, 0.9, unknown={2: "the driver does not answer"}), Phase(3900, 0.0), Phase(1200, 0.8),
        Phase(9**9, 0.0),
    ]  # fmt: skip
    asked: list[Ask] = [
        (10000.0, 4242, {"command": "hold", "seconds": 1800, "reason": "<script>alert(1)</script> & $x$"})
    ]
    return record(tmp_path_factory.mktemp("day"), 4, script, 30000.0, asked)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Another time zone, without the system's time zone files."""

    def choose(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    choose("UTC0")
    yield choose
    monkeypatch.undo()
    time.tzset()
