"""What is to come is told ahead: the deadline in steps, a long countdown again, and people may move the deadline."""

import pytest

from costguard.engine import AskExtend, Known, Step, deadline
from costguard.engine.deadline import Situation
from costguard.engine.effects import Answer, Tell
from costguard.engine.policy import Policy
from costguard.engine.rules import rules_of
from costguard.engine.words import duration
from tests.engine.world import BASE, BUSY, EPOCH, QUIET, World, reloaded

HOUR = 3600.0
RARE = BASE._replace(interval=60.0, arm_duration=None, unused_after=None, kill_duration=30 * 86400.0, boot_grace=120.0)
"""No reason but the deadline."""


def told(world: World, kind: str = "deadline_ahead") -> list[float]:
    """Seconds that were left each time."""
    return [
        round(float(str(effect.facts["due_in_seconds"])))
        for _, effect in world.effects
        if isinstance(effect, Tell) and effect.kind == kind
    ]


def extend(world: World, seconds: float, owner: str = "ann", uid: int | None = 1001) -> Answer:
    """A person moves the deadline; what they are answered."""
    done: Step = world.send(AskExtend(world.now, seconds, owner, "a run", 1, world.wall, uid))
    return next(effect for effect in done.effects if isinstance(effect, Answer))


@pytest.mark.parametrize(
    ("lifetime", "steps"),
    [
        (100 * HOUR, [25 * HOUR, 10 * HOUR, HOUR]),
        (4 * HOUR, [HOUR, 1440.0]),  # a quarter is an hour: told once
        (2 * HOUR, [HOUR, 1800.0, 720.0]),
        (HOUR, [900.0, 360.0]),  # an hour before its own beginning is no news
        (1000.0, []),
    ],
)
def test_a_deadline_is_told_at_a_quarter_a_tenth_and_an_hour(lifetime: float, steps: list[float]) -> None:
    """Once each, whatever the machine does."""
    world = World(RARE._replace(lifetime=lifetime), 1)
    world.run(lifetime - 120.0, BUSY)
    assert told(world) == [pytest.approx(step, abs=60.0) for step in steps]
    assert all(effect.level == "warning" for _, effect in world.effects if isinstance(effect, Tell))


def test_each_step_is_told_once_over_restarts_and_boots() -> None:
    """What was told is a commitment, and a lifetime goes on where it was."""
    world = World(RARE._replace(lifetime=10 * HOUR), 1)
    world.run(8 * HOUR, BUSY)
    world.restart(down=30.0)
    world.run(0.5 * HOUR, BUSY)
    world.boot()
    world.run(0.45 * HOUR, BUSY)
    world.lose_state()
    world.run(0.5 * HOUR, BUSY)
    assert told(world) == [pytest.approx(seconds, abs=90.0) for seconds in (2.5 * HOUR, HOUR)]


def test_a_guard_that_begins_late_tells_the_last_step_alone() -> None:
    """It was installed when little time was left: one message, not three."""
    world = World(RARE._replace(lifetime=100 * HOUR), 1)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(ran=95 * HOUR))
    )
    world.run(2 * HOUR, BUSY)
    assert told(world) == [pytest.approx(5 * HOUR, abs=90.0)]


def test_a_lease_is_told_by_the_time_that_was_left_when_it_was_first_seen() -> None:
    """Nothing says when it began. A later date is told anew, in its own steps."""
    world = World(RARE, 1)
    world.policy = RARE._replace(lease_until=world.wall + 40 * HOUR)
    world.run(31 * HOUR, QUIET)
    assert told(world) == [pytest.approx(10 * HOUR, abs=60.0)]
    world.reload(world.policy._replace(lease_until=world.wall + 80 * HOUR))
    world.run(61 * HOUR, QUIET)
    assert told(world)[1:] == [pytest.approx(20 * HOUR, abs=60.0)]


def test_a_date_that_is_not_sure_is_no_deadline() -> None:
    """A clock that was never set tells nobody of a lease."""
    world = World(RARE, 1)
    world.policy = RARE._replace(lease_until=world.wall + HOUR)
    for _ in range(100):
        world.tick(QUIET, synced=False)
    assert told(world) == []


