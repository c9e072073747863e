"""When background work begins and ends, on simulated time."""

import itertools

import pytest

from costguard.fill.jobs import GpuView, Patience, State, View
from costguard.fill.slots import LONGEST_PAUSE_SECONDS, SOON_SECONDS, Slot, WatchedGpus, chosen

PATIENCE = Patience(idle_for=10.0, rest=30.0, unknown_for=5.0, retry=5.0, once=False)


def view(*states: State, users: str = "", why: str = "python 42") -> View:
    """One look at so many GPUs."""
    return View(
        tuple(
            [GpuView(f"k{n}", f"GPU-{n}", n, state, "" if state == "free" else why) for n, state in enumerate(states)]
        ),
        users,
    )


class Life:
    """One slot on all GPUs, and a look each second."""

    def __init__(self, *keys: str, patience: Patience = PATIENCE, gpus: int = 1) -> None:
        free: list[State] = ["free"] * gpus
        self.gpus = WatchedGpus(view(*free), 0.0, [f"k{gpu}" for gpu in range(gpus)])
        self.slot = Slot(0, keys or ("k0",), patience)
        self.now = 0.0
        self.story: list[tuple[str, float]] = []

    def look(self, *states: State, seconds: int = 1, users: str = "") -> None:
        """The same look for so long, and what comes of it."""
        for _ in range(seconds):
            self.now += 1.0
            self.gpus.see(view(*states, users=users), self.now)
            self.step()

    def silence(self, seconds: int) -> None:
        """No look at all."""
        for _ in range(seconds):
            self.now += 1.0
            self.step(looked=False)

    def step(self, *, looked: bool = True) -> None:
        if self.slot.running and self.slot.must_end(self.gpus, self.now):
            self.slot.yielded(self.now)
            self.story.append(("ends", self.now))
        elif looked and self.slot.may_begin(self.gpus, [self.slot], self.now):
            self.slot.begun(self.now)
            self.story.append(("begins", self.now))


def test_work_begins_when_the_gpu_was_free_for_so_long() -> None:
    """Counted from the first look that saw it free."""
    life = Life()
    life.look("free", seconds=20)
    assert life.story == [("begins", 11.0)]


@pytest.mark.parametrize("state", ["taken", "unknown"])
def test_what_is_not_free_begins_the_time_anew(state: State) -> None:
    """One look in between is enough: unknown is never free."""
    life = Life()
    life.look("free", seconds=9)
    life.look(state)
    life.look("free", seconds=20)
    assert life.story == [("begins", 21.0)]


def test_work_ends_with_the_look_that_sees_somebody() -> None:
    """At once."""
    life = Life()
    life.look("free", seconds=15)
    life.look("taken")
    assert life.story == [("begins", 11.0), ("ends", 16.0)]


def test_somebody_who_comes_and_goes_does_not_start_and_stop_the_work() -> None:
    """Stressor: dwell times: of a job that comes every 12 s for 2 s the work sees one start in `rest` and its free time, not each gap."""
    life = Life()
    for _ in range(25):
        life.look("free", seconds=12)
        life.look("taken", seconds=2)
    begins = [at for what, at in life.story if what == "begins"]
    assert all(later - earlier >= PATIENCE.rest for earlier, later in itertools.pairwise(begins))
    assert len(begins) > 3


def test_unknown_ends_the_work_after_its_time_and_not_before() -> None:
    """Neither a hole nor a watcher that was replaced costs the work; a GPU that stays unseen does."""
    life = Life()
    life.look("free", seconds=15)
    life.look("unknown", seconds=5)
    life.look("free")
    life.silence(5)
    life.look("free")
    assert life.story == [("begins", 11.0)]
    life.silence(6)
    assert life.story[1:] == [("ends", 33.0)]


def test_a_gpu_that_is_not_listed_any_more_is_unknown() -> None:
    """And so are all, where the driver fails."""
    life = Life()
    life.look("free", seconds=12)
    life.look(seconds=6)
    assert [what for what, _ in life.story] == ["begins", "ends"]
    assert "it is not listed any more" in life.slot.must_end(life.gpus, life.now)
    life.gpus.see(View(error="the driver is gone"), life.now)
    assert "the driver is gone" in life.slot.must_end(life.gpus, life.now)


