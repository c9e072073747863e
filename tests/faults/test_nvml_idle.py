"""The idle power of a GPU: learnt within bounds, kept over a restart of the reader, and able to rise."""

import pytest

from costguard.readers.nvml.learnt import Learnt
from costguard.testing.nvml import Process, Values
from tests.faults.nvml_world import KEYS, Machine, World, settle

HELD: Values = {"processes": [Process(42)], "memory_used": 2000}
STILL = {2: 0.0, 5: 0.0, 10: 0.0, 20: 0.0, 21: 0.0, 60: 0.0, 61: 0.0}
ABOVE = "above what an idle GPU can draw"


def sees(machine: Machine, watts: float, ticks: int = 3) -> list[str]:
    """The signs of work after so many ticks at this power."""
    machine.watts = watts
    return machine.tick(ticks)[1]


@pytest.mark.parametrize("values", [{}, HELD])
@pytest.mark.parametrize(("limit", "watts", "works"), [
    (700, 233, False), (700, 260, True), (700, 600, True), (350, 110, False), (350, 130, True),
    (72, 38, False), (72, 45, True),
])  # fmt: skip
def test_power_of_work_from_the_first_look_is_never_learnt(
    machine: Machine, values: Values, limit: float, watts: float, works: bool
) -> None:
    """At 0 % and with nothing to compare with: what an idle board cannot draw is a sign of work, for as long as it lasts."""
    machine.script.set(**values)
    machine.script.set(limit=limit, default_limit=limit)
    machine.begin_anew()
    expected = [f"power {watts} W, {ABOVE}"] if works else []
    assert sees(machine, watts) == expected
    assert sees(machine, watts, 90) == expected


def test_a_lowered_limit_does_not_lower_what_the_board_draws_when_idle(machine: Machine) -> None:
    """An owner limits a board of 700 W to 200 W: its idle 80 W are still idle."""
    machine.script.set(limit=200)
    machine.begin_anew()
    assert sees(machine, 80) == []


@pytest.mark.parametrize(
    ("limit", "bare", "held"), [(700, 72, 122), (400, 54, 80), (350, 36, 102), (70, 10, 27), (72, 12, 35)]
)
def test_a_context_that_waits_is_idle_on_every_board_that_was_measured(
    machine: Machine, limit: float, bare: float, held: float
) -> None:
    """H100, A100, L40S, T4, L4: seen without and then with a context; a load on top of that is work."""
    machine.script.set(limit=limit, default_limit=limit)
    machine.begin_anew()
    assert sees(machine, bare) == []
    machine.script.set(**HELD)
    assert sees(machine, held, 10) == []
    assert sees(machine, held + max(70, limit / 5)) != []


def test_what_contexts_may_draw_follows_the_bare_idle_power(machine: Machine) -> None:
    """A process that never idled cannot teach more than a context costs, once the idle board is known."""
    machine.script.set(**HELD)
    assert sees(machine, 200) == [f"power 200 W, {ABOVE}"], "70 W bare, and a context adds 70 at most"


def test_a_level_learnt_too_high_is_cut_when_the_bare_one_is_seen(machine: Machine) -> None:
    """Work at 0 % passed for idle while nothing was known; it does not any more afterwards."""
    machine.script.set(**HELD)
    machine.begin_anew()
    assert sees(machine, 220) == []
    machine.script.set(processes=[], memory_used=0)
    sees(machine, 70)
    machine.script.set(**HELD)
    assert sees(machine, 220) == [f"power 220 W, {ABOVE}"]


# ---- the next reader --------------------------------------------------------------------------


@pytest.mark.parametrize("values", [{}, HELD])
def test_short_kernels_are_work_after_a_restart_too(machine: Machine, values: Values) -> None:
    """What one reader knew to be idle, the next one knows."""
    machine.script.set(**values)
    machine.begin_anew()
    assert sees(machine, 70) == []
    assert sees(machine, 110) == ["power 40 W above idle"]
    machine.restart()
    assert sees(machine, 110, 1) == ["power 40 W above idle"]
    assert sees(machine, 110) == ["power 40 W above idle"]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("watts", [70, 110, 260])
