"""Why a countdown is taken back, in the words that people read: each cause by its own name."""

from collections.abc import Callable
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimCrash, SimHost, Watch, World, effective

SOON: dict[str, Any] = {
    "kill_duration": 60.0, "grace": 300.0, "boot_grace": 0.0, "arm_duration": None, "kill_action": "command", "mode": "live",
}  # fmt: skip
LIVES = 200.0


class Told(Watch):
    """Why what was announced is taken back."""

    def __init__(self) -> None:
        self.why: list[str] = []

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        if message["kind"] == "cancelled":
            self.why.append(message["facts"]["why"])


def killed() -> None:
    raise SimCrash


def lives(
    config: dict[str, Any], told: Told, world: World | None = None, before: Callable[[SimHost], None] | None = None
) -> World:
    """One guard after the one before it, of the same machine, until it is killed."""
    host = SimHost(Machine(1, [Phase(9**9, 0.0)]), seed=1, watch=told, world=world)
    host.world.at(host.now + LIVES, killed)
    if before is not None:
        before(host)
    with pytest.raises(SimCrash):
        Loop(host, config, host.start()).run()
    host.die()
    return host.world


@pytest.mark.parametrize(("change", "why"), [
    ({"version": "2"}, "costguard was restarted with another version"),
    ({"policy": {**effective(**SOON)["policy"], "kill_threshold": 0.1}}, "costguard was restarted with another configuration"),
    ({"actions": {"command": {"run": ["false"]}}}, "costguard was restarted with another configuration"),
    ({"version": "2", "actions": {"command": {"run": ["false"]}}}, "costguard was restarted with another version"),
    ({}, None),
])  # fmt: skip
def test_a_restart_says_what_is_another(change: dict[str, Any], why: str | None) -> None:
    """People ask who changed what; a kill alone takes nothing back."""
    told = Told()
    world = lives(effective(**SOON), told)
    lives({**effective(**SOON), **change}, told, world)
    assert told.why == ([why] if why else [])


def test_a_reload_says_that_the_configuration_has_changed() -> None:
    """Nobody restarted anything."""
    told = Told()

    def reloads(host: SimHost) -> None:
        host.world.configuration = effective(**SOON, kill_threshold=0.1)
        host.world.at(LIVES - 60.0, lambda: host.signal("HUP"))

    lives(effective(**SOON), told, before=reloads)
    assert told.why == ["the configuration has changed"]
