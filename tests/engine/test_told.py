"""What messages say: when, about which machine, what it costs, and when something happens next."""

from itertools import pairwise
from typing import Any

import pytest

from costguard.engine import Device, Devices, Known, Policy
from costguard.engine.effects import Answer, Go, Prepare, Tell
from tests.engine.test_acting import IDLE, until
from tests.engine.world import BASE, BUSY, DARK, EPOCH, QUIET, World

HOUR = 3600.0


def messages(world: World, *kinds: str) -> list[tuple[float, Any]]:
    """When each was asked for, and its facts."""
    return [(at, e.facts) for at, e in world.effects if isinstance(e, Tell) and (not kinds or e.kind in kinds)]


def told(world: World, kind: str) -> Any:
    """The facts of the only one of its kind."""
    ((_, facts),) = messages(world, kind)
    return facts


def test_every_message_has_the_date_of_its_moment_and_names_the_machine() -> None:
    """Of a tick, of an outcome, of a wish; also after the clock was set."""
    world = World(IDLE._replace(price_per_hour=2.0), 1)
    world.run(600.0, BUSY)
    world.wall += 5000.0
    world.run(330.0, QUIET)
    world.hold(60.0)
    world.run(100.0, QUIET)
    until(world, "ACTING")
    world.settle(Go="failed")
    until(world, "CONFIRMING")
    world.tick(QUIET)
    world.settle(Confirm="pending")
    for _ in range(6):
        world.tick(QUIET)
        world.settle(Confirm="done")
    kinds = world.kinds()
    assert {"warning", "held", "hold_ended", "acting", "accepted", "stopping", "done"} <= set(kinds)
    for at, facts in messages(world):
        assert facts["wall"] - (EPOCH + at) in (pytest.approx(0.0, abs=1.0), pytest.approx(5000.0, abs=1.0))
        assert (facts["wall"] - EPOCH - at > 2500.0) is (at > 600.0)
        assert (facts["instance"], facts["mode"], facts["action"]) == ("i-1", "live", "stop")
        assert (facts["price_per_hour"], facts["currency"], facts["grace"]) == (2.0, "USD", 60.0)


@pytest.mark.parametrize(
    ("action", "boot_grace", "wait"), [("stop", 2000.0, 2000.0), ("command", 2000.0, 370.0), ("stop", 60.0, 370.0)]
)
def test_a_warning_says_when_the_action_comes_and_it_comes_then(action: str, boot_grace: float, wait: float) -> None:
    """Not before the boot's grace is over, where the machine ends; and dates say the same as durations."""
    world = World(IDLE._replace(kill_action=action, boot_grace=boot_grace), 1)
    while not world.stops() and world.now < 4000.0:
        world.tick(QUIET)
        world.settle()
    at, facts = messages(world, "warning")[0]
    due = at + facts["due_in_seconds"]
    assert due == pytest.approx(wait, abs=21.0)
    assert facts["due_wall"] == pytest.approx(EPOCH + due)
    (acted,) = [when for when, effect in world.effects if isinstance(effect, Go)]
    assert due <= acted <= due + 20.0


def test_how_it_ended_is_told_again_ever_more_rarely_until_somebody_hears() -> None:
    """10 and 20 s after each failure, as often as a warning is tried; nobody hears it a fourth time."""
    policy = IDLE._replace(warn_attempts=3, interval=5.0)
    world = until(World(policy, 1), "CONFIRMING")
    for _ in range(60):
        world.tick(QUIET)
        world.settle(Confirm="done", Tell="failed")
    gaps = [b - a for a, b in pairwise(world.times("done"))]
    assert len(gaps) == 2
    assert [10.0 <= gaps[0] <= 20.0, 20.0 <= gaps[1] <= 30.0] == [True, True]


