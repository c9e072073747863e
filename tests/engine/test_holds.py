"""Holds: one of each user, a sum for each and for all, root beside them; and who may release what."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.engine import Step
from costguard.engine.effects import Answer, Go, Tell
from costguard.engine.events import AskExtend
from costguard.engine.people import HOLD_TOLD_EVERY_SECONDS, HOLDS_KEPT, TOLD_AT_ONCE, TOLD_OF_ONE_USER, hold_left
from costguard.engine.saved import Commitments, commitments, dump, initial, load
from costguard.engine.state import Hold
from costguard.process.wire import build, plain
from tests.engine.world import BASE, BUSY, QUIET, World, reloaded

HOUR = 3600.0
POLICY = BASE._replace(arm_duration=None, unused_after=None, boot_grace=0.0, hold_total=72 * HOUR, unknown_alarm=1e9)
EVE, BOB, ROOT = 1001, 1002, 0


def said(done: Step) -> Answer:
    (answer,) = (effect for effect in done.effects if isinstance(effect, Answer))
    return answer


def started(**changes: object) -> World:
    world = World(POLICY._replace(**changes), 1)  # type: ignore[arg-type]  # any fields of the policy
    world.tick(QUIET)
    return world


def latched(phase: str) -> World:
    """A machine whose stop was refused, carried out by a command, or failed."""
    world = World(POLICY._replace(kill_action="command"), 1)
    wishes = {"cannot": {"Prepare": "refuse"}, "acted": {"Go": "done"}, "FAILED": {"Go": "failed"}}[phase]
    while world.phase() not in {"DONE", "FAILED"}:
        world.tick(QUIET)
        world.settle(**wishes)
    return world


@pytest.mark.parametrize(("seconds", "times"), [(1.0, 432), (24 * HOUR, 10)])
def test_one_user_does_not_use_up_the_holds_of_all(seconds: float, times: int) -> None:
    """432 holds of a second, or one after the other for as long as they are granted: others still hold for a day, and so does root."""
    world = started(grace=600.0)
    for _ in range(times):
        world.hold(seconds, "eve", EVE)
        world.tick(QUIET, dt=min(seconds + 1.0, 24 * HOUR - 60.0))
    assert said(world.hold(24 * HOUR, "bob", BOB)).message == "held for 1d"
    for length, spoken in ((1.0, "1s"), (HOUR, "1h"), (24 * HOUR, "1d")):
        assert said(world.hold(length, "root", ROOT)).message == f"held for {spoken}"


def test_one_users_sum_is_bounded_and_the_words_say_whose_it_is() -> None:
    """Two thirds of the whole, whatever name the user takes; then it is refused, and others are not."""
    world = started()
    granted = 0.0
    for number in range(10):
        answer = said(world.hold(24 * HOUR, f"eve{number}", EVE))
        if not answer.done:
            assert "your holds" in answer.message
            assert "2d" in answer.message
            break
        until = max(hold.until for hold in world.state.core.people.holds)
        granted = until - world.state.at
        world.now = until - 60.0
        world.tick(QUIET)
    assert granted > 0.0
    assert world.now <= 48 * HOUR + 120.0
    assert said(world.hold(HOUR, "bob", BOB)).done


def test_holds_of_all_users_do_not_keep_a_machine_up_for_ever() -> None:
    """Twenty users in turn: the whole ends, which is said; root can still hold, and the machine is stopped at last."""
    world = started()
    while world.now < 90 * HOUR:
        refused = [said(world.hold(24 * HOUR, f"user {uid}", uid)) for uid in range(2000, 2020)]
        world.run(HOUR, QUIET, dt=14.0)
        if not world.state.core.people.holds:
            break
    assert all(not answer.done and "all users' holds" in answer.message for answer in refused)
    assert world.now <= 73 * HOUR
    assert hold_left(world.state.core, POLICY) == 0.0
    world.run(2 * HOUR, QUIET)
    assert world.stops()


def test_a_countdown_says_who_can_still_hold() -> None:
    """No message and no sentence advises a command that would be refused."""
    for total, who in ((72 * HOUR, "or somebody runs"), (24 * HOUR, "or root runs")):
        world = started(hold_total=total)
        for uid in (EVE, BOB):
            world.hold(24 * HOUR, f"uid {uid}", uid)
        world.release()
        core = world.state.core
        world.state = world.state._replace(
            core=core._replace(
                people=core.people._replace(charged=max(core.people.charged, 0.0 if total > 24 * HOUR else total))
            )
        )
        while world.phase() != "WARNING":
            world.tick(QUIET)
            world.settle()
        world.settle()
        world.tick(QUIET)
        assert world.last is not None
        assert who in str(world.last.sentence)
        warning = next(e for _, e in world.effects if isinstance(e, Tell) and e.kind == "warning")
        assert (warning.facts["hold_left"] == 0.0) is (total == 24 * HOUR)


@pytest.mark.parametrize("used", [0.0, 600.0, HOUR])
def test_time_that_a_released_hold_did_not_use_is_given_back(used: float) -> None:
    """To the user and to the whole; what was used, and a countdown that it ended, is not."""
    world = started()
    world.hold(2 * HOUR, "eve", EVE)
    assert world.state.core.people.charged == 2 * HOUR
    world.run(used, QUIET, answer=False)
    world.release(EVE, everything=False)
    assert world.state.core.people.charged == pytest.approx(max(used, POLICY.interval), abs=POLICY.interval)
    assert dict(world.state.core.people.accounts)[f"uid {EVE}"] == pytest.approx(world.state.core.people.charged)


def test_holding_and_releasing_does_not_prevent_a_stop_for_ever() -> None:
    """Each countdown that is ended costs its grace, also when the hold is given back at once."""
    policy = POLICY._replace(hold_total=900.0, hold_max=300.0)
    world = World(policy, 1)
    for _ in range(500):
        world.tick(QUIET)
        if world.phase() == "WARNING":
            world.hold(300.0, "eve", EVE)
            world.release(EVE, everything=False)
        world.settle()
        if any(isinstance(effect, Go) for _, effect in world.effects):
            break
    assert any(isinstance(effect, Go) for _, effect in world.effects)


def test_the_33rd_user_is_refused_aloud_and_root_is_not() -> None:
    """Nobody's hold is pushed out, and whoever has one may make it longer."""
    world = started()
    for uid in range(1, HOLDS_KEPT + 1):
        assert said(world.hold(HOUR, f"user {uid}", uid)).done
    refused = said(world.hold(2 * HOUR, "late", 9999))
    assert not refused.done
    assert "32 users already hold it" in refused.message
    assert said(world.hold(2 * HOUR, "user 7", 7)).done
    assert said(world.hold(2 * HOUR, "root", ROOT)).done
    assert {hold.uid for hold in world.state.core.people.holds} == {*range(HOLDS_KEPT + 1)}


