"""What the guard has on record before it does anything, and under which configuration its children work."""

import json
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.journal import PREFIXES
from costguard.agent.loop import Loop
from costguard.agent.memory import COMMIT_EVERY_SECONDS, COUNTED_EVERY_SECONDS
from costguard.agent.workers import Workers
from costguard.engine import time_limits
from costguard.engine.effects import Confirm, Prepare, Save
from costguard.host.files import COMMITMENTS, STATE
from costguard.host.ports import Instant
from costguard.testing.simhost import Machine, Phase, SimCrash, SimHost, SimOff, Watch, World, effective
from tests.unit.agent.test_bugs import Buggy, Journal, guard

WORKED = 600.0
RULES: dict[str, Any] = {"mode": "live", "kill_action": "shutdown", "kill_duration": 900.0, "grace": 300.0}


def number(identity: str) -> int:
    """That of an effect: those of one boot are counted."""
    return int(identity.rpartition("-")[2][1:])


def idle_after_work(seed: int = 3) -> World:
    """A machine that worked for ten minutes."""
    return World(Machine(gpus=1, script=[Phase(WORKED, 0.9)]), seed=seed)


class Recorded(SimHost):
    """Notes what stood in the files whenever a child was started or released."""

    def __init__(self, world: World, until: float | None = None, watch: Watch | None = None) -> None:
        super().__init__(world=world, until=until, watch=watch)
        self.begun: list[tuple[str, int]] = []  # effect, and the number of the last one on record
        self.jobs: list[tuple[str, dict[str, Any]]] = []
        self.released: list[tuple[str, object]] = []  # phase and moment of the request, as they stand in the files

    def on_record(self) -> dict[str, Any]:
        """The engine's core as the next guard would find it."""
        core: dict[str, Any] = json.loads(self.world.runtime[STATE])["data"]["engine"]["core"]
        return core

    def spawn(self, program: str, job: bytes) -> int:
        """A child, with what is on record then."""
        given = json.loads(job)
        self.jobs.append((program, given))
        if program in {"act", "notify"}:
            identity = given["message"]["id"] if program == "notify" else given["attempt"]
            self.begun.append((identity, self.on_record()["serial"]))
        return super().spawn(program, job)

    def send(self, child: int, line: bytes) -> bool:
        """The release of a worker, with what is on record then."""
        if line.startswith(b'{"go":true'):
            lasting = json.loads(self.world.runtime[COMMITMENTS])["data"]["incident"]
            self.released.append((self.on_record()["phase"], lasting and lasting["asked"]))
        return super().send(child, line)


