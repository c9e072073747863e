"""What the guard does when: it wakes for each of its children, hears what becomes of them at once, and goes on after bugs."""

import json
from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.agent.memory import COMMIT_EVERY_SECONDS
from costguard.agent.recorder import FLUSH_EVERY_SECONDS
from costguard.engine import time_limits
from costguard.engine.observation import Known, Unknown
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimCrash, SimHost, SimOff, Watch, World, effective

INTERVAL = 10.0
HOUR = 3600.0
RULES: dict[str, Any] = {
    "mode": "live", "kill_action": "shutdown", "kill_duration": 900.0, "grace": 300.0, "interval": INTERVAL,
}  # fmt: skip


class Hangs(Faults):
    """One kind of child hangs, from a moment on."""

    def __init__(self, what: str, since: float) -> None:
        self.what, self.since = what, since

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == self.what and host.now >= self.since else ""


class Timed(SimHost):
    """Notes for how many seconds each child that was killed had been at work."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.begun: dict[int, tuple[str, float]] = {}
        self.killed: list[tuple[str, float, float]] = []  # program, when, after how many seconds

    def spawn(self, program: str, job: bytes) -> int:
        child = super().spawn(program, job)
        self.begun[child] = program, self.now
        return child

    def send(self, child: int, line: bytes) -> bool:
        program, _ = self.begun[child]
        if program in {"nvml", "cloud"}:
            self.begun[child] = program, self.now
        return super().send(child, line)

    def kill(self, child: int) -> None:
        program, began = self.begun[child]
        self.killed.append((program, self.now, self.now - began))
        super().kill(child)


@pytest.mark.parametrize(
    ("program", "what", "since", "seconds"),
    [
        ("cloud", "cloud", 1000.0, 30.0),
        ("beat", "beat", 1000.0, 60.0),
        ("persist", "persist", 1000.0, 30.0),
        ("history", "history", 1000.0, 30.0),
        ("notify", "notify", 2000.0, time_limits.TELL.killed),
        ("configure", "configure", 1000.0, 30.0),
        ("act", "plan", 0.0, time_limits.CHECK.killed),
    ],
)
def test_a_child_that_hangs_is_ended_in_its_time(program: str, what: str, since: float, seconds: float) -> None:
    """Also where the reader comes by itself, and nothing but that child would wake the guard."""
    machine = Machine(gpus=1, script=[Phase(2000.0), Phase(9**9, unknown={0: "NVML 15: GPU is lost"})], counters=False)
    host = Timed(machine, seed=3, until=4000.0, faults=Hangs(what, since))
    config = {
        **effective(
            RULES, mode="dry-run", boot_grace=9000.0, interval=7.0, lifetime=10.0**6
        ),  # commits while nothing happens
        "heartbeat": {"url": "https://beats.example/x", "every": 1400.0},
        "providers": ["x=costguard_x"] if program == "cloud" else [],
    }
    host.world.at(1310.0, lambda: host.signal("HUP"))
    Loop(host, config, host.start()).run()
    lived = [taken for name, at, taken in host.killed if name == program and at < 3990.0 and taken > 1.0]
    assert lived
    assert lived[0] == pytest.approx(seconds, abs=0.1)


class Words(Watch):
    """What the guard said to its service manager, to clients and in its journal."""

    def __init__(self) -> None:
        self.served_: list[str] = []
        self.answers: list[tuple[float, dict[str, Any]]] = []
        self.lines: list[tuple[float, str]] = []
        self.told: list[tuple[float, str]] = []
        self.acts: list[float] = []

    def served(self, now: Instant, message: str) -> None:
        self.served_.append(message)

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        self.answers.append((now.wall, json.loads(answer)))

    def said(self, now: Instant, line: str) -> None:
        self.lines.append((now.boot, line))

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        if program == "notify":
            self.told.append((now.boot, job["message"]["kind"]))

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acts.append(now.boot)

    def when(self, kind: str) -> list[float]:
        """The moments at which such a message began to be sent."""
        return [at for at, said in self.told if said == kind]


def test_the_service_is_ready_before_its_first_tick() -> None:
    """The service manager would else wait for it, and start it anew after a while."""
    words = Words()
    host = SimHost(Machine(gpus=1), seed=3, until=100.0, watch=words)
    Loop(host, effective(RULES), host.start()).run()
    assert (words.served_[0], words.served_[-1]) == ("READY=1", "STOPPING=1")


def test_the_status_says_when_the_last_tick_was() -> None:
    """From the first moment on, before anything was read."""
    words = Words()
    host = SimHost(Machine(gpus=1), seed=3, until=1000.0, watch=words)
    loop = Loop(host, effective(RULES), host.start())
    moments = (0.0, 5.0, 512.0, 518.0, 777.0)
    for at in moments:
        ask(host, at, "status")
    loop.run()
    ages = [wall - answer["agent"]["ticked"] for wall, answer in words.answers]
    assert len(ages) == len(moments)
    assert all(0.0 <= age <= INTERVAL + 0.1 for age in ages)


def ask(host: SimHost, when: float, command: str, **more: Any) -> None:
    """Root asks over the control socket."""

    def send() -> None:
        host.request(0, {"command": command, **more})

    host.world.at(when, send)


def lived(host: SimHost, config: dict[str, Any]) -> Loop:
    """A guard until its end, or the machine's."""
    loop = Loop(host, config, host.start())
    try:
        loop.run()
    except SimOff:
        host.die()
    return loop


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({}, "the built-in defaults"),
        ({"source": "/etc/costguard/config.toml"}, "/etc/costguard/config.toml"),
        ({"source": "/x.toml", "origin": "/x.toml and 2 tags"}, "/x.toml and 2 tags"),
    ],
)
def test_the_status_says_whence_the_configuration_is_and_how_often_a_reader_ended(
    given: dict[str, str], origin: str
) -> None:
    """The first one of the guard is no restart, nor is none at all."""
    words = Words()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1000.0, watch=words)
    loop = Loop(host, {**effective(RULES), **given}, host.start())
    host.request(0, {"command": "status"})
    ask(host, 300.0, "status")
    for at in (402.0, 602.0):
        host.world.at(at, lambda: host.expire(loop.gpu_side.reader.child or 0, 0.0, -9))
    ask(host, 590.0, "status")
    ask(host, 790.0, "status")
    loop.run()
    assert [answer["agent"]["reader_restarts"] for _, answer in words.answers] == [0, 0, 1, 2]
    assert {answer["agent"]["origin"] for _, answer in words.answers} == {origin}