def test_work_forgives_what_was_held_before() -> None:
    """A minute of work: only the time that is still to come counts, for each user and for all."""
    world = started()
    world.hold(2 * HOUR, "eve", EVE)
    world.hold(24 * HOUR, "root", ROOT)
    world.run(HOUR, QUIET, answer=False)
    world.run(100.0, BUSY, answer=False)
    assert world.state.core.people.charged == pytest.approx(HOUR - 100.0, abs=60.0)
    assert dict(world.state.core.people.accounts) == {f"uid {EVE}": pytest.approx(world.state.core.people.charged)}


def test_many_users_who_hold_and_release_flood_nobodys_terminal() -> None:
    """Each of hundreds of users is granted the hold, and a minute has so many messages; root's are told all the same."""
    world = started()
    for uid in range(2000, 2400):
        assert said(world.hold(1.0, f"user {uid}", uid)).done
        assert said(world.release(uid, everything=False)).done
    assert len([kind for kind in world.kinds() if kind in {"held", "hold_ended"}]) == TOLD_AT_ONCE
    world.hold(HOUR, "root", ROOT)
    world.release(ROOT)
    assert world.kinds()[-2:] == ["held", "hold_ended"]
    world.tick(QUIET, dt=HOLD_TOLD_EVERY_SECONDS + 1.0)
    world.hold(HOUR, "bob", BOB)
    assert world.kinds()[-1] == "held"


