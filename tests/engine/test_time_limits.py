"""Deadlines of one effect: the worker's parts, the worker, the guard and the engine never contradict each other.

Over all settings that the configuration admits; and every machine of a fleet gets its *Go*, however long each part takes.
"""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from costguard.agent.circumstances import Circumstances
from costguard.agent.jitter import Jitter
from costguard.agent.workers import Workers
from costguard.config.schema import Settings
from costguard.engine import Device, Devices, Known, Observation, Outcome, Policy, Tick, initial, step, time_limits
from costguard.engine.effects import Abandon, Check, Confirm, Go, Prepare, Save, Tell
from costguard.engine.plans import PREFLIGHT_EVERY_SECONDS
from costguard.engine.state import ACTING, WARNING
from tests.unit.agent.crew import begin, wrote

GPU = "0000:01:00.0"
QUIET = Observation((GPU,), (Known(0.0, (), 20.0, "quiet"),))
LONGEST_INTERVAL = 15.0
EPSILON_SECONDS = 0.01
WORD = {Tell: None, Check: "plan", Prepare: "act", Confirm: "confirm", Save: "hook"}


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """What an owner may write; each value is one that the schema takes."""
    action = draw(st.sampled_from(["stop", "terminate", "hibernate", "command", "shutdown"]))
    hook = {"pre_stop": ["save"]} if draw(st.booleans()) else {}
    return {
        "mode": "live",
        "kill_action": action,
        "interval": draw(st.floats(1.0, 15.0)),
        "grace": draw(st.sampled_from([0.0, 1.0, 60.0, 600.0, 3600.0, 86400.0])),
        "cloud": {"spread": draw(st.floats(0.0, 43200.0)), "action_spread": draw(st.floats(0.0, 1800.0))},
        "hooks": {**hook, "timeout": draw(st.floats(1.0, 180.0))},
        "actions": {"command": {"run": ["true"], "timeout": draw(st.floats(1.0, 3600.0))}},
    }


HARDEST = {
    "mode": "live", "kill_action": "stop", "interval": 15.0, "grace": 0.0,
    "cloud": {"spread": 43200.0, "action_spread": 1800.0}, "hooks": {"pre_stop": ["save"], "timeout": 180.0},
    "actions": {"command": {"run": ["true"], "timeout": 3600.0}},
}  # fmt: skip


def effective(written: dict[str, Any]) -> dict[str, Any]:
    """As the guard gets it; the schema has had its say."""
    found = TypeAdapter(Settings).validate_python(written).model_dump(mode="json")
    policy = {"mode": "live", "fallback": []}
    return {**found, "policy": policy, "providers": ["x=y"], "paths": {"runtime": "/run/x"}}


class Processes:
    """Of a host what the workers need: processes that take as long as they may."""

    def __init__(self) -> None:
        self.jobs: dict[int, dict[str, Any]] = {}
        self.released: list[int] = []

    def spawn(self, program: str, job: bytes) -> int:
        del program
        self.jobs[len(self.jobs) + 1] = json.loads(job)
        return len(self.jobs)

    def send(self, child: int, line: bytes) -> bool:
        del line
        self.released.append(child)
        return child in self.jobs

    def kill(self, child: int) -> None:
        del self.jobs[child]


def parts(job: dict[str, Any]) -> float:
    """What the worker of this job may take for all that it does, from its start: `costguard.actions` has these limits."""
    word, own = job.get("job"), float(job["deadline"])
    if word in {"plan", "act"}:
        own = min(own, time_limits.FACTS_SECONDS)
        own += time_limits.TAGS_SECONDS if word == "plan" else time_limits.RECORD_SECONDS
    own += time_limits.LOAD_SECONDS if word in {"plan", "act", "confirm"} else 0.0
    if word == "act" and job["hook"].get("pre_stop"):
        own += float(job["hook"]["timeout"])
    return time_limits.START_SECONDS + own


