"""The one line that people read, in every situation: state, cause, next step."""

import time
from collections.abc import Callable, Iterator

import pytest

from costguard.engine import Device, Devices, Known, Policy, Reading, Veto
from costguard.engine.effects import Go, Prepare
from costguard.engine.narrate import DETAIL_CHARACTERS, _brief
from costguard.engine.wording import start_after
from costguard.engine.words import clock, duration, hanging, percent, several
from tests.engine.test_acting import IDLE, until
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World

TASK = IDLE._replace(kill_action="command")


def after(seconds: float, *readings: object, policy: Policy = BASE, **more: object) -> World:
    """A machine after so long of the same."""
    world = World(policy, len(readings), checked=False)
    for name, value in more.items():
        setattr(world, name, value)
    world.run(seconds, *readings)  # type: ignore[arg-type]  # readings
    return world


POWER = Known(0.0, ("power 30 W above idle",), 60.0)


def later(world: World, seconds: float, *readings: object) -> World:
    """The readings are others from now on."""
    world.run(seconds, *readings)  # type: ignore[arg-type]  # readings
    return world


def named(world: World, gpus: int, model: str = "H100") -> World:
    """The readers learn what the GPUs are called."""
    listed = tuple(Device(key, i, f"GPU-{i}", model) for i, key in enumerate(world.keys[:gpus]))
    world.send(Devices(world.now, listed))
    world.tick()
    return world


def held(world: World, *owners: str) -> World:
    for number, owner in enumerate(owners, start=1):
        world.hold(number * 3600.0, owner)
    world.tick()
    return world


def asked(world: World) -> World:
    world.ask_stop("ann")
    world.tick()
    return world


def answer(world: World, kind: type, status: str, detail: str) -> None:
    """Of everything that waits for an answer one kind gets this one."""
    for identity, effect in list(world.pending.items()):
        if isinstance(effect, kind):
            world.answer(identity, status, detail=detail)
    world.settle()


def refused(world: World) -> World:
    while world.phase() != "DONE":
        world.tick(*world.readings)
        answer(world, Prepare, "refuse", "the right is missing")
    return world


def failed(world: World) -> World:
    while world.phase() != "FAILED":
        world.tick(*world.readings)
        answer(world, Prepare, "failed", "no room for a process")
    return world


def nobody(world: World, tries: int) -> World:
    """A warning that nobody got."""
    world = until(world, "WARNING")
    for _ in range(tries):
        while not any(getattr(e, "kind", "") == "warning" for e in world.pending.values()):
            world.tick()
        world.settle(Tell="failed")
    world.tick()
    return world


def _used_up() -> World:
    world = World(IDLE._replace(hold_total=200.0, hold_per_user=200.0), 1, checked=False)
    world.hold(200.0)
    world.run(330.0, QUIET)
    return world


def unready(policy: Policy) -> World:
    """The countdown is over, or nearly, and the worker is not ready."""
    world = until(World(policy, 1, checked=False), "WARNING")
    while world.now < 370.0:
        world.settle(Prepare="never")
        world.tick(QUIET)
    return world


def last_second(left: float = 1.0, *, answer: str = "ready") -> World:
    """So long before the end of the countdown, to the second."""
    world = until(World(IDLE, 1), "WARNING")
    for identity in list(world.pending):
        world.answer(identity, "delivered", after=0.0)
    world.tick(QUIET)
    world.settle(Prepare=answer)
    world.run(40.0, QUIET, answer=False)
    world.tick(dt=10.0 - left)
    return world


def second_try() -> World:
    """Of telling the warning, on its way."""
    world = nobody(World(IDLE, 1), 1)
    while not any(getattr(e, "kind", "") == "warning" for e in world.pending.values()):
        world.tick()
    return world


def until_dark(world: World) -> World:
    world.run(20.0, DARK)
    return world


NEAR = Veto("host", "bob types at pts/3")
TYPED = Veto("terminals", "ann on pts/3 typed", sense=True, lets_go="30 min without input")
BLIND = Veto("probe", "cannot be seen: exit code 3", sense=True, unknown=True)
HATCH = Veto("tag", "costguard-hold is set", hatch=True)
DUE = BASE._replace(lifetime=1000.0)
MERCILESS = DUE._replace(stop_busy=True)