def test_a_budget_that_its_period_will_not_spend_is_not_told() -> None:
    """The next period begins before; where it does not, the steps count from the whole budget."""
    never = World(RARE._replace(budget=100.0, price_per_hour=1.0, budget_period=90 * HOUR), 1)
    never.run(89 * HOUR, BUSY)
    assert told(never) == []
    spent = World(RARE._replace(budget=40.0, price_per_hour=1.0, budget_period=90 * HOUR), 1)
    spent.run(39.5 * HOUR, BUSY)
    assert told(spent) == [pytest.approx(seconds, abs=90.0) for seconds in (10 * HOUR, 4 * HOUR, HOUR)]


def test_an_administrators_hold_tells_of_no_deadline() -> None:
    """Nothing comes of it."""
    world = World(RARE._replace(lifetime=10 * HOUR, admin_hold="a fair"), 1)
    world.run(9.9 * HOUR, BUSY)
    assert told(world) == []


def test_a_moved_deadline_stops_nothing_until_its_new_end_and_is_told_ahead_again() -> None:
    """And it holds nothing but the deadline."""
    world = World(RARE._replace(lifetime=10 * HOUR, grace=600.0), 1)
    world.run(9.5 * HOUR, QUIET)
    assert extend(world, 5 * HOUR).done
    before = len(told(world))
    world.run(5.4 * HOUR, QUIET)
    assert world.phase() == "WATCHING"
    assert told(world)[before:] == [pytest.approx(2.5 * HOUR, abs=60.0), pytest.approx(HOUR, abs=60.0)]
    world.run(0.15 * HOUR, QUIET)
    assert world.phase() == "WARNING"


def test_moving_the_deadline_ends_its_countdown_and_no_other() -> None:
    """People who still work are not hurried; a machine that is idle is stopped all the same."""
    world = World(BASE._replace(lifetime=1000.0, unused_after=None), 1)
    world.run(1020.0, QUIET)
    assert world.phase() == "WARNING"
    assert extend(world, HOUR).done
    assert (world.phase(), world.kinds()[-2:]) == ("WATCHING", ["cancelled", "deadline_extended"])
    world.run(600.0, QUIET)
    assert world.phase() == "WATCHING"
    idle = World(BASE._replace(lifetime=20000.0, arm_duration=None), 1)
    idle.run(320.0, QUIET)
    assert idle.phase() == "WARNING"
    assert extend(idle, HOUR).done
    assert idle.phase() == "WARNING"


def test_users_move_a_deadline_so_far_and_root_further() -> None:
    """The limit counts from the deadline itself, so many small steps lead no further than one."""
    world = World(RARE._replace(lifetime=2 * HOUR, extend_max=3 * HOUR), 1)
    world.run(HOUR, QUIET)
    assert extend(world, 100 * HOUR).done
    due = world.state.core.deadline.extension
    assert due is not None
    assert due.until == pytest.approx(5 * HOUR)
    again = extend(world, 100 * HOUR, "bob", 1002)
    assert (again.done, "root can move it further" in again.message) == (False, True)
    assert extend(world, 100 * HOUR, "root", 0).done
    forbidden = World(RARE._replace(lifetime=2 * HOUR, extend_max=0.0), 1)
    forbidden.run(HOUR, QUIET)
    assert not extend(forbidden, HOUR).done


def test_after_the_deadline_an_extension_counts_from_now() -> None:
    """Work goes on past it: two more hours are two hours from now, within the same limit."""
    world = World(RARE._replace(lifetime=2 * HOUR, extend_max=3 * HOUR), 1)
    world.run(3 * HOUR, BUSY)
    assert extend(world, HOUR).done
    extension = world.state.core.deadline.extension
    assert extension is not None
    assert extension.until == pytest.approx(world.now + HOUR)


def test_without_a_deadline_there_is_nothing_to_move() -> None:
    """It is said, with what works instead; and an extension has to be longer than nothing."""
    world = World(RARE, 1)
    world.run(HOUR, QUIET)
    answer = extend(world, HOUR)
    assert (answer.done, "costguard hold" in answer.message) == (False, True)