class NoMessages(Faults):
    """No process can be started for a message, for a while."""

    def take(self, subject: str, host: SimHost) -> str:
        return "full" if subject == "spawn:notify" and host.now < 1530.0 else ""


def guarded(kind: type[SimHost] = SimHost, *script: Phase, until: float = 3 * HOUR, faults: Faults | None = None,
            **policy: Any) -> tuple[Words, SimHost]:  # fmt: skip
    """The story of a machine that worked for ten minutes, to its end."""
    words = Words()
    host = kind(Machine(gpus=1, script=[Phase(600.0, 0.9), *script]), seed=3, until=until, watch=words, faults=faults)
    lived(host, effective(RULES, **policy))
    return words, host


def test_a_message_that_could_not_begin_is_sent_again_after_its_pause() -> None:
    """Nobody waits for the outcome of a process that never was."""
    words, _ = guarded(faults=NoMessages())
    gaps = [after - before for before, after in pairwise(words.when("warning"))]
    assert gaps
    assert gaps[0] <= 10.0 + 2 * INTERVAL
    assert words.acts


def test_a_countdown_that_is_cancelled_leaves_no_worker_behind() -> None:
    """It waits for nothing any more, and could be released by nobody but a mistake."""
    words, host = guarded(Timed, Phase(1190.0), Phase(9**9, 0.9), until=2000.0)
    assert isinstance(host, Timed)
    (cancelled,) = words.when("cancelled")
    assert [0.0 <= at - 1790.0 <= INTERVAL + 0.1 for name, at, _ in host.killed if name == "act"] == [True]
    assert words.acts == []
    assert cancelled


