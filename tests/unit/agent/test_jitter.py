"""When a machine of a fleet asks its cloud: at a moment of its own, which neither a restart nor a person's hurry breaks."""

from itertools import pairwise
from typing import Any

import pytest

from costguard.agent.jitter import ATTENDED_SPREAD_SECONDS, Jitter, jitter_of
from costguard.agent.loop import Loop
from costguard.engine import time_limits
from costguard.engine.effects import Check, Prepare
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, World, effective

DAY = 86400.0
NAMES = [f"dmi:{number:032x}" for number in range(500)]


def rented(spread: float = 1200.0, action_spread: float = 60.0, **policy: Any) -> dict[str, Any]:
    """The configuration of a machine whose cloud has a plug-in."""
    cloud = {"spread": spread, "action_spread": action_spread}
    return {**effective(**{"kill_action": "stop", **policy}), "providers": ["x=costguard_x"], "cloud": cloud}


def moment(effect: Check | Prepare, config: dict[str, Any], *, name: str = "dmi:1", attended: bool = False) -> float:
    """Seconds from now."""
    return Jitter(name, attended=attended).due_at(effect, 1000.0, config, "idle") - 1000.0


def check(*, known: bool = False, tries: int = 0, action: str = "stop") -> Check:
    """One that is first asked for now."""
    return Check("c1", action, 1000.0, known=known, tries=tries)


@pytest.mark.parametrize(
    ("effect", "width"),
    [
        (check(known=True), 1200.0),
        (check(), 1200.0 * time_limits.EARLY_SHARE),
        (check(tries=1), 300.0),
        (check(known=True, tries=3), 1200.0),
        (check(tries=9), time_limits.CHECK_AGAIN_LONGEST_SECONDS),
        (Prepare("a1", "stop", "i1"), 60.0),
    ],
)
def test_a_fleet_fills_its_time_evenly(effect: Check | Prepare, width: float) -> None:
    """Whatever they ask for together, no tenth of the time has more than one and a half of its part."""
    found = [moment(effect, rented(), name=name) for name in NAMES]
    tenths = [sum(1 for at in found if tenth * width / 10 <= at < (tenth + 1) * width / 10) for tenth in range(10)]
    assert (sum(tenths), max(tenths) <= 75) == (500, True), tenths


def test_nobody_waits_for_others_without_need() -> None:
    """An action that asks no cloud, a machine without plug-ins, a person's own stop; and hardly one at a terminal."""
    assert moment(check(action="shutdown"), rented()) == 0.0
    assert moment(check(), {**rented(), "providers": []}) == 0.0
    assert moment(check(), rented(0.0)) == moment(Prepare("a1", "stop", "i1"), rented(0.0)) == 0.0
    assert Jitter("dmi:1", attended=False).due_at(Prepare("a1", "stop", "i1"), 1000.0, rented(), "person") == 1000.0
    assert max(moment(check(), rented(43200.0), name=name, attended=True) for name in NAMES) <= ATTENDED_SPREAD_SECONDS


def test_who_was_throttled_together_does_not_meet_again() -> None:
    """Machines whose moments are next to each other have their next tries all over the time."""
    near = sorted((f"i-{number:017x}" for number in range(20_000)), key=jitter_of)[9_000:9_100]
    assert max(map(jitter_of, near)) - min(map(jitter_of, near)) < 0.01
    for tries in (1, 2, 5):
        again = sorted(jitter_of(name, tries) for name in near)
        gaps = [later - sooner for sooner, later in pairwise(again)]
        assert again[-1] - again[0] > 0.9
        assert max(gaps) < 0.1