def test_a_few_users_who_hold_and_release_silence_nobody_else() -> None:
    """Each has a share of what is told in a minute; another one's hold is told."""
    world = started()
    for _ in range(20):
        for uid in (2000, 2001, 2002):
            world.hold(1.0, f"user {uid}", uid)
            world.release(uid, everything=False)
    assert len([kind for kind in world.kinds() if kind in {"held", "hold_ended"}]) == 3 * TOLD_OF_ONE_USER
    world.hold(HOUR, "bob", BOB)
    assert world.kinds()[-1] == "held"


def test_whoever_moves_the_deadline_and_then_holds_is_told_of_both() -> None:
    """That the deadline was moved is no word of the hold, however short."""
    world = started(lifetime=10 * HOUR)
    for name, uid in (("eve", EVE), ("root", ROOT)):
        world.send(AskExtend(world.now, HOUR, name, "", None, world.wall, uid))
        world.hold(300.0, name, uid)
        assert world.kinds()[-2:] == ["deadline_extended", "held"]


def test_a_user_releases_the_own_hold_and_no_other() -> None:
    """By the kernel's user id, under any name; the answer says what ended, what did not, and who can end that."""
    world = started()
    world.hold(HOUR, "root (uid 0)", ROOT)
    world.hold(HOUR, "eve (uid 1001)", EVE)
    world.hold(HOUR, "root", BOB)
    answer = said(world.release(EVE, everything=False))
    assert answer.done
    assert answer.message.startswith(
        "released: the hold of eve (uid 1001); not ended: the holds of root (uid 0), root ("
    )
    assert [hold.uid for hold in world.state.core.people.holds] == [ROOT, BOB]
    (told,) = (effect for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "hold_ended")
    assert told.facts["holders"] == ["root (uid 0)", "root"]
    again = said(world.release(EVE, everything=False))
    assert not again.done
    assert "refused: you have no hold here; not ended: the holds of root (uid 0), root" in again.message
    assert said(world.release(ROOT)).done
    assert world.state.core.people.holds == ()
    assert said(world.release(EVE, everything=False)).message == "nothing was held"


PAUSES = {"DONE": "the pause until work is seen", "FAILED": "the pause after a failure"}
"""How people read of what root's release ends beside holds."""


@pytest.mark.parametrize("phase", ["cannot", "acted", "FAILED"])
def test_only_root_makes_a_guard_watch_again_that_has_ended_an_incident(phase: str) -> None:
    """In a loop it would make a command run again and again in one idle period."""
    world = latched(phase)
    before = world.state.core
    for _ in range(20):
        answer = said(world.release(EVE, everything=False))
        assert not answer.done
        assert PAUSES[before.phase] in answer.message
        world.hold(1.0, "eve", EVE)
        world.release(EVE, everything=False)
        world.tick(QUIET)
        world.settle()
    assert world.state.core.phase == before.phase
    assert world.state.core.ending.retry_at == before.ending.retry_at
    assert len([effect for _, effect in world.effects if isinstance(effect, Go)]) <= 1
    assert said(world.release(ROOT)).message == f"released: {PAUSES[before.phase]}"
    assert world.phase() == "WATCHING"


def test_only_root_lifts_the_limit_on_repeated_stops() -> None:
    """I9: a user's release, or hold, is no work."""
    world = started()
    dates = (world.wall - 600.0, world.wall - 300.0)
    world.state = world.state._replace(
        core=world.state.core._replace(ledger=world.state.core.ledger._replace(stops=dates))
    )
    answer = said(world.release(EVE, everything=False))
    assert (answer.done, "the limit on repeated stops" in answer.message) == (False, True)
    assert world.state.core.ledger.stops == dates
    assert said(world.release(ROOT)).message == "released: the limit on repeated stops"
    assert not world.state.core.ledger.stops


def test_a_hold_that_comes_before_the_first_look_after_a_sleep_is_not_longer_over_a_boot() -> None:
    """The last look was hours ago then; what was promised is 600 s."""
    world = started()
    world.now += 2 * HOUR
    world.wall += 2 * HOUR
    world.hold(600.0, "eve (uid 1001)", EVE)
    kept = commitments(world.state, world.now, world.wall)
    (hold,) = initial("another boot", "i-1", kept, 20.0).core.people.holds
    assert hold.until == pytest.approx(620.0)