def test_what_the_cloud_announces_is_told_at_once() -> None:
    """There may be two minutes left."""
    words = Words()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=3000.0, watch=words)

    def announce() -> None:
        host.world.notices.append(("n1", "terminate", host.world.instant().wall + 120.0, "the Spot market wants it"))

    host.world.at(1000.0, announce)
    announced = 1000.0 - host.world.boot_zero
    config = {**effective(RULES), "providers": ["x=costguard_x"], "cloud": {"notices": "on"}}
    Loop(host, config, host.start()).run()
    (told,) = words.when("notice")
    assert 0.0 <= told - announced <= INTERVAL + 0.1


class Broken(SimHost):
    """A minute of a countdown in which no reader can be asked, or the service manager told, without a bug."""

    where = ""
    met = 0

    def send(self, child: int, line: bytes) -> bool:
        self.bug("send")
        return super().send(child, line)

    def service(self, message: str) -> None:
        self.bug(message)
        super().service(message)

    def bug(self, what: str) -> None:
        """Raise it while it is time."""
        if 1530.0 <= self.now < 1590.0 and what.startswith(self.where):
            self.met += 1
            raise LookupError("a bug")


class BrokenQuestions(Broken):
    where = "send"


class BrokenBeats(Broken):
    where = "WATCHDOG"