def test_the_end_of_a_hold_is_told_with_whose_it_was() -> None:
    """The last of several holds that end; before that the machine is held still."""
    world = World(IDLE, 1)
    world.run(50.0, QUIET)
    world.hold(600.0, "ann")
    world.hold(1200.0, "bob")
    world.run(900.0, QUIET)
    assert messages(world, "hold_ended") == []
    world.run(400.0, QUIET)
    assert (told(world, "hold_ended")["owner"], told(world, "hold_ended")["hold"]) == ("bob", "why")
    assert world.times("hold_ended") == [1250.0], "in the look that falls on its very end"


@pytest.mark.parametrize("first", ["ann", "bob"])
def test_of_holds_that_end_in_one_look_the_last_end_is_told(first: str) -> None:
    """Whoever was granted the hold first: until then the machine was held."""
    world = World(IDLE, 1)
    world.run(50.0, QUIET)
    for owner in (first, {"ann": "bob", "bob": "ann"}[first]):
        world.hold({"ann": 595.0, "bob": 597.0}[owner], owner)
    world.run(700.0, QUIET)
    assert told(world, "hold_ended")["owner"] == "bob"


def test_an_announcement_that_did_not_come_true_is_forgotten() -> None:
    """Ten minutes after its moment the machine's own rules go on."""
    world = World(IDLE, 1)
    world.run(100.0, QUIET)
    world.notice(due=120.0)
    world.run(700.0, QUIET)
    assert (world.state.core.notice.due is not None, world.times("warning")) == (True, [])
    world.run(40.0, QUIET)
    assert world.state.core.notice.due is None
    assert world.times("warning")


@pytest.mark.parametrize("price", [0.5, 10.0])
def test_a_new_budget_period_begins_at_nothing(price: float) -> None:
    """What this boot cost before it is not counted, and what it costs from then on is, to the minute."""
    policy = BASE._replace(budget=5.0 * price, price_per_hour=price, budget_period=7.0 * HOUR, stop_busy=True)
    world = World(policy._replace(budget=100.0 * price), 1, checked=False)
    world.run(8.0 * HOUR, BUSY)
    assert world.times("warning") == []
    world.reload(policy)
    world.run(6.0 * HOUR, BUSY)
    assert world.times("warning")[0] == pytest.approx(12.0 * HOUR, abs=60.0)


@pytest.mark.parametrize(("price", "asleep"), [(2.0, 0.0), (2.0, HOUR), (None, 0.0)])
def test_what_is_unknown_is_told_with_its_time_and_its_money(price: float | None, asleep: float) -> None:
    """Since the first reading that was missing; without a price there is no sum, and zero would be a lie."""
    world = World(IDLE._replace(price_per_hour=price, unknown_alarm=900.0), 2, checked=False)
    world.run(100.0, QUIET, QUIET)
    if asleep:
        world.suspend(asleep)
        world.run(100.0, QUIET, QUIET)
    began = world.now
    world.run(1000.0, DARK, QUIET)
    facts = told(world, "unknown_alarm")
    assert facts["unknown_seconds"] == pytest.approx(900.0, abs=11.0)
    assert facts["unknown_gpus"] == ["0000:00:00.0"]
    assert facts["money"] == (None if price is None else pytest.approx(0.5, abs=0.01))
    assert world.times("unknown_alarm")[0] == pytest.approx(began + 900.0, abs=11.0)


@pytest.mark.parametrize("price", [3.0, None])
def test_a_reminder_names_the_money_since(price: float | None) -> None:
    """Daily while the machine cannot be stopped, with what it cost since it should have been."""
    world = World(IDLE._replace(price_per_hour=price), 1, checked=False)
    world.run(400.0, QUIET, answer=False)
    while world.phase() != "DONE":
        world.tick(QUIET)
        world.settle(Prepare="refuse", Check="failed")
    closed = world.now
    while world.now < closed + 49.0 * HOUR:
        world.tick(QUIET, dt=15.0)
        world.settle(Check="failed")
    reminders = messages(world, "reminder")
    assert [round((at - closed) / HOUR) for at, _ in reminders] == [24, 48]
    for at, facts in reminders:
        assert facts["money"] == (None if price is None else pytest.approx((at - closed) / HOUR * 3.0, abs=0.1))
        assert facts["done"] == "cannot"


