"""The guard asks for a summary when its date has come: each Monday or each day, at a time of this machine's own."""

import time
from typing import Any

import pytest

from costguard.agent.jitter import jitter_of
from costguard.agent.loop import Loop
from costguard.agent.summary import AGAIN_SECONDS, FIRST_AFTER_SECONDS, FIRST_SPREAD_SECONDS
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimHost, SimOff, Watch, effective

DAY = 86400.0
WORK = [Phase(9**9, 0.9)]
CHANNELS = {"team": {"urls": "env:TEAM", "level": "info", "kinds": []}}


class Letters(Watch):
    """The dates and facts of the summaries that were asked for, and whether they arrived."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float, bool]] = []  # boot clock, date, whether it arrived
        self.facts: dict[str, Any] = {}
        self.events: list[str] = []

    def message(self, now: Instant, message: dict[str, Any], arrived: bool) -> None:
        if message["kind"] == "summary":
            self.asked.append((now.boot, now.wall, arrived))
            self.facts = message["facts"]

    def started(self, now: Instant, program: str, given: dict[str, Any]) -> None:
        if program == "history":
            self.events += [row["kind"] for row in given["events"]]


def live(
    seconds: float, faults: Faults | None = None, *, synced: bool = True, **notify: Any
) -> tuple[Letters, SimHost]:
    letters = Letters()
    machine = Machine(gpus=1, script=WORK)
    host = SimHost(machine, seed=3, until=seconds, watch=letters, faults=faults)
    host.world.synced = synced
    config = effective(price_per_hour=2.0, currency="EUR", interval=60.0)
    config["cloud"] = {**config.get("cloud", {}), "spread": 1200.0}
    config["notify"] = {**config["notify"], "local": ["wall"], "channels": CHANNELS, "summary": "weekly", **notify}
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    return letters, host


@pytest.mark.parametrize(("every", "days"), [("weekly", 7.0), ("daily", 1.0)])
def test_it_comes_at_nine_and_at_this_machines_own_minute(every: str, days: float) -> None:
    """The first question is soon after the start, at a moment of its own: one that was due while the machine was off waits for nobody."""
    letters, host = live(3.2 * days * DAY, summary=every)
    (first, *_), *later = letters.asked
    own = jitter_of(host.world.instance)
    assert first == pytest.approx(FIRST_AFTER_SECONDS + own * FIRST_SPREAD_SECONDS, abs=130.0)
    assert len(later) in {3, 4}
    jitter = own * 1200.0
    for _, wall, _ in later:
        at = time.localtime(wall - jitter)
        assert (at.tm_hour, at.tm_min < 4) == (9, True), f"not at nine: {at}"
        assert every == "daily" or at.tm_wday == 0
    assert letters.facts["price_per_hour"] == 2.0
    assert letters.facts["every"] == every
    assert letters.facts["state"]
    assert letters.events.count("delivery") == len(letters.asked)


@pytest.mark.parametrize("notify", [{"summary": "off"}, {"channels": {}}])
def test_without_a_channel_or_a_wish_nobody_asks(notify: dict[str, Any]) -> None:
    """People at a terminal get none."""
    assert live(9 * DAY, **notify)[0].asked == []


def test_a_clock_that_nothing_sets_does_not_silence_it() -> None:
    """Some machines have no service that says so; in the first hour of a boot its date is not believed."""
    letters, _ = live(2 * DAY, synced=False)
    assert letters.asked
    assert letters.asked[0][0] >= 3600.0


@pytest.mark.parametrize("set_at", [400.0, 1000.0, 3000.0])
def test_a_clock_that_is_set_late_delays_it_by_minutes(set_at: float) -> None:
    """One that was due while the machine was off waits for the date, not for the next look of the day."""
    letters = Letters()
    host = SimHost(Machine(gpus=1, script=WORK), seed=3, until=2 * 3600.0, watch=letters)
    host.world.synced = False
    host.world.at(set_at, lambda: setattr(host.world, "synced", True))
    config = effective(interval=60.0)
    config["notify"] = {**config["notify"], "local": ["wall"], "channels": CHANNELS, "summary": "weekly"}
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    assert letters.asked
    assert max(set_at, FIRST_AFTER_SECONDS) <= letters.asked[0][0] <= max(set_at, FIRST_AFTER_SECONDS) + 500.0


class Fails(Faults):
    """The first three messages arrive nowhere."""

    def __init__(self) -> None:
        self.left = 3

    def take(self, subject: str, host: SimHost) -> str:
        if subject == "notify" and self.left:
            self.left -= 1
            return "fail"
        return ""


def test_one_that_reached_nobody_is_tried_again_in_an_hour() -> None:
    """Until somebody got it."""
    letters, _ = live(DAY / 2, Fails())
    moments = [boot for boot, _, _ in letters.asked]
    assert [arrived for _, _, arrived in letters.asked[:4]] == [False, False, False, True]
    assert moments[1] - moments[0] == pytest.approx(AGAIN_SECONDS, abs=130.0)


class Misses(Faults):
    """Of the channels that get the first message all but one miss it."""

    def __init__(self) -> None:
        self.missed = False

    def take(self, subject: str, host: SimHost) -> str:
        if subject == "notify" and not self.missed:
            self.missed = True
            return "partly"
        return ""


class Titles(Letters):
    """When summaries were sent, and their titles: None for one that is still to be made."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[tuple[float, str | None]] = []

    def message(self, now: Instant, message: dict[str, Any], arrived: bool) -> None:
        self.titles.append((now.boot, message.get("title")))


def test_a_channel_that_missed_it_gets_it_as_it_was_made() -> None:
    """The next summary begins where this one ends: without that, the channel would never hear of the time between."""
    letters = Titles()
    host = SimHost(Machine(gpus=1, script=WORK), seed=3, until=3600.0, watch=letters, faults=Misses())
    config = effective(interval=60.0)
    two = {**CHANNELS, "mail": {"urls": "env:MAIL", "level": "info", "kinds": []}}
    config["notify"] = {**config["notify"], "local": [], "channels": two, "summary": "weekly"}
    try:
        Loop(host, config, host.start()).run()
    except SimOff:
        host.die()
    (first, made), (again, title) = letters.titles
    assert (made, title) == (None, "what it did")
    assert again - first == pytest.approx(60.0, abs=10.0)
