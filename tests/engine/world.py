"""A machine in the small: a clock, GPUs, a shell that answers effects, and the monitor that watches them."""

import json
from collections.abc import Iterable
from typing import Any

from costguard.engine import (
    AskHold,
    AskRelease,
    AskStop,
    Began,
    Device,
    Devices,
    Event,
    Known,
    Notice,
    Observation,
    Outcome,
    Policy,
    Reading,
    State,
    Step,
    Tick,
    Unknown,
    Veto,
    initial,
    step,
)
from costguard.engine.effects import Abandon, Check, Confirm, Effect, Go, Leave, Prepare, Tell
from costguard.engine.saved import Commitments, commitments, dump, load
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING
from costguard.process.wire import from_line, to_line
from tests.engine.monitor import Monitor

QUIET = Known(0.0)
BUSY = Known(0.9)
DARK = Unknown("NVML said 999")
EPOCH = 1.7e9

BASE = Policy(
    mode="live",
    kill_duration=300.0,
    grace=60.0,
    boot_grace=120.0,
    unused_after=900.0,
    unknown_alarm=120.0,
    arm_duration=30.0,
)
"""The defaults, with times short enough to play through."""

ANSWERS: dict[type, tuple[str, ...]] = {
    Tell: ("delivered", "failed"),
    Check: ("go", "consequences", "another", "refuse", "failed"),
    Prepare: ("saving", "ready", "another", "refuse", "failed"),
    Go: ("accepted", "done", "failed", "refused", "unknown"),
    Confirm: ("done", "accepted", "pending", "failed", "refused", "unknown"),
}
HEALTHY = {Tell: "delivered", Check: "go", Prepare: "ready", Go: "accepted", Confirm: "accepted"}


def same(state: State) -> State:
    """All but the forecast, which a tick that is let pass does not make anew."""
    return state._replace(core=state.core._replace(unchanged_until=0.0))


def reloaded(state: State) -> State:
    """What a restart would find."""
    return load(json.loads(json.dumps(dump(state), allow_nan=False)))


def no_wish_just_disappears(before: State, done: Step) -> None:
    """A person's stop that has not been released is told when it ends, under its own incident."""
    was, now = before.core.incident, done.state.core.incident
    if was is None or was.reason != "person" or before.core.phase != "WARNING":
        return
    if now is None or now.id != was.id or done.state.core.phase in {"DONE", "FAILED"}:
        told = {e.kind for e in done.effects if isinstance(e, Tell) and e.facts.get("incident") == was.id}
        assert told & {"cancelled", "came_back", "failed", "cannot", "would_act", "done"}, "a person's stop disappeared"
        assert done.state.core.stop_request is not None
        assert done.state.core.stop_request.fate, "whoever waits for it is not told"


def each_phase_has_what_belongs_to_it(state: State, *, ticked: bool) -> None:
    """No phase keeps what another one left behind, and none lacks that by which it goes on."""
    core, now = state.core, state.core.incident
    if core.fresh_start in {"boot", "lost"}:
        return  # what an earlier guard left is closed by the first tick
    phase, never = core.phase, float("inf")
    assert (core.ending.done != "") is (phase == DONE)
    assert (core.ending.retry_at < never) is (phase == FAILED)
    assert (now is not None) is (phase != WATCHING)
    if phase not in {DONE, FAILED}:
        assert core.ending.remind_at == never
    elif core.ending.done not in {"acted", "would"}:
        assert core.ending.remind_at < never, "nobody is reminded"
    assert phase != DONE or core.ending.rounds == 0
    if now is not None:
        assert (now.attempt.requested_at is not None) is (phase in {ACTING, CONFIRMING}) or phase in {DONE, FAILED}
        assert now.attempt.worker or not now.attempt.ready
        assert phase not in {DONE, FAILED} or now.attempt.requested_at is not None or not now.attempt.worker, (
            "a worker waits for nothing"
        )
        assert phase != ACTING or (now.attempt.ready and now.attempt.announced)
        assert phase != CONFIRMING or bool(now.attempt.confirm_effect) != (now.attempt.confirm_at < never), (
            "asked, or to be asked"
        )
        if phase == WARNING:
            assert now.warned is not None or bool(now.announcement.effect) != (now.announcement.again_at < never), (
                "told, or to be told"
            )
            assert not now.attempt.worker or now.attempt.ready or now.outcome_deadline < never, "nobody waits for ever"
            assert (now.attempt.confirm_effect, now.attempt.confirm_at, now.attempt.seen_stopping) == ("", never, False)
    wish = core.stop_request
    assert wish is None or wish.fate or (now is not None and now.id == wish.incident and phase not in {DONE, FAILED})
    assert wish is None or (wish.ended >= wish.asked) is bool(wish.fate) or wish.asked == 0.0
    assert core.plans.checking_since is not None or not core.plans.checking
    assert core.plans.failed_rounds or not core.plans.round_failed
    assert len({hold.key for hold in core.people.holds}) == len(core.people.holds)
    if ticked:
        assert all(hold.until > state.at for hold in core.people.holds)
        alarm = core.alarms.unknown
        assert alarm is None or (alarm.since <= state.at < alarm.next and alarm.lasted >= 0.0)
        assert alarm is None or alarm.told or alarm.next < never, "an end that nobody was told the beginning of"