def test_a_hold_gives_back_only_what_its_own_user_paid() -> None:
    """Two users hold; each gets back what the own hold does not use, whoever was charged last."""
    world = World(IDLE._replace(hold_total=1e6), 1)
    world.run(50.0, QUIET)
    for uid, seconds in ((1000, 7200.0), (1001, 3600.0), (1000, 10800.0)):
        world.hold(seconds, f"user {uid}", uid)
    assert dict(world.state.core.people.accounts) == {"uid 1000": 10800.0, "uid 1001": 3600.0}
    world.run(1000.0, QUIET)
    world.release(1001, everything=False)
    assert dict(world.state.core.people.accounts)["uid 1000"] == 10800.0
    owner = next(hold for hold in world.state.core.people.holds if hold.uid == 1000)
    assert owner.refundable == pytest.approx(10800.0 - 20.0)


@pytest.mark.parametrize("how", ["first tick", "state lost"])
def test_a_boot_that_slept_before_the_guard_looked_gets_its_grace(how: str) -> None:
    """I9: a machine that woke up counts as started then, also where nobody remembers when that was."""
    policy: Policy = IDLE._replace(boot_grace=1200.0, unused_after=None)
    world = World(policy, 1, now=90000.0, checked=False)
    if how == "state lost":
        world.run(100.0, BUSY)
        world.lose_state()
    world.suspended = 50000.0
    began = world.now
    world.run(4000.0, QUIET)
    assert world.times("warning")[0] >= began + 1200.0 - policy.grace - 20.0
    assert world.stops()[0] >= began + 1200.0


@pytest.mark.parametrize("phase", ["WATCHING", "WARNING", "ACTING", "CONFIRMING", "DONE", "FAILED"])
def test_an_announcement_ends_a_countdown_and_nothing_else(phase: str) -> None:
    """At once, with its words; what is out, and how an incident ended, stays as it is."""
    world = World(IDLE, 1)
    if phase != "WATCHING":
        world = until(world, phase, Prepare={"DONE": "refuse", "FAILED": "failed"}.get(phase, "ready"))
    incident = world.state.core.incident
    world.notice(600.0)
    cancelled = messages(world, "cancelled")
    assert [facts["why"] for _, facts in cancelled] == (["spot interruption"] if phase == "WARNING" else [])
    assert world.phase() == ("WATCHING" if phase == "WARNING" else phase)
    assert world.state.core.incident == (None if phase == "WARNING" else incident)
    assert told(world, "notice")["why"] == "spot interruption"


@pytest.mark.parametrize(("action", "mode", "kinds"), [
    ("end_process", "live", ["warning", "acting", "done"]),
    ("end_process", "dry-run", ["warning", "would_act"]),
    ("command", "live", ["warning", "acting", "done"]),
    ("stop", "dry-run", ["warning", "would_act"]),
    ("stop", "live", ["warning", "acting", "accepted"]),
])  # fmt: skip
def test_an_incident_is_told_in_this_order(action: str, mode: str, kinds: list[str]) -> None:
    """First that it comes, then that it begins, then what became of it; nothing twice."""
    world = World(IDLE._replace(kill_action=action, mode=mode), 1)
    while world.phase() not in {"CONFIRMING", "DONE"}:
        world.tick(QUIET)
        world.settle(**({"Go": "done"} if action == "command" else {}))
    assert world.kinds() == kinds


@pytest.mark.parametrize("grace", [60.0, 90.0, 120.0])
def test_a_countdown_that_ends_with_a_look_ends_in_it(grace: float) -> None:
    """Where delivery and looks fall on the same seconds nothing is rounded away."""
    world = until(World(IDLE._replace(grace=grace), 1), "WARNING")
    for identity, effect in list(world.pending.items()):
        if isinstance(effect, Tell):
            world.answer(identity, "delivered", after=0.0)
    warned = world.now
    while world.phase() == "WARNING":
        world.tick(QUIET)
        world.settle()
    assert world.now == warned + grace