@given(configurations())
@example(HARDEST)
def test_no_limit_contradicts_another(written: dict[str, Any]) -> None:
    """The engine waits longer than the guard, the guard longer than the worker, the worker as long as its parts."""
    config, action = effective(written), written["kill_action"]
    host = Processes()
    workers = Workers(host, config, Jitter("dmi:1", attended=False))  # type: ignore[arg-type]  # three verbs of it
    effects: list[Tell | Check | Prepare | Confirm | Save] = [Tell("m", "warning", "warning", {}), Check("c", action)]
    effects += [Prepare("a", action, "i"), Confirm("f", "a", action, "i")]
    effects += [Save("s", action, 1e9)] if "pre_stop" in written["hooks"] else []
    lost: dict[type, float] = {Tell: time_limits.ANSWER_LOST_SECONDS, Confirm: time_limits.ANSWER_LOST_SECONDS}
    lost[Prepare] = time_limits.PREPARE_LOST_SECONDS - config["cloud"]["action_spread"]
    lost[Check] = PREFLIGHT_EVERY_SECONDS - config["cloud"]["spread"]
    for effect in effects:
        before = set(host.jobs)
        assert begin(workers, effect, 0.0) is None
        (child,) = set(host.jobs) - before
        killed = next(worker.task.deadline for worker in workers._running if worker.task.owns(child))
        assert host.jobs[child].get("job") == WORD[type(effect)]
        assert parts(host.jobs[child]) < killed, effect
        assert killed + LONGEST_INTERVAL < lost.get(type(effect), float("inf")), effect
    act = config["actions"].get(action, {}).get("timeout") or time_limits.ACTION_SECONDS
    limits = time_limits.act(act)
    assert (
        act + time_limits.RESULT_SECONDS <= limits.own < limits.killed < time_limits.ACT_LOST_SECONDS - LONGEST_INTERVAL
    )
    assert (
        time_limits.LEAD_SECONDS + time_limits.stale(written["grace"]) + LONGEST_INTERVAL
        < time_limits.READY_KILLED_SECONDS
    )
    assert (
        config["actions"]["shutdown"]["delay"] <= time_limits.DELAY_LONGEST_SECONDS < time_limits.HAPPENS_WITHIN_SECONDS
    )


class Life:
    """One machine with its engine and its guard's workers, whose processes take all the time that they have."""

    def __init__(self, written: dict[str, Any], name: str) -> None:
        config = effective(written)
        self.interval = float(written["interval"])
        own = {"interval": self.interval, "grace": min(600.0, written["grace"]), "kill_action": written["kill_action"]}
        calm = {"arm_duration": None, "kill_duration": 60.0, "boot_grace": 0.0, "unused_after": None}
        self.policy = Policy(mode="live", **own, **calm)  # type: ignore[arg-type]  # of mixed types
        self.host = Processes()
        self.moments = Jitter(name, attended=False)
        self.workers = Workers(self.host, config, self.moments)  # type: ignore[arg-type]  # as above
        self.state = initial("boot", name)
        self.now = 100_000.0
        self.due: list[tuple[float, int, bytes]] = []
        self.went: list[float] = []
        self.opened = 0.0
        self.outcomes: list[str] = []
        self.send(Devices(self.now, (Device(GPU, 0, "GPU-a", "H200"),)))

    def send(self, event: Any) -> None:
        """One step, and what it asks for."""
        self.state, effects, _ = step(self.state, event, self.policy)
        for effect in effects:
            match effect:
                case Tell() | Check():
                    good = {Tell: "delivered", Check: "go"}[type(effect)]
                    self.send(Outcome(self.now, effect.id, good))
                case Prepare():
                    self.take(self.workers.submit(effect, self.now, Circumstances(reason="idle")))
                    self.begun()
                case Go():
                    self.went.append(self.now)
                    self.take(self.workers.go(effect, self.now, Circumstances(reason="idle")))
                    (child,) = self.host.released[-1:]
                    within = time_limits.act(self.host.jobs[child]["deadline"]).own
                    said = b'{"outcome":{"status":"accepted","detail":"","proof":"p"}}'
                    self.due.append((self.now + within, child, said))
                case Abandon():
                    self.workers.abandon(effect.id)

    def take(self, outcome: Outcome | None) -> None:
        """What became of an effect."""
        if outcome is not None:
            self.outcomes.append(outcome.status)
            self.send(outcome)

    def begun(self) -> None:
        """Processes that are new: when they will be ready."""
        for child, job in self.host.jobs.items():
            if all(child != known for _, known, _ in self.due) and child not in self.host.released:
                ready = self.now + parts(job)
                self.due += [
                    (ready, child, b'{"plan":{"action":"stop","verdict":"go"}}'),
                    (ready, child, b'{"ready":true}'),
                ]

    def run(self, seconds: float) -> None:
        """Until it is asked what became of the request, or this time is over."""
        end = self.now + seconds
        while self.now < end and self.state.core.phase in {"WATCHING", WARNING, ACTING}:
            self.now += self.interval
            for entry in [entry for entry in self.due if entry[0] <= self.now]:
                if entry[1] in self.host.jobs:
                    self.take(wrote(self.workers, entry[1], entry[2], self.now))
            self.due = [entry for entry in self.due if entry[0] > self.now]
            for outcome in self.workers.late(self.now):
                self.take(outcome)
            while (waited := self.workers.take_due(self.now)) is not None:
                self.take(self.workers.start(waited, self.now, Circumstances(reason="idle")))
                self.begun()
            self.send(Tick(self.now, QUIET, 1.7e9 + self.now, 0.0, True))
            if not self.opened and self.state.core.phase == WARNING:
                self.opened = self.now


