"""A reload ends for the service manager however it ends, and never leaves anything of the old one behind."""

import json
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, Watch, effective


class Manager(Watch):
    """What the service manager hears of reloads."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def served(self, now: Instant, message: str) -> None:
        if now.boot > 100.0:
            self.heard += [word for word in ("RELOADING=1", "READY=1") if word in message]


class Checks(Faults):
    """The check of a configuration goes wrong."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def take(self, subject: str, host: SimHost) -> str:
        return self.fault if subject in {"configure", "spawn:configure"} and self.bites(subject, host) else ""

    def bites(self, subject: str, host: SimHost) -> bool:
        del host
        return subject.startswith("spawn:") == (self.fault == "spawn")


class Plans(Watch):
    """Which actions are asked about from some moment on, and in which mode."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.asked: list[tuple[str, str]] = []

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        if program == "act" and now.boot > self.since:
            self.asked.append((job["action"], job["mode"]))


class FirstHangs(Checks):
    """Only the check that began first hangs."""

    def bites(self, subject: str, host: SimHost) -> bool:
        return super().bites(subject, host) and host.now < 300.0


def guard(faults: Faults, found: dict[str, Any] | None = None) -> tuple[Loop, SimHost, Manager]:
    """A guard that gets a HUP at 200 s."""
    manager = Manager()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=400.0, watch=manager, faults=faults)
    host.world.configuration = effective(kill_duration=1234.0) if found is None else found
    loop = Loop(host, effective(), host.start())
    host.world.at(200.0, lambda: host.signal("HUP"))
    return loop, host, manager


@pytest.mark.parametrize("fault", ["", "refuse", "garbage", "die", "hang", "spawn"])
def test_the_service_manager_hears_the_end(fault: str) -> None:
    """RELOADING without READY would leave the service *reloading* for ever, and the next reload would wait for it."""
    loop, _, manager = guard(Checks(fault))
    loop.run()
    assert manager.heard == ["RELOADING=1", "READY=1"]
    assert (loop.policy.kill_duration == 1234.0) == (fault == "")
    assert ("reload" in loop.journal.troubles) == (fault != "")


def test_a_second_reload_replaces_a_check_under_way() -> None:
    """The first check may have read the older file; it is ended, not left behind."""
    loop, host, manager = guard(FirstHangs("hang"))
    host.world.at(210.0, lambda: host.signal("HUP"))
    left: list[str] = []
    host.world.at(215.0, lambda: left.extend(type(child).__name__ for child in host.children.values()))
    host.world.at(301.0, lambda: host.signal("HUP"))
    loop.run()
    assert left.count("Configurer") == 1
    assert manager.heard == ["RELOADING=1", "RELOADING=1", "READY=1", "RELOADING=1", "READY=1"]
    assert loop.policy.kill_duration == 1234.0


def test_the_reader_follows_a_changed_host() -> None:
    """Where the machine's files are is the reader's affair: a new configuration of it needs a new reader."""
    found = effective()
    found["host"] = {**found["host"], "sysfs": "/host/sys"}
    loop, host, _ = guard(Faults(), found)
    jobs: list[dict[str, Any]] = []

    def look() -> None:
        jobs.extend(child.job for child in host.children.values() if type(child).__name__ == "Reader")

    for when in (150.0, 350.0):
        host.world.at(when, look)
    loop.run()
    assert [job["sysfs"] for job in jobs] == ["/sys", "/host/sys"]
    assert json.dumps(jobs[1]["counters"]) != "null"


def test_the_reader_stays_when_its_host_does() -> None:
    """A reload that changes other things costs no reading."""
    loop, _, _ = guard(Faults())
    loop.run()
    assert loop.gpu_side.reader.restarts == 0


@pytest.mark.parametrize(("found", "asked"), [("stop", [("stop", "live")]), ("command", [("command", "live")])])
def test_a_plan_that_waits_for_its_moment_does_not_outlive_its_configuration(
    found: str, asked: list[tuple[str, str]]
) -> None:
    """A check is put off to this machine's own moment: then nothing may be asked of an action that nobody configured."""
    rented = {"providers": ["simulated=none"], "cloud": {"spread": 12000.0}}
    plans = Plans(since=40.0)
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=4000.0, watch=plans)
    host.world.configuration = {**effective(mode="live", kill_action=found), **rented}
    loop = Loop(host, {**effective(mode="live", kill_action="stop"), **rented}, host.start())
    host.world.at(15.0, lambda: host.signal("HUP"))
    loop.run()
    assert plans.asked == asked


class DeliveryResult(Watch):
    """What people are told, and when it acts."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.acts: list[float] = []

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.kinds.append(message["kind"])

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acts.append(now.boot)


@pytest.mark.parametrize("changed", [False, True])
def test_a_reload_that_changes_nothing_leaves_a_countdown_alone(changed: bool) -> None:
    """Whoever asks for one twice, or a tool that asks each day, must not keep the machine up. Another channel is a change: it was not warned."""
    told = DeliveryResult()
    rules = effective(mode="live", kill_action="command", kill_duration=600.0, grace=600.0)
    host = SimHost(Machine(gpus=1, script=[Phase(300.0, 0.9)]), seed=3, until=1700.0, watch=told)
    host.world.configuration = {**rules, "notify": {**rules["notify"], "attempts": 7}} if changed else rules
    loop = Loop(host, rules, host.start())
    for at in (1000.0,) if changed else (500.0, 1000.0, 1100.0):
        host.world.at(at, lambda: host.signal("HUP"))
    loop.run()
    assert ("cancelled" in told.kinds) is changed
    assert bool(told.acts) is not changed


class PlanHangs(Checks):
    """A plan takes for ever."""

    def take(self, subject: str, host: SimHost) -> str:
        return "hang" if subject == "plan" else ""


def test_a_plan_under_way_ends_with_its_configuration() -> None:
    """What it finds out speaks of settings of before, and nobody waits for it."""
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=60.0, faults=PlanHangs("hang"))
    host.world.configuration = effective(mode="live", kill_action="command")
    loop = Loop(host, effective(mode="live", kill_action="shutdown"), host.start())
    left: list[str] = []
    for when in (5.0, 30.0):
        host.world.at(when, lambda: left.extend(child.job.get("action", "") for child in host.children.values()))
    host.world.at(6.0, lambda: host.signal("HUP"))
    loop.run()
    assert [action for action in left if action] == ["shutdown", "command"]