def test_the_power_of_work_bridges_no_restart(machine: Machine, watts: float, known: bool) -> None:
    """The hole is proven quiet by what is known of the idle power, not by whatever is drawn at this moment."""
    bridged = watts <= (70 if known else 110)
    sees(machine, watts)
    if not known:
        machine.learnt = Learnt()
    machine.restart()
    machine.now += 80.0
    covers = machine.tick(1)[2]
    assert (covers >= 90.0) is bridged


def test_the_power_of_this_moment_is_no_idle_power_when_it_is_that_of_work(machine: Machine) -> None:
    """A hole of 228 W, about what an idle board can draw, and 240 W now: nothing of that is known to be idle."""
    machine.begin_anew()
    sees(machine, 228, 1)
    machine.learnt = Learnt()
    machine.restart()
    machine.script.set(power=228)
    machine.now += 90.0
    machine.script.stand(machine.now)
    machine.script.set(power=240)
    assert machine.gpu.read(machine.now)[2] < 90.0


@pytest.mark.parametrize("known", [True, False])
def test_work_is_seen_by_readers_that_read_once(machine: Machine, known: bool) -> None:
    """Each reader ends after its first reading, whose samples show 0 %: the counter tells what was drawn since the one before."""
    if not known:
        machine.begin_anew()
    sees(machine, 600, 1)
    for _ in range(3):
        machine.restart()
        assert sees(machine, 600, 1) == ["power 530 W above idle" if known else f"power 600 W, {ABOVE}"]
    machine.restart()
    assert sees(machine, 70, 1) == []


@pytest.mark.parametrize("reader", ["the same", "another"])
def test_a_counter_that_began_anew_in_a_hole_proves_nothing(machine: Machine, reader: str) -> None:
    """The driver was loaded again in the hole, then a job ran for a minute: what is left of the sum looks like an idle GPU."""
    machine.script.set(energy=14e6)
    sees(machine, 70, 1)
    if reader == "another":
        machine.restart()
    machine.now += 1800.0
    machine.script.stand(machine.now)
    machine.script.set(energy=132e6)  # 65 W since then, and 74 W with the 14 MJ that were lost
    assert machine.tick(1)[2] < 100.0, "no more than the ring of samples shows"


def test_a_fresh_handle_forgets_nothing(world: World) -> None:
    """A GPU fails for a while, and is opened anew by the same process."""
    reader = world.reader()
    for _ in range(3):
        settle(0.6)
        reader.read()
    world.script.set(0, power=110)
    world.script.fail("nvmlDeviceGetSamples", 999, gpu=0)
    for _ in range(4):
        reader.read()
    world.script.heal()
    for _ in range(3):
        settle(0.6)
        answer = reader.read()
    assert ["above idle" in sign for sign in answer["gpus"][0][2]] == [True]


def test_what_was_learnt_is_told_when_it_changes(world: World) -> None:
    """The guard keeps it for the next reader, which then needs no idle moment to know what work is."""
    reader = world.reader()
    told: dict[str, object] = {}
    for _ in range(3):
        settle(0.6)
        told |= reader.read().get("learnt", {})
    assert set(told) == {"0000:01:00.0", "0000:02:00.0"}
    assert "learnt" not in reader.read()
    counters = reader.read()["counters"]
    world.script.set(0, power=110)
    fresh = world.reader(counters=counters, known=KEYS, learnt=told)
    fresh.read()
    settle(0.6)
    assert ["above idle" in sign for sign in fresh.read()["gpus"][0][2]] == [True]


@pytest.mark.parametrize("saved", [
    7, [], {"bare": 7e9}, {"bare": -5}, {"bare": float("nan")}, {"bare": float("inf")}, {"bare": "70"}, {"bare": True},
    {"bare": 0}, {"bare": None, "job": -1, "own": 5}, {"job": 1}, {"job": 1, "own": float("nan")}, {"engines": 5},
])  # fmt: skip
def test_garbage_teaches_nothing(saved: object) -> None:
    """What a reader or a file hands over is looked at as if a stranger had written it."""
    assert Learnt(saved).saved() == {}


