"""The pre-stop hook when the cloud takes the machine away: the real loop starts it once, and says when it failed."""

from typing import Any

import pytest

from costguard.agent.circumstances import Circumstances
from costguard.agent.hooks import HookRunner
from costguard.agent.loop import Loop
from costguard.engine import Notice, initial
from costguard.engine.state import Ending, Incident
from costguard.engine.window import NEVER
from costguard.testing.simhost import (
    Faults,
    Machine,
    Phase,
    SimCrash,
    SimHost,
    SimOff,
    Watch,
    World,
    effective,
    sensing,
)


class Journal(Watch):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.begun: list[str] = []  # steps whose process was started
        self.remarks: list[str] = []  # what people were told of the agent's own

    def said(self, now: object, line: str) -> None:
        self.lines.append(line)

    def message(self, now: object, message: dict[str, Any], delivered: bool) -> None:
        del now
        if delivered and message["kind"] == "notes":
            self.remarks.append(str(message["facts"].get("text")))


class Broken(Faults):
    def __init__(self, word: str) -> None:
        self.word = word

    def take(self, subject: str, host: SimHost) -> str:
        return self.word if subject == "hook" else ""


def announced(
    word: str = "", hooks: dict[str, Any] | None = None, until: float = 1500.0, **policy: Any
) -> tuple[SimHost, Journal]:
    """A machine at work; after 1000 s the cloud announces its end, twice."""
    journal = Journal()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=until, watch=journal, faults=Broken(word))
    given = {"pre_stop": ["/usr/bin/save"], "timeout": 90.0} if hooks is None else hooks
    loop = Loop(host, {**effective(**{"mode": "live", **policy}), "hooks": given}, host.start())
    for moment in (1000.0, 1010.0):
        host.world.at(moment, lambda: loop.ask(Notice(host.clock().boot, host.clock().boot + 60.0, "Spot ends")))
    try:
        loop.run()
    except SimOff:
        host.die()
    return host, journal


def test_it_runs_once_and_gets_the_time_that_is_left() -> None:
    """The announcement is repeated every few seconds; the program is not."""
    host, journal = announced()
    ((at, job),) = host.world.saved
    assert 1000.0 <= at <= 1002.0
    assert job["hook"]["pre_stop"] == ["/usr/bin/save"]
    assert job["deadline"] == pytest.approx(60.0, abs=1.0)
    assert not [line for line in journal.lines if line.startswith("<3>")]


@pytest.mark.parametrize("word", ["fail", "hang", "die", "garbage"])
def test_its_failure_is_said(word: str) -> None:
    """Nobody finds out otherwise, because the machine is gone soon."""
    _host, journal = announced(word)
    assert len([line for line in journal.lines if line.startswith("<3>")]) == 1


@pytest.mark.parametrize(("hooks", "ran"), [({"pre_stop": ["/x"]}, ["pre_stop", "undo"]), ({}, [])])
def test_what_the_cloud_announced_and_did_not_do_is_taken_back(hooks: dict[str, Any], ran: list[str]) -> None:
    """A node that was drained for it takes work again, and people hear that it is over."""
    host, journal = announced(hooks={**hooks, "undo": ["/y"], "timeout": 90.0}, until=2500.0)
    assert [job.get("step", "pre_stop") for _, job in host.world.saved] == ran
    assert len([line for line in journal.lines if "has not happened" in line]) == 1


def test_it_needs_to_be_configured_and_live() -> None:
    """A dry run has no effect, and nothing is started for nothing."""
    assert not announced(mode="dry-run")[0].world.saved
    host, journal = announced(hooks={"pre_stop": [], "timeout": 60.0})
    assert not host.world.saved
    assert not [line for line in journal.lines if line.startswith("<3>")]


STEPS = {step: [f"/usr/bin/{step}"] for step in ("pre_stop", "undo", "armed", "warning", "cancelled", "post_boot")}
HOSTS: list[SimHost] = []
WORK_THEN_REST = [Phase(300.0, 0.9), Phase(9**9, 0.0)]