def test_a_hold_of_the_version_before_survives_an_upgrade() -> None:
    """Owner, end and reason stay, and its owner by the kernel's id may release it; within the boot and over one."""
    world = started()
    world.hold(2 * HOUR, "eve (uid 1001)", EVE)
    kept = commitments(world.state, world.now, world.wall)
    old = {name: value for name, value in plain(kept).items() if name not in {"holders", "accounts"}}
    assert all(len(hold) == 4 for hold in old["holds"]), "an older version reads them too"
    saved = dump(world.state)
    core = {name: value for name, value in saved["core"].items() if name not in {"accounts", "wish"}}
    core["holds"] = [hold[:4] for hold in core["holds"]]
    for state in (
        initial("another boot", "i-1", build(Commitments, old), 20.0),
        load(json.loads(json.dumps({**saved, "core": core}))),
    ):
        (hold,) = state.core.people.holds
        assert (hold.owner, hold.reason, hold.uid, hold.key) == ("eve (uid 1001)", "why", EVE, f"uid {EVE}")
        assert hold.until - state.at == pytest.approx(2 * HOUR)


@pytest.mark.parametrize(
    ("owner", "uid"),
    [("uid 7", 7), ("ann (uid 7)", 7), ("ann", None), ("", None), ("(uid 7) ann", None), ("x uid 7", None)],
)
def test_the_user_of_an_old_hold_is_in_its_owner(owner: str, uid: int | None) -> None:
    """What is no such owner keeps its name alone."""
    saved = {
        "holds": [[owner, "", 100.0, 1.7e9 + 100.0]],
        "held": 0.0,
        "stops": [],
        "spent_since": 0.0,
        "incident": None,
    }
    saved |= {"unused": 0.0, "ran": 0.0, "spent": 0.0, "wall": 1.7e9}
    core = initial("b", "i", build(Commitments, saved)).core
    assert core.clocks.wall == 1.7e9, "nothing was known against its date"
    (hold,) = core.people.holds
    assert hold == Hold(owner, "", 100.0, 1.7e9 + 100.0, uid)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hold", "release", "all", "tick", "restart", "boot"]),
            st.sampled_from([0, 1, 2, 3]),
            st.sampled_from([1.0, 500.0, 3000.0, 90000.0]),
        ),
        max_size=40,
    )
)
def test_the_sums_hold_whatever_users_do(steps: list[tuple[str, int, float]]) -> None:
    """No user beyond the own share, all together not beyond the whole, nothing below zero, root never charged or refused."""
    policy = POLICY._replace(hold_total=9000.0, hold_max=3000.0, kill_duration=1e6)
    world = World(policy, 1)
    world.tick(QUIET)
    for what, uid, seconds in steps:
        if what == "hold":
            answer = said(world.hold(seconds, f"name {seconds}", uid))
            assert answer.done or uid != 0
        elif what in {"release", "all"}:
            world.release(uid, everything=what == "all")
        elif what == "tick":
            world.tick(QUIET, dt=min(seconds, 14.0))
        elif what == "restart":
            world.state = reloaded(world.state)
        else:
            world.boot(off=60.0)
            world.tick(QUIET)
        core = world.state.core
        accounts = dict(core.people.accounts)
        assert "uid 0" not in accounts
        assert -1e-6 <= core.people.charged <= policy.hold_total + 1e-6
        assert all(0.0 < charged <= policy.hold_share + 1e-6 for charged in accounts.values())
        assert sum(accounts.values()) == pytest.approx(core.people.charged, abs=1e-3)
        assert len({hold.key for hold in core.people.holds}) == len(core.people.holds)


