"""What outlives a boot counts under the rules under which it came about."""

import json
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.engine.rules import RESUME_JUMP_SECONDS
from costguard.host.files import COMMITMENTS, STATE
from costguard.testing.simhost import Faults, Machine, Phase, SimCrash, SimHost, SimOff, World, effective
from tests.unit.agent.test_bugs import Journal

UNUSED = 7200.0
BEFORE, AFTER = 6000.0, 1800.0
RULES: dict[str, Any] = {"kill_action": "shutdown", "kill_duration": 900.0, "grace": 60.0, "boot_grace": 600.0}


def boot(world: World, config: dict[str, Any], seconds: float) -> list[str]:
    """One boot of a machine that does nothing; the messages of its guard."""
    journal = Journal()
    host = SimHost(world=world, until=world.now + seconds, watch=journal)
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    return journal.kinds()


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({}, True),
        ({"kill_threshold": 0.15}, False),
        ({"mode": "dry-run"}, False),
        ({"unused_after": UNUSED - 600.0}, False),
        ({"version": "another"}, False),
    ],
)
def test_unused_time_of_earlier_boots_counts_under_the_same_policy_alone(change: dict[str, Any], counts: bool) -> None:
    """As after a reload or an upgrade: under another policy a whole time is needed, also if it came while the machine was off."""
    policy = {"mode": "live", "unused_after": UNUSED, **RULES}
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3)
    assert boot(world, effective(policy), BEFORE) == []
    world.boot()
    version = change.get("version")
    config = effective({**policy, **{name: value for name, value in change.items() if name != "version"}})
    kinds = boot(world, {**config, "version": version} if version else config, AFTER)
    assert ("warning" in kinds) is counts
    if not counts:
        world.boot()
        assert "warning" in boot(world, {**config, "version": version} if version else config, UNUSED)


def test_a_reload_before_the_first_tick_of_a_boot_takes_unused_time_back() -> None:
    """The policy was changed while the agent started: what earlier boots saw of the machine counts for the old one."""
    policy = {"mode": "live", "unused_after": UNUSED, **RULES}
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3)
    boot(world, effective(policy), BEFORE)
    world.boot()
    world.configuration = effective({**policy, "kill_threshold": 0.15})
    journal = Journal()
    host = SimHost(world=world, until=world.now + AFTER, watch=journal)
    loop = Loop(host, effective(policy), host.start())
    loop._adopt(world.configuration)  # a check that was quicker than the first answer of a reader
    loop.run()
    assert journal.kinds() == []


def test_naps_before_a_crash_are_no_resume_after_it() -> None:
    """Each nap of a second is on record at once: what the next guard finds asleep since then is no jump of the clocks."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9), Phase(9**9, 0.0)]), seed=3)
    config = effective({"mode": "live", **RULES})
    host = SimHost(world=world, until=900.0)
    for when in range(702, 899, 10):
        world.at(float(when), lambda: world.suspend(1.0))
    loop = Loop(host, config, host.start())
    unsaved: list[float] = []

    def look() -> None:
        known = json.loads(world.runtime[STATE])["data"]["engine"]["core"]["suspended"]
        unsaved.append(world.slept - known)

    for when in range(720, 899):
        world.at(float(when), look)
    loop.run()
    assert max(unsaved) < RESUME_JUMP_SECONDS


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *[(name, damage) for name in (STATE, COMMITMENTS) for damage in ([1], 7, "words")],
        (STATE, {"engine": {"core": {"holds": [[1, 2, 3, 4]]}}}),
        (STATE, {"engine": {"core": {"alarm": 5}}}),
        (COMMITMENTS, {"holds": [[1, 2, 3, 4]]}),
        (COMMITMENTS, {"earlier": 5}),
    ],
)
def test_what_was_never_saved_so_is_told_and_the_guard_watches(name: str, damage: object) -> None:
    """A guard that ends over a file would end over it again, for ever, and nothing would watch the machine."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3)
    config = effective({"mode": "live", "unused_after": UNUSED, **RULES})
    boot(world, config, 600.0)
    folder = world.runtime
    saved = json.loads(folder[name])
    whole = isinstance(damage, dict) and isinstance(saved["data"], dict)
    saved["data"] = merged(saved["data"], damage) if whole else damage
    folder[name] = json.dumps(saved).encode()
    if name == COMMITMENTS:
        del folder[STATE]
    journal = Journal()
    host = SimHost(world=world, until=world.now + 600.0, watch=journal)
    loop = Loop(host, config, host.start())
    loop.run()
    assert any("unusable" in line for line in journal.lines)
    assert loop.last.state.gpus


