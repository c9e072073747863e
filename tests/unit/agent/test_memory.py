"""What is saved is the whole state of that moment, also where most of its text is one that was worked out before."""

import json
from typing import Any

import pytest

from costguard.agent.cloud_side import CloudMemory
from costguard.agent.loop import Loop
from costguard.engine.saved import CORE, alike, dump, initial
from costguard.engine.state import State
from costguard.engine.window import begin
from costguard.process.wire import plain
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


@pytest.mark.parametrize("tags", [{}, None, 7, {"settings": {}, "asks": [["x"]]}])
def test_a_state_of_the_version_before_is_gone_on_with(tags: object) -> None:
    """It named every part, also one of which there was nothing; what cannot be read of a part costs that part alone."""
    host = SimHost(Machine(1, [Phase(600, 0.9), Phase(9**9, 0.0)]), seed=1, until=900.0)
    loop = Loop(host, effective(mode="live", kill_action="command"), host.start())
    loop.run()
    boot = host.start()
    assert boot.state is not None
    nothing = {"counters": {}, "learnt": {}, "detached": False, "told": None, "hooks": {}, "found": None}
    saved = {**nothing, **json.loads(boot.state), "tags": tags}
    after = Loop(host, loop.config, boot._replace(state=json.dumps(saved).encode()))
    assert after.last.state.tracks == loop.last.state.tracks


def test_what_tags_ask_for_is_kept_by_names_that_the_version_before_knows() -> None:
    """It asks for both without a doubt, wherever there is anything."""
    assert plain(CloudMemory({}, (), {"amount": 1.0})) == {"settings": {}, "asks": [], "price": {"amount": 1.0}}