@pytest.mark.parametrize("kind", [BrokenQuestions, BrokenBeats])
def test_a_bug_that_lasts_is_met_once_a_beat(kind: type[Broken]) -> None:
    """The guard outlives a minute of it, and stops the machine later."""
    words, host = guarded(kind)
    assert isinstance(host, Broken)
    assert 60.0 / INTERVAL - 2 <= host.met <= 60.0 / INTERVAL + 1
    assert len(words.acts) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_reload_is_remembered_over_a_restart(restarts: bool) -> None:
    """The guard that follows finds its own policy in the state: what was quiet under it counts."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3)
    world.configuration = effective(RULES, kill_duration=1200.0)
    words = Words()
    host = SimHost(world=world, until=1500.0 if restarts else None, watch=words)
    world.at(700.0, lambda: host.signal("HUP"))
    lived(host, effective(RULES))
    if restarts:
        lived(SimHost(world=world, watch=words), world.configuration)
    reloaded = 701.0 - world.boot_zero
    (warned,) = words.when("warning")
    assert warned == pytest.approx(reloaded + 1200.0, abs=INTERVAL + 0.1)


@pytest.mark.parametrize(
    ("section", "changed", "soon"),
    [
        ("policy", {"grace": 400.0}, False),
        ("notify", {"channels": ["mail"]}, False),
        ("policy", {"mode": "dry-run"}, True),
        ("actions", {"stop": {"timeout": 90.0}}, True),
        ("cloud", {"provider": "x"}, True),
    ],
)
def test_after_a_reload_a_plan_stays_known_where_it_rests_on_the_same(
    section: str, changed: dict[str, Any], soon: bool
) -> None:
    """A fleet that is reloaded together asks its cloud over hours again; only what is not known any more is asked soon."""
    asked: list[float] = []

    class Plans(Watch):
        def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
            if program == "act":
                asked.append(now.boot)

    config = {
        **effective(RULES, kill_action="stop", boot_grace=1200.0),
        "providers": ["x=costguard_x"],
        "cloud": {"spread": 4000.0},
    }
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=9000.0, watch=Plans())
    host.world.configuration = {**config, section: {**config[section], **changed}}
    host.world.at(4500.0, lambda: host.signal("HUP"))
    Loop(host, config, host.start()).run()
    after = [at - 4500.0 for at in asked if at > 4500.0]
    assert (after[0] < 4000.0 * time_limits.EARLY_SHARE + 60.0) is soon


SPOT = {"amount": 1.5, "currency": "EUR", "date": "2026-07-20", "source": "a cloud", "region": "north", "kind": "spot"}


def test_tags_that_change_settings_are_said_and_leave_the_price() -> None:
    """The money goes on in messages and in the status; whoever set the tag finds its effect in the journal."""
    words = Words()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1000.0, watch=words)
    host.world.verdicts["shutdown"] = {"verdict": "go", "findings": [], "price": SPOT}
    host.world.at(500.0, lambda: host.world.tags.update({"costguard-kill-duration": "2h"}))
    for at in (499.0, 530.0):
        ask(host, at, "status")
    rented = {"providers": ["x=costguard_x"], "cloud": {"tag_settings": True, "spread": 0.0}}
    Loop(host, {**effective(RULES), **rented}, host.start()).run()
    assert [answer["price_per_hour"] for _, answer in words.answers] == [1.5, 1.5]
    assert [answer["agent"]["milder"] for _, answer in words.answers] == [{}, {"kill_duration": 7200.0}]
    said = [line for _, line in words.lines if line.startswith("<5>instance tags changed the settings")]
    assert len(said) == 1


def test_a_price_that_the_cloud_reader_hears_counts_at_once() -> None:
    """Nobody waits for the next plan, which may be a day away."""
    words = Words()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=1000.0, watch=words)

    def hear() -> None:
        host.world.price = SPOT

    host.world.at(500.0, hear)
    for at in (499.0, 500.0 + INTERVAL + 1.0):
        ask(host, at, "status")
    rented = {"providers": ["x=costguard_x"], "cloud": {"spread": 0.0}}
    lived(host, {**effective(RULES), **rented})
    assert [answer["price_per_hour"] for _, answer in words.answers] == [None, 1.5]


@pytest.mark.parametrize("command", ["detach", "attach"])
def test_a_driver_that_was_let_go_stays_so_when_the_guard_dies_at_once(command: str) -> None:
    """A person exchanges it right now; and once it is taken up again no restart lets go of it."""
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    host = SimHost(world=world)
    ask(host, 302.0, "detach")
    if command == "attach":
        ask(host, 402.0, "attach")

    def end() -> None:
        host.doom = 1

    host.world.at(403.0 if command == "attach" else 303.0, end)
    with pytest.raises(SimCrash):
        Loop(host, effective(RULES), host.start()).run()
    host.die()
    again = SimHost(world=world, until=world.now + 20.0)
    loop = Loop(again, effective(RULES), again.start())
    loop.run()
    assert isinstance(loop.seen.readings[0], Unknown if command == "detach" else Known)


def test_what_was_quiet_before_a_clean_restart_counts() -> None:
    """Also where no counter of the GPU bridges the moment in which nobody looked."""
    world = World(Machine(gpus=1, script=[Phase(600.0, 0.9)], counters=False), seed=3)
    words = Words()
    for until in (1390.0, None):
        host = SimHost(world=world, until=until, watch=words)
        lived(host, effective(RULES, unused_after=None))
    (warned,) = words.when("warning")
    assert warned == pytest.approx(1500.0 - world.boot_zero, abs=2 * INTERVAL)


def test_the_last_minute_is_on_record_although_a_writer_was_under_way() -> None:
    """What it did not take along is written after it, before the guard ends."""
    flushes: list[float] = []

    class Flushes(Watch):
        def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
            if program == "history":
                flushes.append(now.boot)

    for until in (FLUSH_EVERY_SECONDS + 100.0, FLUSH_EVERY_SECONDS + 0.02):
        watch = Flushes()
        machine = Machine(gpus=1, script=[Phase(9**9, 0.9)])
        host = SimHost(machine, seed=3, until=until, watch=watch)
        Loop(host, effective(RULES), host.start()).run()
    assert len(flushes) == 4
    assert host.children == {}
    assert len(host.world.history) == 2


def test_a_message_that_hangs_at_the_end_is_not_left_behind() -> None:
    """Nobody would hear what became of it."""
    _, host = guarded(faults=Hangs("notify", 0.0), until=1515.0)
    assert host.now == pytest.approx(1520.0, abs=0.2), "its record is asked, which takes a moment"
    assert host.children == {}


class Dies(Faults):
    """Readers die at each question of a while."""

    def take(self, subject: str, host: SimHost) -> str:
        return "die" if subject == "nvml" and 1600.0 <= host.now < 1640.0 else ""


def test_a_reader_that_dies_at_a_question_ends_the_waiting() -> None:
    """The tick goes on without it, and says in time that nothing can be read."""
    beats: list[float] = []

    class Beats(Words):
        def served(self, now: Instant, message: str) -> None:
            beats.append(now.boot)

    host = SimHost(Machine(gpus=1, script=[Phase(600.0, 0.9)]), seed=3, until=1700.0, watch=Beats(), faults=Dies())
    lived(host, effective(RULES, grace=3000.0))
    assert max(after - before for before, after in pairwise(beats)) <= 2 * INTERVAL + 1.1


def written(host: SimHost, words: Words) -> list[tuple[int, str]]:
    """What the journal says of the state, and when, in true seconds."""
    zero = host.world.boot_zero
    return [(round(at + zero), line[3:]) for at, line in words.lines if line.startswith("<6>")]


def test_a_state_that_only_time_changes_is_written_in_its_tick() -> None:
    """After a minute of work the machine is armed, while every reading is as it was."""
    words = Words()
    host = SimHost(Machine(gpus=1, script=[Phase(2000.0), Phase(9**9, 0.9)]), seed=3, until=2500.0, watch=words)
    lived(host, effective(RULES))
    states = [(at, line.partition(":")[0]) for at, line in written(host, words) if at > 1900]
    assert states == [(2000, "IDLE"), (2050, "ARMED")]


def test_another_gpu_at_work_is_written_after_a_minute() -> None:
    """The state is the same, and who works is not."""
    words = Words()
    script = [Phase(1200.0, (0.9, 0.0)), Phase(9**9, (0.9, 0.9))]
    host = SimHost(Machine(gpus=2, script=script), seed=3, until=1500.0, watch=words)
    lived(host, effective(RULES))
    ((at, line),) = [(at, line) for at, line in written(host, words) if at > 1000]
    assert (at, line.partition(";")[0]) == (1200, "ARMED: GPU 0 and GPU 1 are busy")


def test_people_hear_of_a_request_that_was_accepted_before_the_next_tick() -> None:
    """The machine may be off by then."""
    words, _ = guarded()
    (accepted,) = words.when("accepted")
    assert 0.0 <= accepted - words.acts[0] <= 0.2


def test_what_only_adds_up_is_written_rarely() -> None:
    """The running time in the commitments: each write wakes a disk, and starts a process."""
    host = Timed(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=5.0 * COMMIT_EVERY_SECONDS)
    lived(host, effective(RULES))
    writers = [at for program, at in host.begun.values() if program == "persist" and at > 1000.0]
    gaps = [after - before for before, after in pairwise(writers[:-1])]
    assert len(gaps) >= 3
    assert all(gap == pytest.approx(COMMIT_EVERY_SECONDS, abs=INTERVAL) for gap in gaps)


def test_no_sign_of_life_is_given_while_nobody_reads_the_gpus() -> None:
    """Also where a person let go of the driver, which is no trouble of the guard."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=2000.0)
    ask(host, 700.0, "detach")
    ask(host, 1400.0, "attach")
    lived(host, {**effective(RULES), "heartbeat": {"url": "https://beats.example/x", "every": 60.0}})
    beats = [at for at, _ in host.world.beats]
    assert not [at for at in beats if 720.0 < at < 1400.0]
    assert len([at for at in beats if at < 700.0]) >= 9
    assert len([at for at in beats if at > 1420.0]) >= 9


class Counting(SimHost):
    """Counts how often its clock is read."""

    reads = 0

    def clock(self) -> Instant:
        self.reads += 1
        return super().clock()


def test_a_tick_at_rest_reads_the_clock_once() -> None:
    """The guard looks through nothing that cannot be due: each tick costs the training job."""
    host = Counting(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=4000.0)
    marks: list[int] = []
    for at in (1000.0, 4000.0):
        host.world.at(at, lambda: marks.append(host.reads))
    lived(host, effective(RULES))
    before, after = marks
    assert after - before <= 1.1 * 3000.0 / INTERVAL