def live(host: SimHost, config: dict[str, Any]) -> Loop:
    """A guard until its end, or the machine's."""
    loop = Loop(host, config, host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    return loop


def test_every_effect_is_on_record_before_it_begins() -> None:
    """A guard that is killed in between would else begin it again under the same name, or know nothing of a request."""
    host = Recorded(idle_after_work())
    live(host, effective(**RULES))
    assert {program for program, _ in host.jobs} >= {"act", "notify"}
    late = [(identity, known) for identity, known in host.begun if number(identity) > known]
    assert late == []
    ((phase, asked),) = host.released
    assert (phase, asked is not None) == ("ACTING", True)


@pytest.mark.parametrize("worked", [True, False])
def test_the_kernel_parameter_keeps_the_machine_up(worked: bool) -> None:
    """An escape hatch that needs no login: no countdown even begins, and it is shown why."""
    journal = Journal()
    machine = Machine(gpus=1, script=[Phase(WORKED, 0.9 if worked else 0.0)])
    host = SimHost(machine, seed=3, until=2 * 3600.0, watch=journal)
    loop = Loop(host, effective(**RULES, unused_after=2400.0), host.start()._replace(hatch="costguard=off"))
    assert loop.run() == 0
    assert (journal.acts, journal.kinds()) == ([], [])
    assert "costguard=off" in str(loop.last.sentence)
    assert [(veto.source, veto.reason, veto.hatch) for veto in loop.seen.vetoes] == [
        ("kernel parameter", "costguard=off", True)
    ]


def test_after_a_reload_workers_have_the_new_configuration() -> None:
    """Command, hook, channels and mode of the file that was just read; what was written before is of no account."""
    new = {
        **effective(**{**RULES, "kill_action": "command"}),
        "hooks": {"pre_stop": ["/usr/bin/save"], "timeout": 20.0},
    }
    new["actions"] = {**new["actions"], "command": {"run": ["/usr/bin/new"], "timeout": 60}}
    new["notify"] = {**new["notify"], "local": ["wall", "terminals"]}
    world = idle_after_work()
    world.configuration = new
    host = Recorded(world, until=3 * 3600.0)
    host.world.at(700.0, lambda: host.signal("HUP"))
    live(host, effective(**{**RULES, "kill_action": "command", "mode": "dry-run"}))
    (prepared,) = [job for program, job in host.jobs if program == "act" and job["job"] == "act"]
    assert prepared["settings"]["run"] == ["/usr/bin/new"]
    assert (prepared["mode"], prepared["hook"]["pre_stop"]) == ("live", ["/usr/bin/save"])
    told = [job for program, job in host.jobs if program == "notify"]
    assert told
    assert [job["channels"] for job in told] == [["wall", "terminals"]] * len(told)


@pytest.mark.parametrize(
    ("change", "again"),
    [({}, False), ({"grace": 240.0}, True), ({"kill_duration": 800.0}, True), ({"stop_below_load": True}, True)],
)
def test_a_restart_under_another_policy_takes_the_warning_back(change: dict[str, Any], again: bool) -> None:
    """People were told of another stop than the one that would come; after a kill under the same policy the countdown goes on."""
    journal = Journal()
    world = idle_after_work()
    host = SimHost(world=world, until=9**9, watch=journal)
    world.at(1700.0, lambda: setattr(host, "doom", 1))
    with pytest.raises(SimCrash):
        live(host, effective(**RULES))
    assert journal.kinds() == ["warning"]
    restarted = world.now
    host = Recorded(world, until=world.now + 3600.0, watch=journal)
    live(host, effective(**{**RULES, **change}))
    taken_back = [line for line in journal.lines if line[3:].startswith(PREFIXES["cancelled"])]
    assert bool(taken_back) is again
    assert journal.acts == ["shutdown"]
    assert journal.kinds().count("warning") == 1 + again
    assert (world.now - restarted > 800.0) is again


@pytest.mark.parametrize("hook", [0.0, 30.0, 180.0])
def test_a_hook_gets_its_time_from_whoever_could_end_it(hook: float) -> None:
    """While an attempt is prepared, and when the cloud takes the machine away; without one nothing waits for it."""
    config = {**effective(), "hooks": {"pre_stop": ["/usr/bin/save"] if hook else [], "timeout": hook or 60.0}}
    for effect, others in (
        (Prepare("e1", "command", "i1"), time_limits.prepare(0.0).own),
        (Save("e1", "command", 500.0), time_limits.save(0.0).own),
    ):
        host = SimHost(seed=1)
        workers = Workers(host, config, Jitter("dmi:1", attended=False))
        assert workers.start(effect, 10.0, Circumstances()) is None
        assert workers.late(10.0 + others + hook) == []
        assert [one.status for one in workers.late(10.0 + others + hook + time_limits.MARGIN_SECONDS)] == ["failed"]
        assert host.children == {}


@pytest.mark.parametrize(("left", "granted"), [(500.0, 30.0), (20.0, 20.0), (0.0, 1.0)])
def test_a_hook_is_told_how_long_it_has(left: float, granted: float) -> None:
    """Its own time, or what the cloud leaves."""
    host = Recorded(idle_after_work())
    config = {**effective(), "hooks": {"pre_stop": ["/usr/bin/save"], "timeout": 30.0}}
    host.world.runtime[STATE] = b'{"data":{"engine":{"core":{"serial":0}}}}'
    Workers(host, config, Jitter("dmi:1", attended=False)).start(Save("b-s1", "stop", left), 10.0, Circumstances())
    ((_, job),) = host.jobs
    assert job["deadline"] == granted


def test_each_job_names_its_own_attempt() -> None:
    """A question is about the attempt that was made, not about itself."""
    host = Recorded(idle_after_work())
    host.world.runtime[STATE] = b'{"data":{"engine":{"core":{"serial":0}}}}'
    workers = Workers(host, effective(fallback=("shutdown",)), Jitter("dmi:1", attended=False))
    workers.start(Prepare("b-a1", "shutdown", "b-i1"), 10.0, Circumstances())
    workers.start(Confirm("b-f2", "b-a1", "stop", "b-i1"), 10.0, Circumstances())
    assert [(job["attempt"], job["incident"], job.get("fallback", False)) for _, job in host.jobs] == [
        ("b-a1", "b-i1", True),
        ("b-a1", "b-i1", False),
    ]


class BuggyCountdown(Buggy):
    """A bug while a worker waits ready."""

    bugs, where = (1780.0,), "WATCHDOG"


def test_after_a_bug_no_worker_waits_to_act() -> None:
    """What was prepared is ended; the next attempt is another one, after a warning of its own."""
    journal = Journal()
    host, loop = guard(BuggyCountdown, 3 * 3600.0, journal)
    seen: dict[float, list[str]] = {}

    def look() -> None:
        jobs = [child.job for child in host.children.values() if "attempt" in child.job]
        seen[host.now] = [job["attempt"] for job in jobs if job["job"] == "act"]

    for moment in (1779.0, 1800.0):
        host.world.at(moment, look)
    with pytest.raises(SimOff):
        loop.run()
    assert (len(seen[1779.0]), seen[1800.0]) == (1, [])
    assert journal.acts == ["shutdown"]
    assert journal.kinds().count("warning") == 2


class BuggyRelease(SimHost):
    """A bug between the decision to act and its first effect."""

    bug_at = 0.0

    def save(self, data: bytes) -> str | None:
        """The state file."""
        if not self.bug_at and b'"phase":"ACTING"' in data:
            self.bug_at = self.now
            raise LookupError("a bug")
        return super().save(data)


def test_a_bug_between_decision_and_request_acts_on_nothing() -> None:
    """The engine begins again, so what it was about to do is not done behind its back; the stop comes later."""
    journal = Journal()
    host, loop = guard(BuggyRelease, 6 * 3600.0, journal)
    with pytest.raises(SimOff):
        loop.run()
    assert isinstance(host, BuggyRelease)
    assert host.bug_at
    assert journal.acts == ["shutdown"]
    assert journal.kinds().count("warning") == 2
    assert host.now > host.bug_at + 900.0


class Stores(Watch):
    """When commitments reached the disk, and the running time in them."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.ran: list[float] = []

    def stored(self, now: Instant, data: dict[str, Any]) -> None:
        self.at.append(now.boot)
        self.ran.append(data["data"]["ran"])


@pytest.mark.parametrize("load", [0.0, 0.9])
@pytest.mark.parametrize(
    ("counts", "every"),
    [
        ({}, COMMIT_EVERY_SECONDS), ({"lifetime": 10.0**6}, COUNTED_EVERY_SECONDS), ({"budget": 10.0**6, "price_per_hour": 1.0}, COUNTED_EVERY_SECONDS),
    ],
)  # fmt: skip
def test_commitments_are_stored_also_while_nothing_happens(load: float, counts: dict[str, Any], every: float) -> None:
    """A machine that crashes loses an hour of its unused time, ten minutes of what counts against a limit, and no more."""
    watch = Stores()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, load)]), seed=3, until=4 * 3600.0, watch=watch)
    live(host, effective(mode="live", kill_duration=9**6, unused_after=None, **counts))
    gaps = [after - before for before, after in pairwise(watch.at)]
    assert len(gaps) >= 4 * 3600.0 / every - 2
    assert max(gaps) <= every + 20.0
    assert watch.ran == sorted(watch.ran)
    assert watch.ran[-1] > watch.at[-1] - 30.0


@pytest.mark.parametrize(
    ("aggregate", "works", "low", "high"), [("all", WORKED, 1000, 1300), ("any", 9**9, 1500, 1800)]
)
def test_a_command_hears_how_long_it_was_idle(aggregate: str, works: float, low: int, high: int) -> None:
    """All GPUs: since the last one worked; any: the one that was idle for longest."""
    host = Recorded(World(Machine(gpus=2, script=[Phase(works, (0.9, 0.0))]), seed=3), until=2000.0)
    rules = {**RULES, "kill_action": "command", "aggregate": aggregate, "arm_duration": None, "unused_after": None}
    live(host, effective(**{**rules, "kill_duration": 900.0 if aggregate == "all" else 1300.0}))
    (prepared,) = [job for program, job in host.jobs if program == "act" and job["job"] == "act"]
    assert low <= prepared["idle_seconds"] <= high
    assert len(prepared["gpus"]) == (2 if aggregate == "all" else 1), "and which GPUs that is about"