class Life:
    """One machine that works all the time, and the guards that it has one after the other."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.world = World(Machine(script=[Phase(40 * DAY, 0.9, "work")]), seed=1, start_wall=1.7e9)
        self.plans: list[float] = []  # on the boot clock, when a plan was asked for

    def guard(self, until: float, *, attended: bool = False, **changes: Any) -> Loop:
        """Run a guard up to this moment, then end it."""
        host = SimHost(world=self.world, until=until)
        spawn = host.spawn

        def counting(program: str, job: bytes) -> int:
            if b'"job":"plan"' in job:
                self.plans.append(self.world.instant().boot)
            return spawn(program, job)

        host.spawn = counting  # type: ignore[method-assign]  # an onlooker
        loop = Loop(host, {**self.config, **changes}, host.start()._replace(attended=attended))
        loop.run()
        return loop


def test_a_restart_keeps_a_plan_that_passed_and_checks_it_within_the_whole_time() -> None:
    """The last plan stays valid meanwhile; a new version of costguard is no reason to forget it."""
    life = Life(rented(4 * 3600.0))
    life.guard(2 * 3600.0)
    mine = jitter_of(life.world.instance)
    assert len(life.plans) == 1
    assert life.plans[0] == pytest.approx(mine * 3600.0, abs=60.0)
    loop = life.guard(2.2 * 3600.0, version="a newer one")
    assert [plan.verdict for plan in loop.last.state.core.plans.verdicts] == ["go"]
    life.guard(7 * 3600.0, version="a newer one")
    assert len(life.plans) == 2
    assert life.plans[1] == pytest.approx(2 * 3600.0 + mine * 4 * 3600.0, abs=120.0)


def test_restarts_do_not_put_a_check_off() -> None:
    """An agent that is restarted every ten minutes asks at the moment that it had at first."""
    life = Life(rented(12 * 3600.0))
    for number in range(1, 80):
        life.guard(number * 600.0)
    mine = jitter_of(life.world.instance)
    assert life.plans
    assert life.plans[0] == pytest.approx(mine * 3 * 3600.0, abs=60.0)
    assert life.plans[1] == pytest.approx(life.plans[0] + mine * 12 * 3600.0, abs=1300.0)


def test_plans_of_another_configuration_prove_nothing() -> None:
    """After a restart with other settings of the cloud the old plan is gone, and a new one comes early."""
    life = Life(rented(4 * 3600.0))
    life.guard(2 * 3600.0)
    other: dict[str, Any] = {"cloud": {**life.config["cloud"], "local_data": "discard"}}
    loop = life.guard(2 * 3600.0 + 20.0, **other)
    assert loop.last.state.core.plans.verdicts == ()
    life.guard(3.2 * 3600.0, **other)
    assert life.plans[1] == pytest.approx(2 * 3600.0 + jitter_of(life.world.instance) * 3600.0, abs=60.0)


def test_a_person_at_the_terminal_does_not_wait() -> None:
    """Whoever starts the agent by hand sees within seconds whether it may act."""
    life = Life(rented(12 * 3600.0))
    life.guard(60.0, attended=True)
    assert len(life.plans) == 1
    assert life.plans[0] <= life.world.instant().boot - 60.0 + ATTENDED_SPREAD_SECONDS + 20.0


def test_a_throttled_check_is_made_again_ever_later() -> None:
    """*Failed* for a technical reason: pauses that grow, and no two of them alike; a pass ends that."""
    life = Life(rented())
    life.world.verdicts["stop"] = {
        "verdict": "failed",
        "findings": [{"code": "throttled", "text": "too many", "hint": ""}],
    }
    loop = life.guard(6 * 3600.0)
    gaps = [later - sooner for sooner, later in pairwise(life.plans)]
    least = [time_limits.pause(tries) for tries in range(1, len(gaps) + 1)]
    assert least[:4] == [300.0, 600.0, 1200.0, 1800.0]
    assert len(gaps) >= 5
    assert all(pause - 1.0 <= gap <= 2 * pause + 60.0 for pause, gap in zip(least, gaps, strict=True)), gaps
    assert len({round(gap) for gap in gaps}) == len(gaps)
    assert loop.last.state.core.plans.failed_rounds >= 5
    life.world.verdicts["stop"] = {"verdict": "go", "findings": []}
    loop = life.guard(8 * 3600.0)
    assert loop.last.state.core.plans.failed_rounds == 0


def test_a_warning_waits_for_no_plan() -> None:
    """A machine whose check comes late is warned of and stopped in time all the same."""
    config = rented(
        43200.0, mode="live", kill_duration=1800.0, boot_grace=600.0, unused_after=3600.0, arm_duration=None
    )
    world = World(Machine(script=[Phase(40 * DAY, 0.0, "idle")]), seed=1, start_wall=1.7e9)
    host = SimHost(world=world, until=2 * 3600.0)
    with pytest.raises(SimOff):
        Loop(host, config, host.start()).run()
    assert world.now < 3600.0