STORIES: dict[str, Callable[[], World]] = {
    "nothing read yet": lambda: after(10.0, policy=BASE),
    "starting": lambda: after(30.0, QUIET, policy=BASE._replace(boot_grace=1200.0)),
    "waiting for work": lambda: after(100.0, QUIET, QUIET),
    "waiting for work for ever": lambda: after(100.0, QUIET, policy=BASE._replace(unused_after=None)),
    "working": lambda: after(200.0, BUSY, QUIET),
    "working, all eight": lambda: after(200.0, *[BUSY] * 8),
    "working, three of eight": lambda: named(after(200.0, *[BUSY] * 3, *[QUIET] * 5), 8),
    "a mean above": lambda: after(200.0, BUSY, QUIET, policy=TASK._replace(aggregate="mean")),
    "a mean below": lambda: after(200.0, Known(0.04), QUIET, policy=TASK._replace(aggregate="mean")),
    "any, one of two idle": lambda: after(100.0, BUSY, QUIET, policy=TASK._replace(aggregate="any")),
    "any, none idle": lambda: after(100.0, BUSY, BUSY, policy=TASK._replace(aggregate="any")),
    "idle": lambda: named(after(100.0, QUIET, QUIET, QUIET, policy=IDLE), 3),
    "idle, dry run": lambda: after(100.0, QUIET, policy=IDLE._replace(mode="dry-run")),
    "idle, at once": lambda: after(100.0, QUIET, policy=IDLE._replace(grace=0.0)),
    "idle, higher threshold": lambda: after(100.0, QUIET, QUIET, policy=IDLE._replace(kill_threshold=0.15)),
    "unknown": lambda: named(after(100.0, DARK, QUIET, policy=IDLE), 2),
    "unknown, never armed": lambda: after(100.0, DARK),
    "unknown, which worked": lambda: later(after(200.0, BUSY, QUIET), 100.0, DARK, QUIET),
    "a weak sign alone": lambda: later(after(200.0, BUSY, QUIET), 400.0, POWER, QUIET),
    "a name that fits none": lambda: named(after(100.0, QUIET, policy=IDLE._replace(gpu_devices=("0", "9"))), 1),
    "names that fit none of many": lambda: named(
        after(100.0, *[QUIET] * 9, policy=IDLE._replace(gpu_devices=("77", "78"))), 9
    ),
    "a veto": lambda: after(100.0, QUIET, policy=IDLE, vetoes=(NEAR,)),
    "a veto, and a deadline before": lambda: after(100.0, QUIET, policy=IDLE._replace(lifetime=200.0), vetoes=(NEAR,)),
    "a sense": lambda: after(100.0, QUIET, policy=IDLE._replace(mode="dry-run"), vetoes=(TYPED, BLIND)),
    "a sense, and a deadline after": lambda: after(
        330.0, QUIET, policy=IDLE._replace(lifetime=1000.0), vetoes=(TYPED,)
    ),
    "a veto, and a deadline after": lambda: after(330.0, QUIET, policy=IDLE._replace(lifetime=1000.0), vetoes=(NEAR,)),
    "an escape hatch": lambda: after(100.0, QUIET, policy=IDLE, vetoes=(HATCH, NEAR)),
    "the administrator": lambda: after(100.0, QUIET, policy=IDLE._replace(admin_hold="exam week")),
    "held": lambda: held(after(100.0, QUIET, policy=IDLE), "ann", "bob"),
    "announced": lambda: _noticed(after(100.0, QUIET, policy=IDLE)),
    "a deadline ahead": lambda: after(100.0, BUSY, policy=DUE),
    "a deadline has passed": lambda: after(1200.0, BUSY, policy=DUE),
    "a deadline, dry run": lambda: after(1200.0, BUSY, policy=DUE._replace(mode="dry-run")),
    "a deadline and rest": lambda: _rested(after(1200.0, BUSY, policy=DUE)),
    "being warned": lambda: until(World(IDLE, 1), "WARNING"),
    "nobody got it yet": lambda: nobody(World(IDLE, 1), 1),
    "nobody got it": lambda: nobody(World(IDLE, 1), 3),
    "counting down": lambda: after(330.0, QUIET, policy=IDLE),
    "counting down, dry run": lambda: after(330.0, QUIET, policy=IDLE._replace(mode="dry-run")),
    "counting down, any": lambda: after(330.0, BUSY, QUIET, policy=TASK._replace(aggregate="any")),
    "counting down, mean": lambda: after(330.0, QUIET, QUIET, policy=TASK._replace(aggregate="mean")),
    "counting down, holds used up": _used_up,
    "counting down, not ready yet": lambda: unready(IDLE),
    "counting down, the last second": last_second,
    "counting down after a failure": lambda: last_second(answer="failed"),
    "counting down, over after a failure": lambda: last_second(0.0, answer="failed"),
    "counting down, over and not ready": lambda: last_second(0.0, answer="never"),
    "nobody got it yet, and it is sent again": second_try,
    "two vetoes": lambda: after(100.0, QUIET, policy=IDLE, vetoes=(NEAR, Veto("jupyter", "a kernel is busy"))),
    "a name that fits none of eight": lambda: named(
        after(100.0, *[QUIET] * 8, policy=IDLE._replace(gpu_devices=("77",))), 8
    ),
    "a deadline passes": lambda: after(1000.0, BUSY, policy=DUE),
    "counting down, at once": lambda: unready(IDLE._replace(grace=0.0)),
    "counting down, dry run, at once": lambda: until(World(IDLE._replace(grace=0.0, mode="dry-run"), 1), "WARNING"),
    "counting down to the end of boot grace": lambda: after(460.0, QUIET, policy=IDLE._replace(boot_grace=500.0)),
    "being warned at once": lambda: until(World(TASK._replace(grace=0.0), 1), "WARNING"),
    "failed, and held": lambda: held(failed(after(100.0, QUIET, policy=IDLE)), "ann", "bob", "eve"),
    "unknown, two of three": lambda: after(100.0, DARK, QUIET, DARK, policy=IDLE),
    "unknown, a deadline": lambda: until_dark(after(1010.0, QUIET, policy=DUE._replace(unused_after=None))),
    "unused and idle, the sooner": lambda: after(
        100.0, QUIET, policy=BASE._replace(arm_duration=0.0, unused_after=50.0)
    ),
    "a lease far away": lambda: after(100.0, BUSY, policy=IDLE._replace(lease_until=EPOCH + 90000.0)),
    "work, selected of two": lambda: named(after(100.0, QUIET, BUSY, policy=TASK._replace(gpu_devices=("1",))), 2),
    "a deadline ahead, whatever works": lambda: after(100.0, BUSY, policy=MERCILESS),
    "counting down, whatever works": lambda: after(1030.0, BUSY, policy=MERCILESS),
    "counting down, whatever works, over after a failure": lambda: _tried(
        until(World(MERCILESS._replace(grace=0.0, lifetime=400.0), 1), "WARNING")
    ),
    "a person asked": lambda: asked(after(100.0, BUSY)),
    "acting": lambda: until(World(IDLE, 1), "ACTING"),
    "confirming": lambda: until(World(IDLE, 1), "CONFIRMING"),
    "asking": lambda: _asking(until(World(IDLE, 1), "ACTING")),
    "a person's stop is tried again": lambda: _tried(asked(after(100.0, BUSY))),
    "tried again": lambda: _tried(until(World(IDLE._replace(grace=0.0), 1), "WARNING")),
    "refused": lambda: refused(after(100.0, QUIET, policy=IDLE)),
    "would have": lambda: until(World(IDLE._replace(mode="dry-run"), 1), "DONE"),
    "failed": lambda: failed(after(100.0, QUIET, policy=IDLE)),
    "failed for a person": lambda: failed(asked(after(100.0, BUSY))),
}


