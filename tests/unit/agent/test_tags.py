"""Tags of the machine: the real loop heeds them, over restarts too, and they can only postpone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.agent.loop import Loop
from costguard.agent.tag_settings import LONGEST, changes, relax
from costguard.engine.policy import Policy
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimCrash, SimHost, SimOff, Watch, effective

WORK, END = 1800.0, 5 * 3600.0
ALLOWED = {"provider": "auto", "tag_settings": True, "spread": 0.0}


class Journal(Watch):
    """When people were told of what, and when something acted."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str]] = []
        self.acted_at: list[float] = []
        self.lines: list[str] = []

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.told.append((now.boot, str(message["kind"])))

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acted_at.append(now.boot)

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def first(self, kind: str) -> float:
        return next(at for at, told in self.told if told == kind)


class Blind(Faults):
    """The metadata service answers until a moment."""

    def __init__(self, since: float) -> None:
        self.since = since

    def take(self, subject: str, host: SimHost) -> str:
        return "blind" if subject == "cloud" and host.now >= self.since else ""


def config(cloud: dict[str, Any] | None = None, **policy: Any) -> dict[str, Any]:
    given = {"mode": "live", "kill_duration": 3600.0, "grace": 600.0, "kill_action": "stop", **policy}
    return {**effective(**given), "providers": ["simulated=none"], "cloud": cloud or ALLOWED}


def life(host: SimHost, settings: dict[str, Any]) -> None:
    """One life of the guard, until the machine is off or the simulation ends."""
    try:
        Loop(host, settings, host.start()).run()
    except SimOff:
        host.die()


def machine() -> Machine:
    """At work for half an hour, then idle for good."""
    return Machine(gpus=1, script=[Phase(WORK, 0.9), Phase(9**9, 0.0)])


def test_a_tag_makes_the_window_longer() -> None:
    """Idle for an hour says the owner; two hours says the tag, and so it is."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal)
    host.world.tags = {"costguard-kill-duration": "2h", "costguard-grace": "20m"}
    life(host, config())
    warned = journal.first("warning")
    assert warned == pytest.approx(WORK + 7200.0, abs=60.0)
    assert journal.acted_at[0] >= warned + 1200.0


@pytest.mark.parametrize("cloud", [{**ALLOWED, "tag_settings": False}, {**ALLOWED, "tags": "off"}])
def test_only_where_the_owner_allows_it(cloud: dict[str, Any]) -> None:
    """By default tags keep a machine up or do nothing."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal)
    host.world.tags = {"costguard-kill-duration": "2h"}
    life(host, config(cloud))
    assert journal.first("warning") == pytest.approx(WORK + 3600.0, abs=60.0)


def test_a_tag_that_is_taken_away_leaves_a_full_window() -> None:
    """The owner's own hour begins when the tag is gone, as after a reload: people relied on the two hours."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal)
    host.world.tags = {"costguard-kill-duration": "2h"}
    host.world.at(WORK + 5400.0, host.world.tags.clear)
    life(host, config())
    assert journal.first("warning") >= WORK + 5400.0 + 3600.0
    assert journal.acted_at


def test_a_running_warning_is_taken_back() -> None:
    """Somebody who reads the warning sets a tag; that ends the countdown."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal)
    host.world.at(WORK + 3900.0, lambda: host.world.tags.update({"costguard-kill-duration": "2h"}))
    life(host, config())
    assert [kind for _, kind in journal.told][:2] == ["warning", "cancelled"]
    assert journal.acted_at[0] >= WORK + 3900.0 + 7200.0


