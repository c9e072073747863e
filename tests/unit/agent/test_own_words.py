"""What the agent says of itself, by the real loop: each remark and each digest once, whatever becomes of the guard."""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimCrash, SimHost, SimOff, Watch, World, effective

HOUR = 3600.0
CONFIG: Mapping[str, Any] = {
    "mode": "live", "kill_action": "shutdown", "kill_duration": 600.0, "grace": 1800.0, "boot_grace": 0.0, "hold_max": 60.0,
}  # fmt: skip


class Chat(Watch):
    """What the channel beyond the machine got: seconds since the beginning, and the message."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.got: list[tuple[float, dict[str, Any]]] = []
        self.tried: list[tuple[float, dict[str, Any]]] = []

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        """A worker was asked for."""
        del now
        if program == "notify" and "team" in job["channels"]:
            self.tried.append((self.world.now, job["message"]))

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        """A worker had it."""
        del now
        if delivered:
            self.got.append((self.world.now, message))

    def notes(self) -> list[str]:
        """The texts that the agent wrote about itself."""
        return [str(message["facts"]["text"]) for _, message in self.got if message["kind"] == "notes"]


def lives(
    world: World, chat: Chat, config: dict[str, Any], until: float, *kills: float, faults: Faults | None = None
) -> None:
    """One guard after the other, each killed at its moment, the last one ended."""
    for end in (*kills, until):
        host = SimHost(world=world, watch=chat, faults=faults)

        def kill() -> None:
            raise SimCrash

        world.at(end, kill if end != until else lambda host=host: host.signal("TERM"))  # type: ignore[misc] # mypy knows no type of a default
        try:
            Loop(host, config, world.start()).run()
        except SimCrash:
            world.pass_time(2.0)
        host.die()


def told(policy: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with one channel beyond the machine."""
    config = effective({**CONFIG, **policy})
    config["notify"] |= {"channels": {"team": {"urls": "env:TEAM"}}, "dry_run": "few"}
    return config


def _holds(host: SimHost, uid: int) -> None:
    host.request(uid, {"command": "hold", "seconds": 60.0, "reason": "x"})


@pytest.mark.parametrize("kills", [(), (4000.0,), (4100.0, 4180.0, 5000.0), (HOUR + 900.1,)])
def test_what_was_left_out_of_an_hour_comes_as_one_digest(kills: tuple[float, ...]) -> None:
    """Twenty people hold for a minute each: twelve are told by name, the others together, also by a guard that is another one."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=5)
    chat = Chat(world)

    config = told({})
    first = SimHost(world=world, watch=chat)
    for number in range(20):
        world.at(900.0 + number, partial(_holds, first, 1000 + number))
    world.at(950.0, lambda: first.signal("TERM"))
    Loop(first, config, world.start()).run()
    first.die()
    lives(world, chat, config, 3 * HOUR, *kills)
    (digest,) = chat.notes()
    assert sum(message["kind"] == "held" for _, message in chat.tried) == 12
    assert digest == "9 messages held back in the last hour: 8 × held, 1 × hold_ended; `costguard history` has them"


@pytest.mark.parametrize("kills", [(), (2000.0,), (HOUR, 2 * HOUR, 3 * HOUR), (1800.0 + 1.0, 1800.0 + 20.0)])
def test_a_lease_that_does_not_count_is_remarked_once_whatever_becomes_of_the_guard(kills: tuple[float, ...]) -> None:
    """Nothing sets the clock all day; each guard of the boot sees it anew."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    world.synced = False
    chat = Chat(world)
    lives(world, chat, told({"lease_until": world.wall_offset + 7 * 86400.0}), 6 * HOUR, *kills)
    assert len(chat.notes()) == 1


def test_a_clock_that_is_lost_again_is_remarked_again() -> None:
    """It was set in between, and the lease counted."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    world.synced = False
    world.at(3 * HOUR, lambda: setattr(world, "synced", True))
    world.at(6 * HOUR, lambda: setattr(world, "synced", False))
    chat = Chat(world)
    lives(world, chat, told({"lease_until": world.wall_offset + 7 * 86400.0}), 9 * HOUR)
    assert len(chat.notes()) == 2


class Down(Faults):
    """No channel takes anything."""

    def take(self, subject: str, host: SimHost) -> str:
        """Of messages all fail."""
        del host
        return "fail" if subject == "notify" else ""


def test_a_warning_that_nobody_takes_is_tried_every_two_minutes() -> None:
    """After its first tries, until the countdown is over: who is back after an outage has it once, and not with each of its minutes."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9), Phase(9**9, 0.0)]), seed=7)
    chat = Chat(world)
    with suppress(SimOff):
        lives(world, chat, told({}), 4 * HOUR, faults=Down())
    times = [at for at, message in chat.tried if message["kind"] == "countdown"]
    gaps = [after - before for before, after in pairwise(times)]
    assert len(times) >= 10
    assert min(gaps) >= 110.0, gaps
