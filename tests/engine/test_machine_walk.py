"""Everything that can happen, in any order: the monitor and a healthy end judge every walk."""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from costguard.engine import Known, Outcome, Reading, Unknown, Veto
from costguard.engine.effects import Confirm, Go, Prepare, Tell
from costguard.engine.state import ACTING, CONFIRMING
from tests.engine.world import ANSWERS, BASE, BUSY, DARK, QUIET, World

POLICIES = (
    BASE,
    BASE._replace(mode="dry-run"),
    BASE._replace(fallback=("shutdown",)),
    BASE._replace(kill_action="command", fallback=("stop",), grace=0.0, boot_grace=0.0),
    BASE._replace(window_rule="unbroken", arm_duration=None, aggregate="any"),
    BASE._replace(kill_action="command", aggregate="any", arm_duration=0.0, gpu_devices=("0", "1")),
    BASE._replace(kill_action="command", aggregate="mean", window_rule="unbroken"),
    BASE._replace(kill_action="end_process", aggregate="all"),
    BASE._replace(aggregate="mean", kill_threshold=0.7, arm_threshold=0.8, gpu_devices=("0",)),
    BASE._replace(stop_below_load=True, kill_threshold=0.7, arm_threshold=0.8),
    BASE._replace(lifetime=2000.0, unused_after=None),
    BASE._replace(lifetime=1500.0, stop_busy=True),
    BASE._replace(unknown_stop_after=600.0),
    BASE._replace(window_share=0.1, interval=5.0),
)

READINGS = st.one_of(
    st.sampled_from([QUIET, QUIET, BUSY, DARK, Known(0.04), Known(0.05), Known(0.15), Known(0.6), Known(float("nan"))]),
    st.builds(Known, st.sampled_from([0.0, 0.9]), st.just(("power",)), st.just(0.0), st.just("")),
    st.builds(
        Known, st.sampled_from([0.0, 0.0, 0.9]), st.just(()), st.sampled_from([5.0, 16.0, 40.0, 400.0]), st.just("")
    ),
    st.just(Unknown("late")),
)
TYPED = Veto("terminals", "ann on pts/3 typed", sense=True, lets_go="30 min without input")
UNSEEN = Veto("terminals", "cannot be seen", sense=True, unknown=True)
GPUS = 2
BOTH = st.tuples(READINGS, READINGS)
QUIETLY = (QUIET,) * GPUS