def test_a_deadline_that_does_not_count_is_named_with_its_cause() -> None:
    """An owner who wrote one reads why there is none now, not that there is none."""
    lease = World(RARE._replace(lease_until=EPOCH + 86400.0), 1)
    for _ in range(6):
        lease.tick(QUIET, synced=False)
    assert "this machine's clock is not synchronised" in extend(lease, HOUR).message
    budget = World(RARE._replace(budget=100.0, price_per_hour=None), 1)
    budget.run(HOUR, QUIET)
    assert "the price is unknown" in extend(budget, HOUR).message


def test_who_moved_it_takes_it_back_and_others_do_not() -> None:
    """Root takes back any."""
    world = World(RARE._replace(lifetime=10 * HOUR), 1)
    world.run(HOUR, QUIET)
    extend(world, HOUR, "ann", 1001)
    world.release(1002, everything=False)
    assert world.state.core.deadline.extension is not None
    world.release(0)
    assert world.state.core.deadline.extension is None


def test_an_extension_moves_the_deadline_on_from_where_it_is() -> None:
    """What the message says to whoever reads it after somebody has moved it: by that much."""
    world = World(RARE._replace(lifetime=10 * HOUR, extend_max=3 * HOUR), 1)
    world.run(HOUR, QUIET)
    for owner, uid, until in (("ann", 1001, 11.0), ("bob", 1002, 12.0), ("ann", 1001, 13.0)):
        assert extend(world, HOUR, owner, uid).done
        extension = world.state.core.deadline.extension
        assert extension is not None
        assert extension.until == pytest.approx(until * HOUR)
    assert not extend(world, HOUR, "bob", 1002).done


def test_who_takes_an_extension_back_leaves_those_of_others_and_people_hear_it() -> None:
    """Else the last thing that they have read is a date that does not hold."""
    world = World(RARE._replace(lifetime=10 * HOUR, extend_max=3 * HOUR), 1)
    world.run(HOUR, QUIET)
    extend(world, HOUR, "ann", 1001)
    extend(world, HOUR, "bob", 1002)
    moves = [
        effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "deadline_extended"
    ]
    assert len(moves) == 2
    world.release(1002, everything=False)
    world.release(1003, everything=False)
    extension = world.state.core.deadline.extension
    assert extension is not None
    assert extension.owner == "ann"
    assert extension.until == pytest.approx(11 * HOUR)
    world.release(0)
    told = [
        effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "deadline_extended"
    ]
    assert [facts["ended"] for facts in told[2:]] == [["bob"], ["ann"]]
    assert [float(str(facts["due_wall"])) - world.wall + world.now for facts in told[2:]] == pytest.approx(
        [11 * HOUR, 10 * HOUR]
    )


def test_nobody_hears_that_a_deadline_is_moved_back_that_has_passed() -> None:
    """A release ends what is left of an extension: of one that is over nothing is, and no date changes."""
    world = World(RARE._replace(lifetime=2 * HOUR, extend_max=HOUR, stop_busy=False), 1)
    world.run(HOUR, QUIET)
    extend(world, 600.0, "bob", 1002)
    world.run(1.5 * HOUR, BUSY)
    world.release(1002, everything=False)
    told = [effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "deadline_extended"]
    assert len(told) == 1


@pytest.mark.parametrize("rules", [{"lifetime": 10 * HOUR}, {"lease_until": 1.7e9 + 10 * HOUR}])
def test_who_takes_it_back_between_two_looks_hears_the_same_date(rules: dict[str, float]) -> None:
    """The machine's own time is that of the last look, the date that of the request: they are not one moment."""
    world = World(RARE._replace(**rules), 1)  # type: ignore[arg-type]  # durations and a date
    world.run(HOUR, QUIET)
    extend(world, HOUR)
    due = []
    for later in (0.0, 40.0):
        extend(world, HOUR)
        world.now, world.wall = world.now + later, world.wall + later
        world.release(0)
        told = [
            effect.facts
            for _, effect in world.effects
            if isinstance(effect, Tell) and effect.kind == "deadline_extended"
        ]
        due.append(told[-1]["due_wall"])
    assert due[0] == pytest.approx(due[1], abs=0.01)


