"""What is saved is the whole state of that moment, also where most of its text is one that was worked out before."""

import json
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.engine.saved import CORE, alike, dump, initial
from costguard.engine.state import State
from costguard.engine.window import begin
from costguard.testing.simhost import Machine, Phase, SimHost, effective


class Saves(SimHost):
    """Compares every save with the engine's state."""

    loop: Loop
    saves = 0

    def save(self, data: bytes) -> str | None:
        saved = json.loads(data)["engine"]
        assert saved == json.loads(json.dumps(dump(self.loop.last.state)))
        self.saves += 1
        return super().save(data)


def test_every_save_holds_all_that_the_engine_knows() -> None:
    """Work, rest, a hold under which nothing is decided, a dry run's end, unknown."""
    work, rest = Phase(600, (0.9, 0.0), "work"), Phase(3600, 0.0, "rest")
    lost = Phase(900, 0.0, "lost", unknown={1: "NVML 15: GPU is lost"})
    host = Saves(Machine(2, [work, rest, lost, work, rest]), seed=1, until=3 * 3600.0)
    config = effective(kill_duration=900.0, mode="dry-run", aggregate="mean", kill_action="command")

    def held() -> None:
        host.request(0, {"command": "hold", "seconds": 1200, "reason": "a run"})

    host.world.at(1200.0, held)
    host.loop = Loop(host, config, host.start())
    assert host.loop.run() == 0
    assert host.saves > 100


@pytest.mark.parametrize("place", [*CORE.values(), "vetoes"])
def test_what_differs_in_anything_that_is_saved_is_not_alike(place: str) -> None:
    """The next decision alone is worked out anew."""
    state = initial("b1", "i1")
    part, _, name = place.rpartition(".")
    changes: dict[str, Any] = {name: "something else"}
    if part:
        changes = {part: getattr(state.core, part)._replace(**changes)}
    assert not alike(state, state._replace(core=state.core._replace(**changes), at=99.0))
    assert alike(state, state._replace(at=99.0, core=state.core._replace(unchanged_until=7.0)))


def test_another_track_or_gpu_is_not_alike() -> None:
    """Nor is another machine."""
    state = State(1.0, ("gpu",), (begin(busy=True, since=0.0),), initial("b1", "i1").core)
    assert alike(state, state._replace(tracks=(begin(busy=True, since=0.0),)))
    assert not alike(state, state._replace(tracks=(begin(busy=False, since=0.0),)))
    assert not alike(state, state._replace(gpus=("another",)))