def _noticed(world: World) -> World:
    world.notice(120.0)
    world.tick()
    return world


def _rested(world: World) -> World:
    world.run(100.0, QUIET)
    return world


def _asking(world: World) -> World:
    answer(world, Go, "unknown", "the network broke")
    world.tick()
    return world


def _tried(world: World) -> World:
    while world.state.core.incident and not world.state.core.incident.attempt.failures:
        answer(world, Prepare, "failed", "no room for a process")
        world.tick()
    return world


def sentence(world: World) -> str:
    """What people read now."""
    assert world.last is not None
    return str(world.last.sentence)


# ---- table

SENTENCES = {
    "nothing read yet": "STARTING: no GPU has been read yet; no stop until every GPU can be read.",
    "starting": "STARTING: the GPU quiet for 30s; warning at 22:32 UTC (unused for 15m), stop 1m later, unless work is seen.",
    "waiting for work": "IDLE: both GPUs quiet for 1m 40s; warning at 22:28 UTC (unused for 15m), stop 1m later, unless work is seen.",
    "waiting for work for ever": "IDLE: the GPU quiet for 1m 40s; waiting for load above 5 % for 30s; until then nothing is stopped.",
    "working": "ARMED: 0000:00:00.0 is busy; work is never stopped; stop needs 5m below 5 %.",
    "working, all eight": "ARMED: 0000:00:00.0, 0000:01:00.0 and 6 more are busy; work is never stopped; stop needs 5m below 5 %.",
    "working, three of eight": "ARMED: GPU 0, GPU 1 and 1 more are busy; work is never stopped; stop needs 5m below 5 %.",
    "a mean above": "ARMED: the mean of the GPUs is not below 5 %; work is never stopped; the command needs 5m below 5 %.",
    "a mean below": "ARMED: the mean of the GPUs is below 5 % for 3m 20s; warning at 22:18 UTC (idle for 5m), the command 1m later, unless the mean of the GPUs reaches 5 %.",
    "any, one of two idle": "ARMED: 0000:01:00.0 below 5 % for 1m 40s; warning at 22:18 UTC (idle for 5m), the command 1m later, unless every GPU is busy.",
    "any, none idle": "ARMED: 0000:00:00.0 and 0000:01:00.0 are busy; work is never stopped; the command needs 5m below 5 %.",
    "idle": "ARMED: all 3 GPUs quiet for 1m 50s; warning at 22:18 UTC (idle for 5m), stop 1m later, unless work is seen.",
    "idle, dry run": "ARMED: the GPU quiet for 1m 40s; DRY RUN: warning at 22:18 UTC (idle for 5m), stop 1m later, unless work is seen.",
    "idle, at once": "ARMED: the GPU quiet for 1m 40s; warning at 22:18 UTC (idle for 5m), stop at once, unless work is seen.",
    "idle, higher threshold": "ARMED: both GPUs below 15 % for 1m 40s; warning at 22:18 UTC (idle for 5m), stop 1m later, unless work is seen.",
    "unknown": "ARMED: GPU 0 cannot be read for 1m 50s, and unknown is never idle; no stop until every GPU can be read.",
    "unknown, never armed": "IDLE: 0000:00:00.0 cannot be read for 1m 40s, and unknown is never idle; no stop until every GPU can be read.",
    "unknown, which worked": "ARMED: 0000:00:00.0 cannot be read for 1m 40s, and unknown is never idle; no stop until every GPU can be read.",
    "a weak sign alone": "ARMED: 0000:00:00.0 shows only a weak sign of work, and no load; it may be hidden work, so no stop; stop needs 5m without it.",
    "a name that fits none": "ARMED: no GPU matches 9 in gpu_devices; there is 0; no stop until every name in gpu_devices matches a GPU.",
    "names that fit none of many": "ARMED: no GPU matches 77 or 78 in gpu_devices; there are 0, 1, … 8; no stop until every name in gpu_devices matches a GPU.",
    "a veto": "ARMED: host: bob types at pts/3; warning at 22:18 UTC at the earliest (idle for 5m, and nothing else keeps it up), stop 1m later, unless work is seen.",
    "a veto, and a deadline before": "ARMED: host: bob types at pts/3; warning at 22:16 UTC (the deadline), stop 1m later, unless work is seen.",
    "a sense": "ARMED: ann on pts/3 typed (and 1 more); DRY RUN: warning at 22:18 UTC at the earliest (idle for 5m, and nothing else keeps it up), stop 1m later, unless work is seen.",
    "a sense, and a deadline after": "ARMED: ann on pts/3 typed; kept up until 30 min without input or 22:30 UTC (the deadline), then warning and stop 1m later.",
    "a veto, and a deadline after": "ARMED: host: bob types at pts/3; kept up until 22:30 UTC (the deadline), then warning and stop 1m later.",
    "an escape hatch": "HELD: host: bob types at pts/3; tag: costguard-hold is set.",
    "the administrator": "HELD: the GPU quiet for 1m 40s; the administrator holds it: exam week.",
    "held": "HELD: the GPU quiet for 1m 50s; held by bob and 1 other until 00:15 UTC.",
    "announced": "HELD: the GPU quiet for 1m 50s; the cloud has announced that it will reclaim or interrupt this machine.",
    "a deadline ahead": "ARMED: 0000:00:00.0 is busy; warning at 22:30 UTC (the deadline), stop 1m later, unless work is seen.",
    "a deadline has passed": "ARMED: 0000:00:00.0 is busy; the deadline has passed; warning once no work was seen for 5m, stop 1m later.",
    "a deadline, dry run": "ARMED: 0000:00:00.0 is busy; the deadline has passed; DRY RUN: warning once no work was seen for 5m, stop 1m later.",
    "a deadline and rest": "ARMED: the GPU quiet for 1m 40s; warning at 22:38 UTC (the deadline), stop 1m later, unless work is seen.",
    "being warned": "WARNING: the GPU quiet for 5m; the warning is being sent; stop 1m after that.",
    "nobody got it yet": "WARNING: the GPU quiet for 5m 10s; the warning has reached nobody yet (try 1 of 3); stop 1m after that.",
    "nobody got it": "WARNING: the GPU quiet for 6m; stop in 50s, at 22:20 UTC, unless work returns or somebody runs `costguard hold 2h`; the warning reached nobody in 3 tries; the countdown goes on anyway.",
    "counting down": "WARNING: the GPU quiet for 5m 30s; stop in 30s, at 22:19 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "counting down, dry run": "WARNING: the GPU quiet for 5m 30s; DRY RUN: stop would come in 30s, at 22:19 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "counting down, any": "WARNING: 0000:01:00.0 below 5 % for 5m 30s; the command in 30s, at 22:19 UTC, unless every GPU is busy or somebody runs `costguard hold 2h`.",
    "counting down, mean": "WARNING: the mean of the GPUs is below 5 % for 5m 30s; the command in 30s, at 22:19 UTC, unless the mean of the GPUs reaches 5 % or somebody runs `costguard hold 2h`.",
    "counting down, holds used up": "WARNING: the GPU quiet for 5m 30s; stop in 30s, at 22:19 UTC, unless work returns or root runs `costguard hold 2h`.",
    "counting down, not ready yet": "WARNING: the GPU quiet for 6m 10s; stop as soon as it is ready, unless work returns or somebody runs `costguard hold 2h`.",
    "counting down, the last second": "WARNING: the GPU quiet for 5m 59s; stop in 1s, at 22:19 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "counting down after a failure": "WARNING: the GPU quiet for 5m 59s; stop in 1s, at 22:19 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "counting down, over after a failure": "WARNING: the GPU quiet for 6m; stop failed and will be retried unless work is seen.",
    "counting down, over and not ready": "WARNING: the GPU quiet for 6m; stop as soon as it is ready, unless work returns or somebody runs `costguard hold 2h`.",
    "nobody got it yet, and it is sent again": "WARNING: the GPU quiet for 5m 20s; the warning has reached nobody yet (try 2 of 3); stop 1m after that.",
    "two vetoes": "ARMED: host: bob types at pts/3; warning at 22:18 UTC at the earliest (idle for 5m, and nothing else keeps it up), stop 1m later, unless work is seen.",
    "a name that fits none of eight": "ARMED: no GPU matches 77 in gpu_devices; there are 0, 1, 2, 3, 4, 5, 6, 7; no stop until every name in gpu_devices matches a GPU.",
    "a deadline passes": "ARMED: 0000:00:00.0 is busy; the deadline has passed; warning once no work was seen for 5m, stop 1m later.",
    "counting down, at once": "WARNING: the GPU quiet for 6m 10s; stop as soon as it is ready.",
    "counting down, dry run, at once": "WARNING: the GPU quiet for 5m; DRY RUN: stop would come as soon as it is ready.",
    "counting down to the end of boot grace": "WARNING: the GPU quiet for 7m 40s; stop in 40s, at 22:21 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "being warned at once": "WARNING: the GPU below 5 % for 5m; the command as soon as it is ready.",
    "failed, and held": "FAILED: the GPU quiet for 7m 30s; stop FAILED (no room for a process); THE BILL GOES ON; next try at 23:20 UTC (held by eve).",
    "unknown, two of three": "ARMED: 0000:00:00.0 and 0000:02:00.0 cannot be read for 1m 40s, and unknown is never idle; no stop until every GPU can be read.",
    "unknown, a deadline": "WARNING: 0000:00:00.0 cannot be read for 20s, and the deadline has passed; stop in 30s, at 22:31 UTC, unless work returns or somebody runs `costguard hold 2h`.",
    "unused and idle, the sooner": "ARMED: the GPU quiet for 1m 40s; warning at 22:18 UTC (idle for 5m), stop 1m later, unless work is seen.",
    "a lease far away": "ARMED: 0000:00:00.0 is busy; warning at 2023-11-15 23:13 UTC (the deadline), stop 1m later, unless work is seen.",
    "work, selected of two": "ARMED: GPU 1 is busy; work is never stopped; the command needs 5m below 5 %.",
    "a deadline ahead, whatever works": "ARMED: 0000:00:00.0 is busy; warning at 22:30 UTC (the deadline), stop 1m later.",
    "counting down, whatever works": "WARNING: 0000:00:00.0 is busy; stop in 30s, at 22:31 UTC, unless somebody runs `costguard hold 2h`.",
    "counting down, whatever works, over after a failure": "WARNING: the GPU quiet for 7m; stop failed (no room for a process) and will be retried.",
    "a person asked": "WARNING: 0000:00:00.0 is busy; ann asked for it: stop as soon as it is ready; `costguard hold 2h` cancels it.",
    "acting": "ACTING: the GPU quiet for 6m 10s; stop was requested and is under way.",
    "confirming": "CONFIRMING: the GPU quiet for 6m 10s; stop was requested; waiting for confirmation.",
    "asking": "CONFIRMING: the GPU quiet for 6m 20s; stop was requested; checking the outcome.",
    "a person's stop is tried again": "WARNING: 0000:00:00.0 is busy; ann asked for it: stop failed (no room for a process) and will be retried; `costguard hold 2h` cancels it.",
    "tried again": "WARNING: the GPU quiet for 5m 20s; stop failed (no room for a process) and will be retried unless work is seen.",
    "refused": "DONE: the GPU quiet for 5m 10s; stop cannot be carried out (the right is missing); watching resumes when work is seen.",
    "would have": "DONE: the GPU quiet for 6m 10s; DRY RUN: stop would have been carried out; watching resumes when work is seen.",
    "failed": "FAILED: the GPU quiet for 7m 20s; stop FAILED (no room for a process); THE BILL GOES ON; next try at 23:20 UTC.",
    "failed for a person": "FAILED: 0000:00:00.0 is busy; stop FAILED (no room for a process); THE BILL GOES ON; given up: run `costguard stop` again.",
}