def test_users_are_a_reason_to_yield_on_every_gpu() -> None:
    """And nothing begins while they are there."""
    life = Life()
    life.look("free", seconds=12)
    life.look("free", seconds=100, users="ann on pts/1")
    assert life.story == [("begins", 11.0), ("ends", 13.0)]
    assert life.slot.must_end(life.gpus, life.now) == "ann on pts/1"
    life.look("free")
    assert life.story[-1] == ("begins", 113.0)


def test_a_set_needs_all_of_its_gpus_and_yields_for_any() -> None:
    """gpu_mon: one process for several GPUs."""
    life = Life("k0", "k1", gpus=2)
    life.look("free", "taken", seconds=20)
    assert not life.story
    life.look("free", "free", seconds=12)
    life.look("taken", "free")
    assert life.story == [("begins", 31.0), ("ends", 33.0)]


def test_two_kinds_of_work_never_share_a_gpu() -> None:
    """gpu_mon: work for all GPUs stands before that for one, and what runs keeps its GPU."""
    life = Life(gpus=2)
    both = Slot(1, ("k0", "k1"), PATIENCE)
    life.look("free", "free", seconds=11)
    assert life.slot.running
    assert not both.may_begin(life.gpus, [life.slot, both], life.now + 100)
    life.slot.yielded(life.now)
    assert both.may_begin(life.gpus, [life.slot, both], life.now)


def test_a_gpu_without_a_name_gets_no_work() -> None:
    """CUDA is told of it by UUID alone."""
    life = Life()
    nameless = view("free")._replace(gpus=(view("free").gpus[0]._replace(uuid=""),))
    life.gpus.see(nameless, 1.0)
    assert not life.slot.may_begin(life.gpus, [], 100.0)


def test_work_that_ends_soon_waits_longer_each_time() -> None:
    """Stressor: back-off after crashes, up to five minutes; work that lasted begins anew at once, and with a clean record."""
    slot = Slot(0, ("k0",), PATIENCE)
    pauses = []
    for _ in range(8):
        slot.begun(0.0)
        pauses.append(slot.ended(1, 1.0))
    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]
    slot.begun(0.0)
    assert slot.ended(1, SOON_SECONDS) == 0.0
    slot.begun(0.0)
    assert slot.ended(0, 1.0) == 5.0


def test_what_cannot_be_started_waits_too() -> None:
    """However often, without an end of numbers."""
    slot = Slot(0, ("k0",), PATIENCE)
    assert [slot.ended(127, 0.0) for _ in range(2000)][-1] == LONGEST_PAUSE_SECONDS


def test_work_that_is_done_is_done() -> None:
    """With `once`, and only for code 0."""
    once = PATIENCE._replace(once=True)
    life = Life(patience=once)
    done = [(life.slot.ended(code, 0.0), life.slot.done)[1] for code in (1, 0)]
    assert done == [False, True]
    life.look("free", seconds=1000)
    assert not life.story


def test_people_are_told_of_changes_alone() -> None:
    """Stressor: not each second the same."""
    gpus = WatchedGpus(view("free", "free", "free"), 0.0, ["k0", "k1"])
    assert gpus.see(view("free", "free", "free"), 1.0) == ["GPU 0 is free", "GPU 1 is free"], (
        "not of one that is not used"
    )
    assert gpus.see(view("free", "free"), 2.0) == []
    assert gpus.see(view("free", "taken"), 3.0) == ["GPU 1 is used by python 42"]
    assert gpus.see(view("free", "taken", why="python 43"), 4.0) == []
    assert gpus.see(view("free", "free", users="ann on pts/1"), 5.0) == ["ann on pts/1", "GPU 1 is free"]
    assert gpus.see(view("free", "free"), 6.0) == ["nobody is at a terminal any more"]


def test_gpus_are_named_by_number_or_uuid() -> None:
    """In any order, each once; one that is not there is named."""
    seen = view("free", "free")
    assert chosen(seen, ()) == (["k0", "k1"], "")
    assert chosen(seen, ("gpu-1", "0", "1")) == (["k1", "k0"], "")
    assert chosen(seen, ("0", "7")) == ([], "7")