OTHERS = "only its owner, root and the agent's own user can end that"
TALK = [
    ("hold", EVE, 0.0, False, "refused: a hold needs a time above 0"),
    ("hold", EVE, float("nan"), False, "refused: a hold needs a time above 0"),
    ("hold", EVE, HOUR, True, "held for 1h"),
    ("hold", EVE, HOUR, True, "held for 1h: an earlier hold of yours lasts longer"),
    ("hold", EVE, 1.5 * HOUR, True, "held for 1h 30m"),
    ("release", BOB, 0.0, False, f"refused: you have no hold here; not ended: the hold of eve ({OTHERS})"),
    ("hold", BOB, 30 * HOUR, True, "held for 1d (you asked for 1d 6h, more than the limit allows)"),
    ("release", ROOT, 0.0, False, f"refused: you have no hold here; not ended: the holds of eve, bob ({OTHERS})"),
    ("release", BOB, 0.0, True, f"released: the hold of bob; not ended: the hold of eve ({OTHERS})"),
    ("release", EVE, 0.0, True, "released: the hold of eve"),
    ("release", EVE, 0.0, True, "nothing was held"),
    ("hold", EVE, HOUR, True, "held for 1h"),
    ("hold", BOB, HOUR, True, "held for 1h"),
    ("release all", ROOT, 0.0, True, "released: the holds of eve, bob"),
    ("release all", ROOT, 0.0, True, "nothing was held"),
]
"""What somebody asks for, and the answer."""


def test_whoever_holds_or_releases_hears_what_came_of_it() -> None:
    """How long it lasts and what cut it, what ended and what did not, and who can end that."""
    world, names = started(), {EVE: "eve", BOB: "bob", ROOT: "root"}
    for what, uid, seconds, done, words in TALK:
        step = world.hold(seconds, names[uid], uid) if what == "hold" else world.release(uid, everything="all" in what)
        assert (said(step).done, said(step).message) == (done, words)


@pytest.mark.parametrize("phase", ["cannot", "FAILED"])
def test_a_release_names_what_stays_and_who_can_end_that(phase: str) -> None:
    """A latch has no owner; and root ends both at once."""
    world = latched(phase)
    stays = PAUSES[world.phase()]
    who = "root and the agent's own user can end that"
    assert (
        said(world.release(EVE, everything=False)).message
        == f"refused: you have no hold here; not ended: {stays} (only {who})"
    )
    world.hold(HOUR, "eve", EVE)
    world.hold(HOUR, "bob", BOB)
    words = f"released: the hold of eve; not ended: the hold of bob and {stays} (only its owner, {who})"
    assert said(world.release(EVE, everything=False)).message == words
    assert said(world.release(ROOT)).message == f"released: the hold of bob and {stays}"
    core = world.state.core
    assert (core.phase, core.ending.done, core.incident, core.ending.remind_at) == ("WATCHING", "", None, float("inf"))


def test_a_user_who_used_up_the_own_share_hears_whose_it_is_and_for_how_long() -> None:
    """The own share, then that of all; the last seconds of it are still granted, and say that they were cut."""
    world = started(hold_total=900.0, hold_per_user=600.0, hold_max=500.0)
    talk = []
    for uid in (EVE, BOB, 7):
        for _ in range(3):
            talk.append(said(world.hold(400.0, "somebody", uid)).message)
            until_over(world)
    cut = "held for 3m 20s (you asked for 6m 40s, more than the limit allows)"
    assert talk == [
        "held for 6m 40s", cut, _used("your", "10m"),
        "held for 5m (you asked for 6m 40s, more than the limit allows)", *[_used("all users'", "15m")] * 5,
    ]  # fmt: skip
    assert said(world.hold(400.0, "root", ROOT)).message == "held for 6m 40s"


def _used(whose: str, limit: str) -> str:
    return f"refused: {whose} holds since work was last seen have used up the limit of {limit}; root can hold it longer"


def until_over(world: World) -> None:
    while world.state.core.people.holds:
        world.tick(QUIET)


@pytest.mark.parametrize("now", [10.0, 5000.0])
def test_the_same_user_is_told_of_once_a_minute_at_any_time(now: float) -> None:
    """In the first minute after boot as later; another user is another message, and so is the same one a minute later."""
    world = World(POLICY, 1, now=now)
    world.tick(QUIET)
    for seconds, uid in ((100.0, EVE), (110.0, EVE), (100.0, BOB), (120.0, EVE)):
        world.hold(seconds, str(uid), uid)
    assert world.kinds() == ["held", "held"]
    for passed, seconds, told in ((HOLD_TOLD_EVERY_SECONDS - 10.0, 300.0, 2), (10.0, 400.0, 3)):
        world.run(passed, QUIET)
        world.hold(seconds, "eve", EVE)
        assert world.kinds().count("held") == told