def steps(
    script: list[Phase],
    seconds: float,
    hooks: dict[str, Any] | None = None,
    faults: Faults | None = None,
    *,
    traffic: bool = False,
    **policy: Any,
) -> tuple[list[str], Journal, list[str]]:
    """The steps that ran, in order; the journal; and what of them the history got."""

    class Kept(Journal):
        rows: list[str]

        def __init__(self) -> None:
            super().__init__()
            self.rows = []

        def started(self, now: object, program: str, given: dict[str, Any]) -> None:
            if program == "act" and given["job"] == "hook":
                self.begun.append(given["step"])
            if program == "history":
                self.rows += [row["data"] for row in given["events"] if row["kind"] == "hook"]

    journal = Kept()
    HOSTS.append(host := SimHost(Machine(gpus=1, script=script), seed=4, until=seconds, watch=journal, faults=faults))
    rules = {
        "mode": "live",
        "kill_duration": 600.0,
        "grace": 300.0,
        "boot_grace": 600.0,
        "arm_duration": 30.0,
        **policy,
    }
    senses = sensing(effective(**rules), "traffic") if traffic else effective(**rules)
    config = {**senses, "hooks": {**STEPS, "timeout": 30.0, "user": "", **(hooks or {})}}
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    return [job.get("step", "pre_stop") for _, job in host.world.saved], journal, journal.rows


def test_each_step_of_an_incident_runs_its_program_once() -> None:
    """In their order: the boot, work, a countdown that work ends, and what takes back a drain."""
    again = [*WORK_THEN_REST[:1], Phase(750.0, 0.0), Phase(9**9, 0.9)]
    ran, journal, rows = steps(again, 3000.0)
    assert ran == ["post_boot", "armed", "warning", "cancelled", "undo"]
    assert [line for line in journal.lines if line.startswith("<3>")] == []
    assert len(rows) == len(ran)
    jobs = [job for _, job in HOSTS[-1].world.saved]
    assert all(job["instance"] and job["gpus"] for job in jobs[1:]), "the variables of `command`"
    assert jobs[0]["instance"]
    assert jobs[2]["idle_seconds"] > 0.0


def test_a_countdown_that_another_one_follows_at_once_is_taken_back_first() -> None:
    """The guard stood still in the one of a deadline that has passed: with the look that ends it the next one begins."""

    class StandsStill(Faults):
        once = True

        def take(self, subject: str, host: SimHost) -> str:
            if self.once and host.now > 1450.0:
                self.once = False
                host.stall(200.0)
            return ""

    passed: dict[str, Any] = {"lifetime": 1400.0, "stop_busy": True, "kill_duration": 3600.0}
    ran, _, _ = steps(WORK_THEN_REST, 1800.0, faults=StandsStill(), **passed)
    assert ran[2:6] == ["warning", "cancelled", "undo", "warning"]


def test_a_dry_run_runs_nothing() -> None:
    """Not even what only tells."""
    assert steps(WORK_THEN_REST, 3000.0, mode="dry-run")[0] == []


def test_an_action_that_fails_is_taken_back() -> None:
    """The machine stays, so what was drained for its end must come back."""

    class NoRight(Faults):
        def take(self, subject: str, host: SimHost) -> str:
            return "fail" if subject == "go" else ""

    ran, _, _ = steps(WORK_THEN_REST, 4000.0, faults=NoRight())
    assert "undo" in ran


@pytest.mark.parametrize("word", ["fail", "hang", "die", "garbage"])
def test_a_step_that_fails_is_said_and_changes_nothing(word: str) -> None:
    """The countdown goes on, and the next step runs."""
    ran, journal, rows = steps(WORK_THEN_REST, 2400.0, faults=Broken(word))
    assert [line for line in journal.lines if line.startswith("<3>hook")]
    assert any('"failed"' in row for row in rows)
    assert word == "hang" or "warning" in ran or word in {"die", "garbage"}
    assert any("accepted" in line for line in journal.lines), "it acts all the same"