def merged(whole: Any, part: Any) -> Any:
    """What was saved, with some of it replaced."""
    if not (isinstance(whole, dict) and isinstance(part, dict)):
        return part
    return {**whole, **{name: merged(whole.get(name), value) for name, value in part.items()}}


class Full(Faults):
    """Memory is full from a moment on: the state cannot be saved any more."""

    def __init__(self, since: float) -> None:
        self.since = since

    def take(self, subject: str, host: SimHost) -> str:
        return "fails" if subject == "save" and host.now >= self.since else ""


@pytest.mark.parametrize("asked", ["hold", "release"])
def test_what_a_person_was_told_holds_although_the_state_could_not_be_saved(asked: str) -> None:
    """The commitments could: the next guard goes on with a state of before, and with the holds of now."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9), Phase(9**9, 0.0)]), seed=3)
    config = effective({"mode": "live", **RULES})
    host = SimHost(world=world, faults=Full(1200.0))
    wishes: list[dict[str, Any]] = [{"command": "hold", "seconds": 7200, "reason": "a run"}, {"command": "release"}]

    def ask(wish: int) -> None:
        host.request(0, wishes[wish])

    if asked == "release":
        world.at(1100.0, lambda: ask(0))
    world.at(1205.0, lambda: ask(asked == "release"))
    world.at(1206.0, lambda: setattr(host, "doom", 1))
    with pytest.raises(SimCrash):
        Loop(host, config, host.start()).run()
    host.die()
    assert ("warning" in boot(world, config, 1200.0)) is (asked == "release")


def test_commitments_that_make_no_sense_cost_no_state_that_does() -> None:
    """The state of this boot goes on, armed as it was; what is wrong is said."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9), Phase(9**9, 0.0)]), seed=3)
    config = effective({"mode": "live", **RULES})
    boot(world, config, 900.0)
    saved = json.loads(world.runtime[COMMITMENTS])
    saved["data"] |= {"order": 10**6, "holds": [[1, 2]]}
    world.runtime[COMMITMENTS] = json.dumps(saved).encode()
    assert boot(world, config, 1500.0)[:1] == ["warning"]


MOVED = {"command": "hold", "seconds": 7200, "past_deadline": True, "reason": "a run"}
AGES: dict[str, Any] = {"mode": "live", "lifetime": 3600.0, "stop_busy": True, **RULES}
"""A machine whose time is over after an hour, and a wish to have two more."""


def moves_at(host: SimHost, when: float) -> None:
    """Root moves the deadline at that moment."""

    def ask() -> None:
        host.request(0, MOVED)

    host.world.at(when, ask)


def test_a_deadline_that_was_moved_is_on_the_disk_at_once() -> None:
    """The power fails soon after somebody was told of the new date: the next boot keeps it."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    host = SimHost(world=world)
    moves_at(host, 1305.0)
    world.at(1315.0, world.power_off)
    with pytest.raises(SimOff):
        Loop(host, effective(AGES), host.start()).run()
    host.die()
    world.boot()
    assert boot(world, effective(AGES), 6000.0) == []


def test_a_deadline_that_was_moved_holds_although_the_state_could_not_be_saved() -> None:
    """The commitments could, as with a hold."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    host = SimHost(world=world, faults=Full(1200.0))
    moves_at(host, 1205.0)
    world.at(1206.0, lambda: setattr(host, "doom", 1))
    with pytest.raises(SimCrash):
        Loop(host, effective(AGES), host.start()).run()
    host.die()
    assert boot(world, effective(AGES), 6000.0) == []