def test_a_level_that_was_handed_over_is_bounded_again(machine: Machine) -> None:
    """Neither a file nor an earlier reader can teach that 600 W are idle."""
    machine.learnt = Learnt({"bare": 600_000, "held": 600_000})
    machine.restart()
    assert sees(machine, 600) == [f"power 600 W, {ABOVE}"]


@pytest.mark.parametrize("counters", [7, {"0000:01:00.0": "x"}, {"0000:01:00.0": [float("nan"), 1]}, {"x": [1]}])
def test_garbage_counters_cost_no_reader_its_life(world: World, counters: dict[str, object]) -> None:
    """They come from another process."""
    reader = world.reader(counters=counters, learnt={"0000:01:00.0": 5})
    assert [row[1] for row in reader.read()["gpus"]] == [0, 0]


# ---- rising -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [{}, {"gpm": True, "gpm_metrics": STILL}, {**HELD, "gpm": True, "gpm_metrics": STILL}]
)
def test_one_low_reading_does_not_keep_the_machine_up_for_ever(machine: Machine, values: Values) -> None:
    """45 W seen once, 75 W flat from then on and nothing else that shows work: idle after ten minutes, and ready for work."""
    machine.script.set(**values)
    machine.begin_anew()
    sees(machine, 45, 2)
    assert sees(machine, 75, 59) == ["power 30 W above idle"]
    assert sees(machine, 75, 4) == []
    assert sees(machine, 90) == [], "within the noise of a large board"
    assert sees(machine, 120) == ["power 45 W above idle"], "the new level counts, not the highest that it forgave"


@pytest.mark.parametrize(
    "values",
    [
        {**HELD},  # without activity counters, a process may be at work between two samples
        {"gpm": True, "gpm_metrics": STILL | {2: 3.0}},
        {"gpm": True, "gpm_metrics": {2: 0.0}},  # not all of them are known
        {"encoder": 1},
        {"util": 1},
        {"memory_used": 2000},
        {"memory_used": "na"},
        {"counters": {198: 50e6}},
    ],
)
def test_what_else_shows_work_or_could_hide_it_keeps_the_level(machine: Machine, values: Values) -> None:
    """Then power above the level stays a sign, for as long as it lasts."""
    machine.begin_anew()
    sees(machine, 70, 2)
    if "processes" in values:
        machine.script.set(**HELD)
        sees(machine, 70, 10)
    machine.script.set(**values)
    assert "power 40 W above idle" in sees(machine, 110, 100)


def test_power_above_what_an_idle_gpu_draws_never_rises(machine: Machine) -> None:
    """However flat it is, and however long."""
    assert sees(machine, 240, 400) == ["power 170 W above idle"]


def test_power_that_moves_is_no_idle_power(machine: Machine) -> None:
    """Bursts that no sample meets: the means differ by more than the noise."""
    for number in range(200):
        signs = sees(machine, 100 + 40 * (number % 2), 1)
    assert signs == ["power 70 W above idle"]


def test_the_lowest_of_ten_minutes_becomes_the_level(machine: Machine) -> None:
    """Not their mean: work that begins in them must not hide in it."""
    machine.begin_anew()
    sees(machine, 45, 2)
    for number in range(64):
        signs = sees(machine, 75 + number % 20, 1)
    assert signs == []
    assert sees(machine, 75 + 22) == ["power 22 W above idle"]


@pytest.mark.parametrize("values", [{"memory_used": 40}, {**HELD, "memory_used": 3000}])
def test_whoever_comes_begins_the_ten_minutes_anew(machine: Machine, values: Values) -> None:
    """Memory or contexts that change are somebody at work."""
    machine.script.set(gpm=True, gpm_metrics=STILL)
    machine.begin_anew()
    sees(machine, 45, 2)
    sees(machine, 100, 50)
    machine.script.set(**values)
    assert sees(machine, 100, 30) != [] or "processes" in values


def test_a_counter_that_stands_proves_nothing(machine: Machine) -> None:
    """No board draws nothing: such a mean is neither quiet nor a level."""
    sees(machine, 0)
    load, signs, covers, _ = machine.tick(1, 200.0)
    assert (load, signs) == (0.0, [])
    assert covers < 200.0
    assert sees(machine, 75) == []