@pytest.mark.parametrize("prices", [(None, None), (2.0, "EUR"), (0.0, "USD")])
def test_what_a_stop_saved_is_told_at_the_next_boot(prices: tuple[float | None, str | None]) -> None:
    """Seconds off are facts; money only where a price is known, and never less than nothing."""
    price, currency = prices
    policy = IDLE._replace(price_per_hour=price, currency=currency or "USD", saving_limit=None)
    world = until(World(policy, 1), "CONFIRMING")
    stopped = world.wall
    world.boot(off=7200.0)
    world.tick(QUIET)
    facts = told(world, "closed")
    assert facts["off_seconds"] == pytest.approx(7210.0, abs=11.0)
    assert facts["stopped_wall"] == pytest.approx(stopped, abs=11.0)
    assert facts["started_wall"] == world.wall
    assert facts["saved"] == (None if price is None else pytest.approx(price * facts["off_seconds"] / HOUR))


LEVELS = {
    "warning": "warning", "acting": "warning", "accepted": "warning", "stopping": "warning", "done": "info",
    "cannot": "critical", "failed": "critical", "next_action": "warning", "asking": "warning", "would_act": "info",
    "held": "info", "hold_ended": "info", "notice": "critical", "unknown_alarm": "critical", "unknown_recovered": "info",
    "preflight_refused": "critical", "preflight_passed": "info", "deadline_passed": "warning", "came_back": "info",
    "reminder": "critical", "outcome_unknown": "critical", "closed": "info",
    "deadline_ahead": "warning", "deadline_extended": "info", "countdown": "warning", "armed": "info",
}  # fmt: skip
"""How loudly people hear of each; *cancelled* depends on whose stop it was."""


@pytest.mark.parametrize("person", [False, True])
def test_a_persons_own_stop_is_taken_back_more_loudly(person: bool) -> None:
    """Somebody waits for it; of the machine's own countdown people hear that they need not hurry."""
    world = World(IDLE, 1)
    world.run(100.0, QUIET)
    if person:
        world.ask_stop()
    else:
        until(world, "WARNING")
    world.notice(600.0) if not person else world.hold(3600.0)
    levels = [e.level for _, e in world.effects if isinstance(e, Tell) and e.kind == "cancelled"]
    assert levels == (["warning"] if person else ["info"])


@pytest.mark.parametrize(
    "wishes",
    [
        {}, {"Prepare": "refuse"}, {"Prepare": "failed"}, {"Go": "unknown", "Confirm": "unknown"}, {"Go": "done"},
        {"Confirm": "pending"}, {"Check": "refuse"}, {"Go": "refused"}, {"Confirm": "failed"},
    ],
)  # fmt: skip
def test_each_message_is_as_loud_as_it_is_grave(wishes: dict[str, str]) -> None:
    """In every story of an attempt, with a hold, an announcement, a reading that is missing and a boot."""
    world = World(IDLE._replace(fallback=("terminate",), unknown_alarm=60.0, lifetime=30000.0), 1, checked=False)
    world.run(100.0, DARK)
    world.run(20.0, QUIET)
    world.hold(100.0)
    end = world.now + 6000.0
    while world.now < end:
        world.tick(QUIET)
        world.settle(**wishes)
    world.notice(60.0)
    world.boot()
    world.tick(QUIET)
    for _, effect in world.effects:
        if isinstance(effect, Tell) and effect.kind != "cancelled":
            assert (effect.kind, effect.level) == (effect.kind, LEVELS[effect.kind])
    assert len(set(world.kinds())) > 5


def test_whoever_asks_for_a_stop_is_answered() -> None:
    """That it begins, that it is under way already and by whom, or why not."""
    world = World(IDLE, 1)
    world.run(100.0, BUSY)
    said: list[tuple[str, bool, str]] = []
    for moment in ("asked", "again", "acting", "held by the administrator"):
        if moment == "acting":
            until(world, "ACTING")
        elif moment.startswith("held"):
            world.reload(IDLE._replace(admin_hold="exam week"))
        (answer,) = [effect for effect in world.ask_stop("bob").effects if isinstance(effect, Answer)]
        said.append((moment, answer.done, answer.message))
    assert said == [
        ("asked", True, "stop begins"),
        ("again", True, "already under way: bob asked for it"),
        ("acting", False, "already under way"),
        ("held by the administrator", False, "refused: the administrator holds it: exam week"),
    ]