def test_a_restart_forgets_no_tag() -> None:
    """The new process knows what the old one heard before it has asked, also while the service is silent."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=WORK + 4000.0, watch=journal)
    host.world.tags = {"costguard-kill-duration": "2h", "costguard-hold": "2999-01-01T00:00:00Z"}
    life(host, config())
    again = Journal()
    second = SimHost(world=host.world, until=WORK + 3 * 3600.0, watch=again, faults=Blind(0.0))
    life(second, config())
    assert not [kind for _, kind in journal.told + again.told if kind == "warning"]
    third = SimHost(world=host.world, until=WORK + 5 * 3600.0, watch=again, faults=Blind(0.0))
    life(third, config({**ALLOWED, "tags": "off"}))
    assert [kind for _, kind in again.told if kind == "warning"], "switched off, tags mean nothing"


class Mortal(Journal):
    """The guard is killed a second after it said something."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words, self.host = words, SimHost(machine(), seed=3, watch=self)

    def said(self, now: Instant, line: str) -> None:
        super().said(now, line)
        if self.words in line:
            self.host.world.after(1.0, lambda: setattr(self.host, "doom", 1))


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ({"costguard-kill-duration": "2h"}, "instance tags changed the settings"),
        ({"costguard-hold": "2999-01-01T00:00:00Z"}, "HELD"),
        ({"costguard": "off"}, "HELD"),
    ],
)
@pytest.mark.parametrize("moment", [WORK + 600.0, WORK + 615.0, WORK + 625.0])
def test_who_is_killed_right_after_a_tag_was_heeded_forgets_it_not(
    tag: dict[str, str], words: str, moment: float
) -> None:
    """What is said to hold is saved at that moment: the next guard may find a service that is silent."""
    first, again = Mortal(words), Journal()
    first.host.world.at(moment, lambda: first.host.world.tags.update(tag))
    with pytest.raises(SimCrash):
        life(first.host, config())
    assert first.host.now < moment + 60.0
    first.host.die()
    life(SimHost(world=first.host.world, until=WORK + 7000.0, watch=again, faults=Blind(0.0)), config())
    assert "warning" not in [kind for _, kind in again.told]


@pytest.mark.parametrize(
    ("cloud", "heeded"),
    [
        ({"spread": 60.0}, True),
        ({"tag_settings": False}, True),
        ({"tags": "off"}, False),
        ({"metadata": "never"}, False),
    ],
)
def test_a_reload_forgets_no_tag(cloud: dict[str, Any], heeded: bool) -> None:
    """A reader with other settings knows what the one before it heard, until it could ask: an escape hatch stays one."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal, faults=Blind(WORK + 500.0))
    host.world.tags = {"costguard-hold": "2999-01-01T00:00:00Z"}
    host.world.configuration = config({**ALLOWED, **cloud})
    host.world.at(WORK + 600.0, lambda: host.signal("HUP"))
    life(host, config())
    assert ("warning" not in [kind for _, kind in journal.told]) is heeded


def test_nonsense_is_told_once_and_changes_nothing() -> None:
    """A tag with a mistake in it must not look as if it worked."""
    journal = Journal()
    host = SimHost(machine(), seed=3, until=END, watch=journal)
    host.world.tags = {"costguard-kill-duration": "two hours"}
    life(host, config())
    assert len([line for line in journal.lines if "'two hours' is not a duration" in line]) == 1
    assert journal.first("warning") == pytest.approx(WORK + 3600.0, abs=60.0)


NUMBERS = st.one_of(st.none(), st.booleans(), st.floats(), st.integers(-10, 10**9), st.text(max_size=3))


@given(
    st.dictionaries(
        st.sampled_from(["kill_duration", "grace", "boot_grace", "unused_after", "kill_threshold", "mode", "price_per_hour"]),
        NUMBERS,
    ),
    st.sampled_from([Policy(), Policy(unused_after=None), Policy(kill_threshold=0.5, grace=0.0)]),
)  # fmt: skip
def test_no_tag_makes_anything_harsher(wanted: dict[str, Any], policy: Policy) -> None:
    """Whatever it says: times never shorter, the threshold never higher, nothing else touched, and twice is as once."""
    found = relax(policy, wanted)
    assert found.kill_duration >= policy.kill_duration
    assert found.grace >= policy.grace
    assert found.boot_grace >= policy.boot_grace
    assert 0 < found.kill_threshold <= policy.kill_threshold
    assert found.tolerance == pytest.approx(policy.tolerance), "a longer window tolerates no more work"
    never = float("inf")
    assert (found.unused_after or never) >= (policy.unused_after or never)
    assert max(found.kill_duration, found.grace, found.boot_grace) <= LONGEST
    assert set(changes(policy, found)) <= set(wanted) - {"mode", "price_per_hour"}
    touched = {"kill_duration", "grace", "boot_grace", "unused_after", "kill_threshold", "window_share"}
    assert found._replace(**{name: getattr(policy, name) for name in touched}) == policy
    assert relax(found, wanted) == found