class Walk(RuleBasedStateMachine):
    """One machine; every step is checked by `World.send` and `Monitor`."""

    @initialize(policy=st.sampled_from(POLICIES), now=st.sampled_from([0.0, 30.0, 5000.0]))
    def begin(self, policy: object, now: float) -> None:
        self.world = World(policy, GPUS, now=now)  # type: ignore[arg-type]  # sampled_from loses the type
        self.healthy = True
        self.world.devices()

    def shell(self) -> None:
        if self.healthy:
            self.world.settle()

    @rule(readings=BOTH, dt=st.sampled_from([None, 9.0, 12.0, 14.9]))
    def tick(self, readings: tuple[Reading, ...], dt: float | None) -> None:
        self.world.tick(*readings, dt=dt)
        self.shell()

    @rule(readings=BOTH, times=st.integers(2, 40))
    def stay(self, readings: tuple[Reading, ...], times: int) -> None:
        for _ in range(times):
            self.world.tick(*readings)
            self.shell()

    @rule(times=st.integers(5, 60))
    def quiet(self, times: int) -> None:
        self.stay(QUIETLY, times)

    @rule(times=st.integers(4, 10))
    def work(self, times: int) -> None:
        self.stay((BUSY, QUIET), times)

    @rule(first=READINGS, second=READINGS, times=st.integers(3, 12))
    def scattered(self, first: Reading, second: Reading, times: int) -> None:
        for number in range(times):
            self.world.tick(*((first, DARK) if number % 3 else (QUIET, second)))
            self.shell()

    @rule(readings=BOTH, dt=st.sampled_from([16.0, 40.0, 100.0, 1000.0, 20000.0]))
    def gap(self, readings: tuple[Reading, ...], dt: float) -> None:
        self.world.tick(*readings, dt=dt)
        self.shell()

    @rule()
    def shell_falls_silent(self) -> None:
        self.healthy = False

    @rule()
    def shell_recovers(self) -> None:
        self.healthy = True
        self.world.settle()

    @precondition(lambda self: self.world.pending)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        effect_id = data.draw(st.sampled_from(sorted(self.world.pending)))
        status = data.draw(st.sampled_from(ANSWERS[type(self.world.pending[effect_id])]))
        self.world.answer(effect_id, status)

    @rule(
        number=st.integers(1, 40),
        status=st.sampled_from(["delivered", "saving", "ready", "done", "failed", "unknown", "accepted"]),
    )
    def late_outcome(self, number: int, status: str) -> None:
        """A second outcome of an effect that was answered before, or that a closed incident left behind."""
        world = self.world
        old = [
            e for _, e in world.effects if isinstance(e, Tell | Prepare | Go | Confirm) and e.id not in world.pending
        ]
        if old:
            late = old[-number % len(old)]
            incident = world.state.core.incident
            mine = incident is not None and late.id in {
                incident.announcement.effect,
                incident.attempt.worker,
                incident.attempt.confirm_effect,
            }
            before = world.state.core
            world.send(Outcome(world.now, late.id, status))
            assert mine or world.state.core._replace(unchanged_until=before.unchanged_until) == before, (
                "a late outcome changed something"
            )

    @rule(seconds=st.sampled_from([1.0, 60.0, 600.0, 1e6, -5.0, float("nan")]), uid=st.sampled_from([None, 0, 1, 2]))
    def hold(self, seconds: float, uid: int | None) -> None:
        self.world.hold(seconds, uid=uid)

    @rule(uid=st.sampled_from([0, 1, 2]), everything=st.booleans())
    def release(self, uid: int, everything: bool) -> None:
        self.world.release(uid, everything=everything)

    @rule()
    def ask_stop(self) -> None:
        self.world.ask_stop()

    @rule()
    def notice(self) -> None:
        self.world.notice(120.0)

    @rule(seconds=st.sampled_from([30.0, 5000.0]))
    def sleep(self, seconds: float) -> None:
        self.world.suspend(seconds)
        self.world.tick()

    @rule(seconds=st.sampled_from([-1e6, -3600.0, 3600.0]))
    def clock_is_set(self, seconds: float) -> None:
        self.world.wall += seconds
        self.world.monitor.stops = [(date + seconds, attempt) for date, attempt in self.world.monitor.stops]

    @rule(down=st.sampled_from([0.0, 3.0, 30.0, 300.0]))
    def restart(self, down: float) -> None:
        self.world.restart(down)

    @rule(off=st.sampled_from([30.0, 5000.0]))
    def boot(self, off: float) -> None:
        self.world.boot(off)
        self.world.devices()

    @rule(policy=st.sampled_from(POLICIES))
    def reload(self, policy: object) -> None:
        self.world.reload(policy)  # type: ignore[arg-type]  # as above

    @rule(veto=st.sampled_from([(), (Veto("terminals", "ann typed"),), (TYPED,), (UNSEEN,), (TYPED, UNSEEN)]))
    def somebody(self, veto: tuple[Veto, ...]) -> None:
        self.world.vetoes = veto

    @rule(quiet=st.sampled_from([True, False, None]))
    def host(self, quiet: bool | None) -> None:
        self.world.quiet_host = quiet

    def teardown(self) -> None:
        """Whatever happened: with a healthy shell and quiet GPUs the bill ends, or somebody is told at least daily."""
        if not hasattr(self, "world") or self.world.left:
            return
        world = self.world
        world.vetoes, world.quiet_host = (), True
        world.settle()
        world.release()
        world.run(400.0, *QUIETLY, dt=10.0)
        told = len(world.effects)
        world.run(2500.0, *QUIETLY)
        phase, done = world.state.core.phase, world.state.core.ending.done
        assert phase not in {ACTING, CONFIRMING} or len(world.effects) > told, "stuck, and silent"
        assert world.stops() or done == "cannot" or world.policy.gpu_devices, (
            f"never stops: {world.last and world.last.sentence}"
        )


TestWalk = Walk.TestCase
TestWalk.settings = settings(stateful_step_count=30)