@pytest.mark.parametrize("way", ["boot", "restart", "lost"])
def test_an_extension_outlives_the_guard_and_the_boot(way: str) -> None:
    """With the same end as a date (I8)."""
    world = World(RARE._replace(lifetime=3 * HOUR), 1)
    world.run(2 * HOUR, QUIET)
    extend(world, 5 * HOUR)
    end = world.wall + 6 * HOUR
    match way:
        case "boot":
            world.boot(off=HOUR)
        case "restart":
            world.restart(down=30.0)
        case _:
            world.lose_state()
    world.run(120.0, QUIET)
    extension = world.state.core.deadline.extension
    assert extension is not None
    assert world.wall + extension.until - world.now == pytest.approx(end, abs=30.0)


@pytest.mark.parametrize(
    ("policy", "hours"),
    [(RARE._replace(lifetime=10 * HOUR), 17.0), (RARE._replace(lease_until=EPOCH + 10 * HOUR), 12.0)],
)
def test_who_moves_the_deadline_right_after_a_sleep_gets_all_of_it(policy: Policy, hours: float) -> None:
    """No look has seen yet that the machine slept: a lifetime has stood still meanwhile, and a lease has not."""
    world = World(policy._replace(extend_max=4 * HOUR), 1)
    world.run(HOUR, BUSY)
    world.suspend(5 * HOUR)
    asked = AskExtend(world.now + 1.0, 2 * HOUR, "ann", "", 1, world.wall + 1.0, 1001, suspended=world.suspended)
    answer = next(effect for effect in world.send(asked).effects if isinstance(effect, Answer))
    assert answer.message == f"the deadline is now in {duration((hours - 6.0) * HOUR - 1.0)}"
    world.run(120.0, BUSY)
    extension = world.state.core.deadline.extension
    assert extension is not None
    assert extension.until == pytest.approx(hours * HOUR, abs=2.0)
    situation = Situation(world.state, rules_of(world.policy), world.wall, None)
    assert extension.until == pytest.approx(deadline.first(situation).at + 2 * HOUR, abs=2.0)


LONG: Policy = BASE._replace(grace=HOUR, arm_duration=None, boot_grace=120.0)


def test_a_long_countdown_is_told_again_at_its_half_and_in_its_last_minute() -> None:
    """And once each: what was told is saved."""
    world = World(LONG, 1)
    world.run(310.0 + 0.6 * HOUR, QUIET)
    world.state = reloaded(world.state)
    world.run(0.4 * HOUR - 30.0, QUIET)
    assert told(world, "countdown") == [pytest.approx(1800.0, abs=11.0), pytest.approx(60.0, abs=11.0)]


@pytest.mark.parametrize("policy", [LONG._replace(mode="dry-run"), LONG._replace(grace=600.0)])
def test_a_short_countdown_and_a_dry_run_are_told_once(policy: Policy) -> None:
    """Nobody needs to hear three times within ten minutes, nor of what does not happen."""
    world = World(policy, 1)
    world.run(2 * HOUR, QUIET)
    assert "warning" in world.kinds()
    assert told(world, "countdown") == []


def test_a_new_countdown_is_reminded_of_anew() -> None:
    """The first one was cancelled after its reminder."""
    world = World(LONG, 1)
    world.run(310.0 + 0.6 * HOUR, QUIET)
    world.run(120.0, BUSY)
    world.run(320.0 + 0.6 * HOUR, QUIET)
    assert len(told(world, "countdown")) == 2


def test_armed_is_told_where_somebody_wants_to_hear_it() -> None:
    """Off by default; once in a boot."""
    for tell_armed in (False, True):
        world = World(BASE._replace(tell_armed=tell_armed, kill_duration=4000.0), 1)
        world.run(300.0, BUSY)
        world.run(300.0, QUIET)
        world.run(300.0, BUSY)
        assert world.kinds().count("armed") == int(tell_armed)


def test_who_gets_less_than_he_asked_for_is_told() -> None:
    """Users may move a deadline by so much in all; root, and who asked for no more, read no such words."""
    policy = RARE._replace(lifetime=10 * HOUR, extend_max=2 * HOUR)
    world = World(policy, 1)
    world.run(HOUR, BUSY)
    assert "you asked" not in extend(world, HOUR).message
    cut = extend(world, 9 * HOUR)
    assert cut.done
    assert "(you asked for 9h; users may move it by 2h in total, root by more)" in cut.message
    assert "you asked" not in extend(world, 9 * HOUR, "root", 0).message