@given(configurations(), st.integers(0, 10**6))
@example(HARDEST, 45)
def test_every_machine_gets_its_go(written: dict[str, Any], number: int) -> None:
    """At its first attempt, no later than its part of the wait, its hook and its plan take; and nobody ends it on the way."""
    life = Life(written, f"aws:i-{number:017x}")
    life.run(4 * 3600.0)
    wait = written["cloud"]["action_spread"] if written["kill_action"] in {"stop", "terminate", "hibernate"} else 0.0
    hook = written["hooks"]["timeout"] if "pre_stop" in written["hooks"] else 0.0
    latest = life.opened + life.policy.grace + wait + time_limits.prepare(hook).own + 4 * life.interval
    assert len(life.went) == 1
    assert life.went[0] <= latest
    assert life.outcomes == ["ready", "accepted"]


@pytest.mark.parametrize("number", range(40))
def test_the_longest_wait_leaves_out_no_machine(number: int) -> None:
    """Forty machines with every setting at its longest: each acts at its first attempt."""
    life = Life(HARDEST, f"aws:i-{number:017x}")
    life.run(4 * 3600.0)
    assert life.outcomes == ["ready", "accepted"]


@pytest.mark.parametrize(
    ("section", "option", "longest"),
    [("cloud", "spread", 12 * 3600), ("cloud", "action_spread", 1800), ("hooks", "timeout", 180)],
)
def test_what_would_not_fit_is_refused(section: str, option: str, longest: int) -> None:
    """The configuration admits nothing for which the engine would not wait."""
    TypeAdapter(Settings).validate_python({section: {option: longest}})
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Settings).validate_python({section: {option: longest + 1}})
    assert caught.value.errors()[0]["loc"] == (section, option)


def test_a_burst_while_the_worker_waits_for_its_moment_takes_nothing_back() -> None:
    """A burst that the window tolerates is over when the worker is ready: people are not warned anew for it."""
    policy = Policy(
        mode="live",
        arm_duration=None,
        kill_duration=3600.0,
        grace=60.0,
        boot_grace=0.0,
        unused_after=None,
        window_share=0.05,
    )
    state, told, at, busy = initial("boot", "dmi:1"), [], 1000.0, Observation((GPU,), (Known(0.9, (), 20.0, "busy"),))
    state, _, _ = step(state, Devices(at, (Device(GPU, 0, "GPU-a", "H200"),)), policy)
    prepared = ""
    while at < 1000.0 + 3600.0 + 1500.0:
        at += 10.0
        burst = 300.0 < at - 1000.0 - 3600.0 - 60.0 < 330.0
        events: list[Any] = [Tick(at, busy if burst else QUIET, 1.7e9 + at, 0.0, True)]
        while events:
            state, effects, _ = step(state, events.pop(0), policy)
            for effect in effects:
                if isinstance(effect, Tell):
                    told.append(effect.kind)
                    events.append(Outcome(at, effect.id, "delivered"))
                if isinstance(effect, Prepare):
                    prepared = effect.id
                if isinstance(effect, Go):
                    told.append("go")
        if at >= 1000.0 + 3600.0 + 1200.0 and prepared:
            state, _, _ = step(state, Outcome(at, prepared, "ready"), policy)
            prepared = ""
    assert [kind for kind in told if kind in {"warning", "cancelled", "go"}] == ["warning", "go"]