class World:
    """Plays events to the engine and keeps what it asked for."""

    def __init__(self, policy: Policy = BASE, gpus: int = 2, *, now: float = 0.0, checked: bool = True) -> None:
        self.policy = policy
        self.boots = 1
        self.now = now
        self.wall = EPOCH
        self.suspended = 0.0
        self.keys = tuple(f"0000:0{i}:00.0" for i in range(gpus))
        self.readings: tuple[Reading, ...] = (QUIET,) * gpus
        self.vetoes: tuple[Veto, ...] = ()
        self.quiet_host: bool | None = True
        self.checked = checked
        self.state = initial(f"boot-{self.boots:03}-x", "i-1", None, now)
        self.pending: dict[str, Effect] = {}
        self.effects: list[tuple[float, Effect]] = []
        self.ids: set[str] = set()
        self.monitor = Monitor(policy)
        self.monitor.boot_id = f"boot-{self.boots:03}-x"
        self.last: Step | None = None
        self.left = False

    def send(self, event: Event) -> Step:
        """One event, judged by the monitor; and the engine's own promises about `step`."""
        self.monitor.before(event)
        done = step(self.state, event, self.policy)
        if self.checked:
            again = step(self.state, event, self.policy)
            assert (again.state, again.effects, str(again.sentence)) == (done.state, done.effects, str(done.sentence))
            if isinstance(event, Tick):
                slow = step(
                    self.state._replace(core=self.state.core._replace(unchanged_until=-float("inf"))),
                    event,
                    self.policy,
                )
                assert (same(slow.state), slow.effects) == (same(done.state), done.effects), (
                    "the quick path decides alike"
                )
            else:
                assert done.state.at == self.state.at, "only a tick moves the machine's own time"
            assert str(done.sentence).endswith(".")
            assert "()" not in str(done.sentence)
            hash(done.sentence.key)
        no_wish_just_disappears(self.state, done)
        each_phase_has_what_belongs_to_it(done.state, ticked=isinstance(event, Tick))
        self.state, self.last = done.state, done
        for effect in done.effects:
            if isinstance(effect, Tell | Check | Prepare | Confirm):
                repeated = isinstance(effect, Tell) and effect.facts.get("told_again") is True
                assert repeated or effect.id not in self.ids, (
                    "no number comes twice: an outcome would be that of another effect"
                )
                self.ids.add(effect.id)
            self.effects.append((self.now, effect))
            if isinstance(effect, Abandon):
                self.pending.pop(effect.id, None)
            elif isinstance(effect, Leave):
                self.left = True
            elif type(effect) in ANSWERS:
                self.pending[getattr(effect, "id")] = effect  # noqa: B009  # the union has members without an id
        self.monitor.after(event, done.effects, self.wall)
        return done

    def tick(self, *readings: Reading, dt: float | None = None, synced: bool | None = True) -> Step:
        """Time passes, then the readers report; without readings the last ones stay."""
        passed = self.policy.interval if dt is None else dt
        self.now += passed
        self.wall += passed
        if readings:
            self.readings = readings
        seen = Observation(self.keys, self.readings, self.vetoes, self.quiet_host)
        return self.send(Tick(self.now, seen, self.wall, self.suspended, synced))

    def run(self, seconds: float, *readings: Reading, answer: bool = True, dt: float | None = None) -> None:
        """Ticks for so long, with a healthy shell unless told otherwise."""
        end = self.now + seconds
        while self.now < end - 1e-9 and not self.left:
            self.tick(*readings, dt=dt)
            if answer:
                self.settle()

    def answer(self, effect_id: str, status: str, after: float = 0.1, **more: Any) -> Step:
        """What became of one effect."""
        effect = self.pending[effect_id] if status == "saving" else self.pending.pop(effect_id)
        if isinstance(effect, Confirm):
            self.monitor.confirmed(effect.attempt, status)
        return self.send(Outcome(self.now + after, effect_id, status, **more))

    def settle(self, **wishes: str) -> None:
        """Answer everything that waits, once round: healthily, or as wished by the effect's name."""
        for effect_id, effect in list(self.pending.items()):
            if effect_id in self.pending:
                name = type(effect).__name__
                status = wishes.get(name, HEALTHY[type(effect)])
                if status != "never":
                    self.answer(effect_id, status)

    def devices(self) -> None:
        """The readers learn the indices."""
        listed = tuple(Device(key, i, f"GPU-{i}", "A100") for i, key in enumerate(self.keys))
        self.monitor.names = {d.key: {d.key, d.uuid, str(d.number)} for d in listed}
        self.send(Devices(self.now, listed))

    def hold(self, seconds: float, owner: str = "ann", uid: int | None = None) -> Step:
        done = self.send(AskHold(self.now, seconds, owner, "why", 1, self.wall, uid))
        self.monitor.held_until = max((hold.until for hold in self.state.core.people.holds), default=-1.0)
        return done

    def release(self, uid: int | None = None, *, everything: bool = True) -> Step:
        if everything:
            self.monitor.stops = []
        done = self.send(AskRelease(self.now, "ann", 1, uid, everything))
        self.monitor.held_until = max((hold.until for hold in self.state.core.people.holds), default=-1.0)
        return done

    def ask_stop(self, owner: str = "ann") -> Step:
        return self.send(AskStop(self.now, owner, 1))

    def notice(self, due: float = 120.0) -> Step:
        self.monitor.noticed_until = self.now + due
        return self.send(Notice(self.now, self.now + due, "spot interruption"))

    def suspend(self, seconds: float) -> None:
        """The machine sleeps; workers wake with it."""
        self.now += seconds
        self.wall += seconds
        self.suspended += seconds

    def restart(self, down: float = 0.0, policy: Policy | None = None) -> Step:
        """The guard ends and comes back within the boot: workers that waited are gone."""
        self.now += down
        self.wall += down
        self.state = reloaded(self.state)
        self.pending = {i: e for i, e in self.pending.items() if isinstance(e, Go)}
        return self.send(Began(self.now, "restart"))

    def kept(self) -> Commitments:
        """The commitments as they are read from their file."""
        return from_line(Commitments, to_line(commitments(self.state, self.now, self.wall, self.policy.price_per_hour)))

    def lose_state(self, down: float = 5.0) -> None:
        """The guard ends, and within the same boot another one finds the commitments only."""
        kept = self.kept()
        self.now += down
        self.wall += down
        boot_id = f"boot-{self.boots:03}-x"
        self.state = initial(boot_id, "i-1", kept, self.now)
        self.pending = {i: e for i, e in self.pending.items() if isinstance(e, Go)}
        self.monitor.forget_windows()

    def reload(self, policy: Policy, why: str = "reload") -> Step:
        self.policy = self.monitor.policy = policy
        return self.send(Began(self.now, why))

    def boot(self, off: float = 60.0) -> None:
        """The machine goes down and comes back; its date may be another one then (``off`` less than 0)."""
        kept = self.kept()
        self.boots += 1
        self.now, self.suspended = 20.0, 0.0
        self.wall += off
        boot_id = f"boot-{self.boots:03}-x"
        self.state = initial(boot_id, "i-1", kept, self.now)
        self.pending = {}
        self.monitor.boot(boot_id, self.policy, min(kept.unused, self.monitor.quiet_for()))

    # what happened so far

    def kinds(self) -> list[str]:
        return [effect.kind for _, effect in self.effects if isinstance(effect, Tell)]

    def times(self, kind: str) -> list[float]:
        return [at for at, effect in self.effects if isinstance(effect, Tell) and effect.kind == kind]

    def stops(self) -> list[float]:
        """When it acted, or would have."""
        acts = (
            at for at, e in self.effects if isinstance(e, Go | Leave) or (isinstance(e, Tell) and e.kind == "would_act")
        )
        return list(acts)

    def phase(self) -> str:
        return self.state.core.phase

    def word(self) -> str:
        """The state in one word, as people read it."""
        assert self.last is not None
        return self.last.sentence.word


def play(world: World, trace: Iterable[tuple[Reading, ...]]) -> World:
    """One tick for each entry, with a healthy shell."""
    for readings in trace:
        world.tick(*readings)
        world.settle()
    return world