def test_a_lease_is_moved_from_its_own_date_however_long_ago_the_last_look_was() -> None:
    """Between two looks it is the same date: who asks a minute after one gets no minute less."""
    world = World(RARE, 1)
    lease = world.wall + 4 * HOUR
    world.policy = RARE._replace(lease_until=lease)
    world.run(HOUR, BUSY)
    world.now += 59.0
    world.wall += 59.0
    assert extend(world, 24 * HOUR).done
    (extension,) = world.state.core.deadline.extensions
    assert extension.wall == pytest.approx(lease + RARE.extend_max, abs=0.01)


def test_an_extension_keeps_the_reason_that_its_user_gave() -> None:
    """Who moves it once more without one still has it; another reason takes its place."""
    world = World(RARE._replace(lifetime=3 * HOUR), 1)
    world.run(2 * HOUR, QUIET)
    reasons = []
    for reason in ("a run", "", "another"):
        world.send(AskExtend(world.now, 600.0, "ann", reason, None, world.wall, 1000))
        (extension,) = world.state.core.deadline.extensions
        reasons.append(extension.reason)
    assert reasons == ["a run", "a run", "another"]


def killed(world: World, times: int, every: float) -> World:
    """A guard of a countdown that is killed so often, and is there again after a second; then it lives on to the action."""
    for _ in range(times):
        world.restart(1.0)
        end = world.now + every
        while world.now < end:
            world.tick(Known(0.0, (), 400.0))  # a counter that reaches over the hole
    return world


def dates(world: World, kind: str, fact: str) -> list[float]:
    """The dates in messages of a kind, as seconds since the beginning."""
    return [
        float(str(effect.facts[fact])) - EPOCH
        for _, effect in world.effects
        if isinstance(effect, Tell) and effect.kind == kind and fact in effect.facts
    ]


@pytest.mark.parametrize(("kills", "news"), [(1, 0), (2, 0), (4, 1), (12, 3)])
def test_who_was_warned_hears_that_killed_guards_have_put_the_action_off(kills: int, news: int) -> None:
    """A minute is no news; more is told, ever more rarely, as the moment that holds now, beside the one that people have read."""
    world = World(BASE._replace(grace=600.0, arm_duration=None, boot_grace=0.0), 1)
    world.run(890.0, QUIET)
    assert world.phase() == "WARNING"
    killed(world, kills, every=25.0)
    world.run(700.0, QUIET)
    later, read = dates(world, "countdown", "due_wall"), dates(world, "countdown", "was_wall")
    assert len(later) == news
    assert [a > b + 60.0 for a, b in zip(later, read, strict=True)] == [True] * news
    assert read == [*dates(world, "warning", "due_wall"), *later][:news]
    assert world.stops()[0] - (later or dates(world, "warning", "due_wall"))[-1] <= 80.0


@pytest.mark.parametrize(("kills", "news"), [(1, []), (3, [("countdown", "warning")])])
def test_who_took_a_warning_that_is_made_anew_hears_its_later_date(kills: int, news: list[tuple[str, str]]) -> None:
    """The guard was killed before it knew who had it: whoever had is spared the next one, with its later date."""
    world = World(BASE._replace(grace=600.0, arm_duration=None, boot_grace=0.0), 1)
    while world.phase() != "WARNING":
        world.tick(QUIET)
    killed(world, kills, every=30.0)
    world.run(650.0, QUIET)
    first = dates(world, "warning", "due_wall")[0]
    told = [effect for _, effect in world.effects if isinstance(effect, Tell) and "was_wall" in effect.facts]
    assert [(effect.kind, effect.level) for effect in told] == news
    assert dates(world, "countdown", "was_wall") == [first] * len(news)


def test_a_warning_that_nobody_took_has_no_date_that_anybody_read() -> None:
    """Its further tries are news by themselves."""
    world = World(BASE._replace(grace=600.0, arm_duration=None, boot_grace=0.0, unreached_wait=0.0), 1)
    world.run(320.0, QUIET)
    for _ in range(40):
        world.tick(QUIET)
        world.settle(Tell="failed")
    world.run(700.0, QUIET)
    assert dates(world, "countdown", "was_wall") == []
    assert world.stops()