@pytest.mark.parametrize("meanwhile", ["sleep", "work"])
def test_tries_after_something_new_begin_at_an_hour_again(meanwhile: str) -> None:
    """What failed before the machine slept, or worked, is no reason to wait longer."""
    world = World(IDLE, 1, checked=False)

    def fails() -> float:
        while world.phase() == "FAILED":
            world.tick(QUIET)
        while world.phase() != "FAILED":
            world.tick(QUIET)
            world.settle(Prepare="failed")
        return round(world.state.core.ending.retry_at - world.now)

    assert [fails(), fails()] == [3600, 7200]
    if meanwhile == "sleep":
        world.suspend(500.0)
    elif meanwhile == "work":
        world.run(100.0, BUSY)
    world.tick(QUIET)
    assert [fails(), fails()] == [3600, 7200]


def test_a_gpu_is_called_by_its_number_and_its_name_where_they_are_known() -> None:
    """Else by its number alone, or by its address."""
    world = World(IDLE, 3)
    world.send(Devices(0.0, (Device(world.keys[0], 0, "GPU-0", "A100"), Device(world.keys[1], 1, "GPU-1", ""))))
    world.run(310.0, QUIET, QUIET, QUIET)
    assert told(world, "warning")["gpus"] == ["GPU 0 (A100)", "GPU 1", "0000:02:00.0"]


@pytest.mark.parametrize("said", ["", "r-2"])
def test_the_receipt_of_the_plan_stays_unless_the_outcome_has_its_own(said: str) -> None:
    """Whoever asks the cloud later needs one."""
    world = until(World(IDLE, 1), "WARNING")
    while world.phase() != "DONE":
        for identity, effect in list(world.pending.items()):
            if isinstance(effect, Prepare):
                world.answer(identity, "ready", receipt="r-1")
            elif isinstance(effect, Go):
                world.answer(identity, "done", receipt=said)
        world.settle()
        world.tick(QUIET)
    incident = world.state.core.incident
    assert incident is not None
    assert incident.receipt == (said or "r-1")


def test_a_gpu_that_cannot_be_read_holds_a_countdown_up_and_does_not_end_it() -> None:
    """While it is so nothing is decided; what follows depends on what reaches over the hole."""
    for covers, phase in ((0.0, "WATCHING"), (400.0, "WARNING")):
        world = World(IDLE._replace(grace=300.0), 2)
        world.run(320.0, QUIET, QUIET)
        world.run(60.0, DARK, QUIET)
        assert (world.phase(), world.times("cancelled")) == ("WARNING", [])
        world.tick(Known(0.0, (), covers), QUIET)
        assert world.phase() == phase


def test_the_message_after_unknown_has_recovered_has_an_id_of_its_own() -> None:
    """Else whether anybody got the one would count for the other."""
    world = World(BASE, 1)
    world.run(60.0, BUSY)
    world.run(700.0, DARK)
    world.run(60.0, BUSY)
    world.hold(600.0)
    ids = [effect.id for _, effect in world.effects if isinstance(effect, Tell)]
    assert {"unknown_recovered", "held"} <= set(world.kinds())
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("phase", ["DONE", "FAILED"])
def test_a_sleep_after_an_incident_has_ended_is_no_news(phase: str) -> None:
    """Nothing was pending, so nothing came back."""
    world = until(World(IDLE, 1), phase, Prepare={"DONE": "refuse", "FAILED": "failed"}[phase])
    world.suspend(600.0)
    world.tick()
    assert (world.phase(), world.state.core.incident) == ("WATCHING", None)
    assert "came_back" not in world.kinds()