@pytest.mark.parametrize("off", ["", "post_boot", "mode"])
def test_the_trouble_of_a_step_that_a_reload_takes_away_is_over(off: str) -> None:
    """Nobody would ever say that it works again; the configuration has all steps at all times, without a program where none is named."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=4, until=900.0, faults=Broken("fail"))
    hooks: dict[str, Any] = {**STEPS, "timeout": 30.0, "user": ""}
    began = {**effective(mode="live"), "hooks": hooks}
    taken_away = {**hooks, "post_boot": []} if off == "post_boot" else {**hooks, "timeout": 40.0}
    host.world.configuration = {**effective(mode="dry-run" if off == "mode" else "live"), "hooks": taken_away}
    host.world.at(600.0, lambda: host.signal("HUP"))
    loop = Loop(host, began, host.start())
    loop.run()
    assert ("hooks.post_boot" in loop.journal.troubles) is not bool(off)


@pytest.mark.parametrize(("word", "times"), [("die", 2), ("garbage", 2), ("fail", 1), ("hang", 1)])
def test_what_takes_back_a_drain_runs_once_more_where_its_process_was_lost(word: str, times: int) -> None:
    """Killed for want of memory, say: nobody knows how far it came. No other step does, and none for ever."""
    _, journal, rows = steps([*WORK_THEN_REST[:1], Phase(750.0, 0.0), Phase(9**9, 0.9)], 4000.0, faults=Broken(word))
    assert journal.begun.count("undo") == times
    assert all(journal.begun.count(step) == 1 for step in ("post_boot", "armed", "warning", "cancelled"))
    assert sum('"step":"undo"' in row for row in rows) == times
    assert len([text for text in journal.remarks if "may still be drained" in text]) == 1, "people hear of it, once"


def test_what_is_not_configured_starts_no_process() -> None:
    """Each step by itself."""
    assert steps(WORK_THEN_REST, 1500.0, {name: [] for name in STEPS if name != "warning"})[0] == ["warning"]


@pytest.mark.parametrize("traffic", [False, True])
@pytest.mark.parametrize("seconds", [20.0, 170.0])
def test_a_hook_that_uses_the_gpus_ends_no_countdown(seconds: float, traffic: bool) -> None:
    """It works on them beside a machine at rest, and uploads what it saves; the machine stops in the same countdown."""
    ran, _journal, _rows = steps(WORK_THEN_REST, 9000.0, {"timeout": seconds}, traffic=traffic)
    assert "cancelled" not in ran
    assert HOSTS[-1].world.hooked
    assert HOSTS[-1].world.now < 1500.0, "it was stopped in its first countdown"


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_what_was_drained_comes_back_though_the_guard_does_not_live_to_see_it(end: str) -> None:
    """Work returns, and the guard ends while another program still runs: the next one runs what waited."""
    work = [Phase(300.0, 0.9), Phase(750.0, 0.0), Phase(9**9, 0.9)]
    world = World(Machine(gpus=1, script=work), seed=4)
    rules: dict[str, Any] = {
        "mode": "live", "kill_duration": 600.0, "grace": 300.0, "boot_grace": 600.0, "arm_duration": 30.0,
    }  # fmt: skip
    hooks = {"cancelled": ["/x"], "undo": ["/y"], "timeout": 60.0, "user": ""}
    config = {**effective(**rules), "hooks": hooks}
    host = SimHost(world=world, until=3000.0, faults=Broken("hang"))

    def finish() -> None:
        if not any(child.job.get("step") == "cancelled" for child in host.children.values()):  # it does not hang yet
            world.at(world.now + 1.0, finish)
        elif end == "killed":
            host.doom = 1
        else:
            host.signal("TERM")

    world.at(1000.0, finish)
    try:
        Loop(host, config, host.start()).run()
    except SimCrash:
        host.die()
    assert world.now < 1500.0
    host = SimHost(world=world, until=world.now + 300.0)
    Loop(host, config, host.start()).run()
    assert [job["step"] for _, job in world.saved] == ["cancelled", "undo"]


@pytest.mark.parametrize("kept", [7, [7], {"left": [{"step": "evil", "name": "x"}]}, {"begun": {"x": 7}}, {}, None])
def test_what_cannot_be_read_runs_nothing(kept: object) -> None:
    """A state of another version, or a damaged one."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    config = {**effective(mode="live"), "hooks": {step: ["/x"] for step in [*STEPS]}}
    core = initial("boot", "").core
    runner = HookRunner(host, config, lambda *_: None, lambda *_: None, lambda *_: None, core, kept)
    assert runner.kept == {}
    assert runner.deadline == NEVER


CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "the machine becomes a dry run": ("dry-run", {"cancelled": ["/x"], "undo": ["/y"]}),
    "the section of hooks is removed": ("live", {}),
    "both": ("dry-run", {}),
    "another undo is named": ("live", {"cancelled": ["/other"], "undo": ["/other"]}),
}


@pytest.mark.parametrize("how", ["reload", "restart"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_countdown_is_taken_back_by_the_settings_under_which_it_began(change: str, how: str) -> None:
    """Nobody else would: the new configuration does not know what was drained, and the machine would stay so."""
    work = [Phase(300.0, 0.9), Phase(750.0, 0.0), Phase(9**9, 0.9)]
    world = World(Machine(gpus=1, script=work), seed=4)
    rules: dict[str, Any] = {"kill_duration": 600.0, "grace": 300.0, "boot_grace": 600.0, "arm_duration": 30.0}
    times: dict[str, Any] = {"timeout": 60.0, "user": ""}

    def config(mode: str, hooks: dict[str, Any]) -> dict[str, Any]:
        return {**effective(mode=mode, **rules), "hooks": {**hooks, **times}}

    began = config("live", {"cancelled": ["/x"], "undo": ["/y"]})
    changed = config(*CHANGES[change])
    world.configuration = changed
    host = SimHost(world=world, until=1700.0)
    world.at(1000.0, lambda: host.signal("HUP" if how == "reload" else "TERM"))
    Loop(host, began, host.start()).run()
    if how == "restart":
        assert world.now < 1010.0
        host = SimHost(world=world, until=world.now + 300.0)
        Loop(host, changed, host.start()).run()
    assert [(job["step"], job["hook"][job["step"]], job["mode"]) for _, job in world.saved] == [
        ("cancelled", ["/x"], "live"),
        ("undo", ["/y"], "live"),
    ]


def test_what_was_drained_for_an_announced_end_comes_back_in_a_dry_run() -> None:
    """The cloud did not take the machine, and its owner had made it a dry run in between."""
    hooks = {"pre_stop": ["/x"], "undo": ["/y"], "timeout": 60.0, "user": ""}
    world = World(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3)
    world.configuration = {**effective(mode="dry-run"), "hooks": hooks}
    host = SimHost(world=world, until=2500.0)
    loop = Loop(host, {**effective(mode="live"), "hooks": hooks}, host.start())
    world.at(1000.0, lambda: loop.ask(Notice(host.clock().boot, host.clock().boot + 60.0, "Spot ends")))
    world.at(1030.0, lambda: host.signal("HUP"))
    loop.run()
    assert [job.get("step", "pre_stop") for _, job in world.saved] == ["pre_stop", "undo"]


def test_a_dry_run_takes_nothing_back_that_it_began_itself() -> None:
    """Its countdown drained nothing, also where the machine goes live in it."""
    world = World(Machine(gpus=1, script=WORK_THEN_REST), seed=4)
    rules: dict[str, Any] = {"kill_duration": 600.0, "grace": 300.0, "arm_duration": 30.0}
    hooks = {"cancelled": ["/x"], "undo": ["/y"], "timeout": 60.0, "user": ""}
    world.configuration = {**effective(mode="live", **rules), "hooks": hooks}
    host = SimHost(world=world, until=1300.0)
    world.at(1000.0, lambda: host.signal("HUP"))
    Loop(host, {**effective(mode="dry-run", **rules), "hooks": hooks}, host.start()).run()
    assert not world.saved


@pytest.mark.parametrize(("failed", "undoes"), [("first", True), ("next", False)])
def test_a_stop_that_cannot_be_done_takes_back_nothing_of_the_one_before_it(failed: str, undoes: bool) -> None:
    """The machine was stopped and started; with the first look of the boot the next stop is the third of the day."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3)
    config = {**effective(mode="live"), "hooks": {"undo": ["/y"]}}
    before = initial("boot", "").core._replace(incident=Incident("first", "idle", "", 0.0), phase="CONFIRMING")
    runner = HookRunner(host, config, lambda *_: None, lambda *_: None, lambda *_: None, before)
    incident, ending = Incident(failed, "idle", "", 0.0), Ending(done="cannot")
    runner.note(before, before._replace(incident=incident, phase="DONE", ending=ending), Circumstances)
    assert runner.deadline == (0.0 if undoes else NEVER)