@pytest.fixture
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_utc")
@pytest.mark.parametrize("name", STORIES)
def test_each_situation_has_its_sentence(name: str) -> None:
    """Whoever changes a word reads all of them again."""
    assert sentence(STORIES[name]()) == SENTENCES[name]


@pytest.mark.parametrize(
    "name",
    [
        "working",
        "idle",
        "unknown",
        "a mean below",
        "a veto",
        "held",
        "counting down",
        "failed",
        "would have",
    ],
)
def test_a_sentence_that_goes_on_is_worth_one_line_of_the_log(name: str) -> None:
    """Its numbers change with every look, and its key does not."""
    world = STORIES[name]()
    keys, lines = set(), set()
    for _ in range(3):
        keys.add(world.tick(dt=1.0).sentence.key)
        lines.add(sentence(world))
    assert len(keys) == 1
    assert len(lines) == 3 or name in {"held", "working", "failed", "would have", "a veto"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0s"), (-5.0, "0s"), (59.4, "59s"), (60.0, "1m"), (75.0, "1m 15s"), (599.0, "9m 59s"), (600.0, "10m"),
        (659.0, "10m"), (3599.0, "59m"), (3600.0, "1h"), (3661.0, "1h 1m"), (5400.0, "1h 30m"), (86399.0, "23h 59m"),
        (86400.0, "1d"), (90061.0, "1d 1h"), (172800.0, "2d"), (176400.0, "2d 1h"), (86460.0, "1d 1m"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(seconds: float, words: str) -> None:
    """From ten minutes on without seconds."""
    assert duration(seconds) == words


@pytest.mark.usefixtures("_utc")
@pytest.mark.parametrize(
    ("ahead", "words"),
    [(0.0, "22:13 UTC"), (43199.0, "10:13 UTC"), (43200.0, "2023-11-15 10:13 UTC"), (-43200.0, "2023-11-14 10:13 UTC")],
)
def test_a_moment_far_away_has_its_date(ahead: float, words: str) -> None:
    """Half a day ahead or back a time of day alone could be that of another day."""
    assert clock(EPOCH + ahead, EPOCH) == words
    assert clock(EPOCH + ahead) == words[-9:]


def test_numbers_as_people_read_them() -> None:
    """Shares and counts."""
    assert [percent(share) for share in (0.05, 0.7, 0.123456, 1.0)] == ["5 %", "70 %", "12.3 %", "100 %"]
    assert [several(count, "GPU") for count in (0, 1, 2)] == ["0 GPUs", "1 GPU", "2 GPUs"]
    assert hanging(1) == "1 reader hangs in the driver and cannot be killed"
    assert hanging(2) == "2 readers hang in the driver and cannot be killed"


def test_a_countdown_promises_nothing_that_unknown_forbids() -> None:
    """Unknown blocks the stop: the sentence says so beside its time."""
    world = until(World(IDLE._replace(grace=300.0), 1), "WARNING")
    world.run(60.0, DARK)
    assert world.phase() == "WARNING"
    assert "if every GPU can be read by then" in sentence(world)


@pytest.mark.parametrize(
    ("left", "readings", "vetoes", "words"),
    [
        (0.0, QUIET, (BLIND,), "; stop once probe can be seen, unless work returns or"),
        (0.0, QUIET, (BLIND, BLIND, BLIND._replace(source="ssh")), "; stop once probe and ssh can be seen, unless"),
        (0.0, DARK, (BLIND,), "; stop once every GPU can be read and probe can be seen, unless work returns or"),
        (0.0, DARK, (), "; stop once every GPU can be read, unless work returns or"),
        (5.0, QUIET, (BLIND,), "; stop in 5s, at 22:19 UTC, if probe can be seen by then, unless work returns or"),
    ],
)
def test_a_countdown_names_what_must_be_seen_first(
    left: float, readings: Reading, vetoes: tuple[Veto, ...], words: str
) -> None:
    """A sense without which nothing acts blocks the action as a GPU does: it waits for more than to be ready."""
    world = last_second(10.0)
    world.vetoes = vetoes
    world.tick(readings, dt=10.0 - left)
    assert world.phase() == "WARNING"
    assert words in sentence(world)


def test_a_countdown_of_what_cannot_be_read_does_not_wait_for_that() -> None:
    """The owner wants it stopped because no GPU can be read."""
    policy = BASE._replace(unknown_stop_after=600.0, unused_after=None)
    world = World(policy, 1, checked=False)
    world.quiet_host = True
    while world.phase() != "WARNING":
        world.tick(DARK)
    world.run(20.0, DARK)
    assert "by then" not in sentence(world)


def test_a_lease_that_does_not_count_is_not_promised() -> None:
    """While the date is known to be wrong, it stops nothing, is not shown, and cannot be moved."""
    world = World(IDLE._replace(lease_until=EPOCH + 86400.0, unused_after=None), 1)
    for synced in (True, False):
        for _ in range(6):
            world.tick(BUSY, synced=synced)
        shown = sentence(world)
        assert ("until" in shown or "deadline" in shown) is synced, shown


def test_a_command_that_failed_is_no_word_about_the_bill() -> None:
    """Nobody knows whether it would have ended it."""
    world = until(World(TASK, 1), "FAILED", Go="failed")
    assert "command FAILED" in sentence(world)
    assert "BILL" not in sentence(world)


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    """As much of each, and as much as there is room for."""
    text = "a" * DETAIL_CHARACTERS + "b" * DETAIL_CHARACTERS
    assert _brief(text) == f"{text[: DETAIL_CHARACTERS // 2]} … {text[-DETAIL_CHARACTERS // 2 :]}"
    assert _brief(text[:DETAIL_CHARACTERS]) == text[:DETAIL_CHARACTERS]


@pytest.mark.parametrize(
    ("action", "said", "command"),
    [
        ("stop", {"start": "cloud start", "resume": "cloud resume"}, "cloud start"),
        ("hibernate", {"start": "cloud start", "resume": "cloud resume"}, "cloud resume"),
        ("hibernate", {"start": "cloud start"}, "cloud start"),
        ("stop", {}, ""),
        ("terminate", {"start": "cloud start"}, ""),
    ],
)
def test_how_to_start_the_machine_again(action: str, said: dict[str, str], command: str) -> None:
    """As the cloud says it; nothing starts what is gone."""
    assert start_after(action, said.get) == command