def test_a_hold_costs_a_look_at_least_and_gives_back_only_what_is_beyond() -> None:
    """A hold of a second costs as much as one interval; of an hour all but that is given back when it is released at once."""
    world = started()
    world.hold(1.0, "eve", EVE)
    assert world.state.core.people.charged == POLICY.interval
    world.release(EVE, everything=False)
    assert world.state.core.people.charged == POLICY.interval
    world.hold(HOUR, "eve", EVE)
    assert world.state.core.people.charged == POLICY.interval + HOUR
    world.release(EVE, everything=False)
    assert world.state.core.people.charged == 2 * POLICY.interval
    assert dict(world.state.core.people.accounts) == {f"uid {EVE}": 2 * POLICY.interval}
    world.hold(HOUR, "root", ROOT)
    world.release(ROOT)
    assert world.state.core.people.charged == 2 * POLICY.interval, "root is neither charged nor paid back"


def test_a_hold_that_ended_in_a_sleep_is_not_taken_from_the_next_one() -> None:
    """The next look comes later than the question: what ended meanwhile is over, and no time is below 0."""
    world = started(hold_total=1.5 * HOUR, hold_per_user=1.5 * HOUR)
    world.hold(HOUR, "eve", EVE)
    world.suspend(2 * HOUR)
    world.hold(HOUR, "eve", EVE)
    (hold,) = world.state.core.people.holds
    assert hold.until == world.now + 0.5 * HOUR


def test_a_release_gives_back_nothing_of_a_hold_that_ended_in_a_sleep() -> None:
    """The next look comes later than the question: an hour that was held through is not held a second time for nothing."""
    world = started()
    world.hold(HOUR, "eve", EVE)
    world.suspend(2 * HOUR)
    world.release(EVE, everything=False)
    assert world.state.core.people.charged == HOUR


def test_a_hold_after_one_that_ended_in_a_sleep_gives_back_its_own_time_alone() -> None:
    """Each costs its look: what could have been given back of the one before ended with that."""
    world = started()
    world.hold(HOUR, "eve", EVE)
    world.suspend(2 * HOUR)
    for _ in range(2):
        world.hold(0.5 * HOUR, "eve", EVE)
        world.release(EVE, everything=False)
    assert world.state.core.people.charged == HOUR + 2 * POLICY.interval


def test_a_hold_that_is_made_longer_costs_what_it_adds() -> None:
    """An hour, then two from the same moment on: two in all, each refundable but for a look; a shorter one costs nothing."""
    world = started()
    for seconds in (HOUR, 2 * HOUR, HOUR):
        world.hold(seconds, "eve", EVE)
    (hold,) = world.state.core.people.holds
    assert (world.state.core.people.charged, hold.refundable) == (2 * HOUR, 2 * HOUR - 2 * POLICY.interval)
    assert hold.until == world.now + 2 * HOUR
    assert hold.wall == world.wall + 2 * HOUR


def test_of_more_users_than_are_remembered_those_that_held_longest_are() -> None:
    """The sum of all still counts what is forgotten of one."""
    world = started(hold_total=1e9)
    world.checked = False
    for uid in range(1, 71):
        world.hold(100.0 + uid, str(uid), uid)
        world.release(uid, everything=False)
        world.hold(100.0 + uid, str(uid), uid)
        until_over(world)
    accounts = dict(world.state.core.people.accounts)
    assert len(accounts) == 64
    assert set(accounts) == {f"uid {uid}" for uid in range(7, 71)}
    assert world.state.core.people.charged > sum(accounts.values())


def test_a_hold_that_ends_a_countdown_is_always_told_and_says_so() -> None:
    """People were warned: whoever was told of just now, they must hear that nothing comes of it."""
    world = started(kill_duration=30.0, grace=60.0)
    world.hold(11.0, "eve", EVE)
    while world.phase() != "WARNING":
        world.tick(QUIET)
        world.settle()
    assert world.now < 60.0, "the first hold was told less than a minute ago"
    world.hold(12.0, "eve", EVE)
    told = [effect.facts for _, effect in world.effects if isinstance(effect, Tell) and effect.kind == "held"]
    assert [facts.get("takes_back") for facts in told] == [None, "warning"]
