"""What a guard counted of its messages, the next one of the same boot goes on with."""

import json
from typing import Any

from costguard.agent.loop import Loop
from costguard.host.files import STATE
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimHost, Watch, World, effective

CONFIG: dict[str, Any] = {
    "mode": "dry-run",
    "kill_action": "shutdown",
    "kill_duration": 300.0,
    "grace": 60.0,
    "boot_grace": 0.0,
}


def test_a_guard_that_is_restarted_says_no_more_than_one_that_is_not() -> None:
    """A dry run told this day what it would have done; the agent that comes after it knows."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9), Phase(9**9, 0.0)]), seed=3)
    config = effective(CONFIG)
    config["notify"] |= {"channels": {"team": {"urls": "env:TEAM"}}, "dry_run": "few"}
    host = SimHost(world=world, until=3600.0)
    first = Loop(host, config, host.start())
    first.run()
    saved = json.loads(world.runtime[STATE])["data"]["told"]
    assert saved is not None
    assert saved == json.loads(json.dumps(first.workers.kept))
    host = SimHost(world=world, until=world.now + 60.0)
    assert Loop(host, config, host.start()).workers.kept == first.workers.kept


def test_a_channel_without_an_address_is_said_at_the_start_and_stands_in_the_status() -> None:
    """Until a reload finds it."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3)
    config = effective(CONFIG)
    host = SimHost(world=world, until=60.0)
    loop = Loop(host, {**config, "unaddressed": "nobody is told: team: /x: No such file"}, host.start())
    loop.run()
    assert loop.status()["agent"]["troubles"]["channels"] == "nobody is told: team: /x: No such file"
    loop._adopt({**config, "unaddressed": None})
    assert "channels" not in loop.status()["agent"]["troubles"]


def test_a_lease_that_does_not_count_is_said_aloud() -> None:
    """A clock that nothing sets: whoever counts on the date reads it in the status, not on the bill."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    world.synced = False
    config = effective({**CONFIG, "lease_until": world.now + world.wall_offset + 7 * 86400.0})
    told: list[str] = []

    class Ears(Watch):
        def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
            del now
            told.append(str(message["facts"].get("text"))) if delivered and message["kind"] == "notes" else None

    host = SimHost(world=world, until=world.now + 3 * 3600.0, watch=Ears())
    loop = Loop(host, config, host.start())
    loop.run()
    assert "the lease does not count" in loop.status()["agent"]["troubles"]["clock"]
    assert len(told) == 1, "once, to people"
    assert "the lease does not count" in told[0]
    assert loop.status()["deadline"] is None, "what does not count is not shown as if it did"


class Recalls(Watch):
    """What guards ask of the record of messages as they begin."""

    def __init__(self) -> None:
        self.resumed: list[bool] = []

    def started(self, now: object, program: str, given: dict[str, Any]) -> None:
        if program == "recall":
            self.resumed.append(given.get("resumed", True))


def test_a_guard_asks_at_its_start_what_an_earlier_one_owes() -> None:
    """The first of a boot for digests alone, of which it knows nothing else; the next one for messages of this boot, too."""
    recalls, world = Recalls(), World(Machine(gpus=1), seed=3)
    notify = {"local": ["wall"], "attempts": 3, "channels": {"team": {"urls": "env:A"}}}
    for until in (100.0, 200.0):
        host = SimHost(world=world, until=until, watch=recalls)
        Loop(host, {**effective(), "notify": notify}, host.start()).run()
    assert recalls.resumed == [False, True]
