"""A person's stop through the loop: whatever happens meanwhile, it goes on or people hear that it is taken back."""

import json
from contextlib import suppress
from typing import Any

import pytest

from costguard.agent.loop import Loop
from costguard.history.query import Event
from costguard.history.story import summaries
from costguard.host.ports import Instant
from costguard.testing.simhost import Faults, Machine, Phase, SimCrash, SimHost, SimOff, Watch, effective

ASKED = 1000.0
HAPPENS = ASKED + 8.0
"""While the worker of the first attempt hangs."""

CONFIG = effective(mode="live", kill_action="command", kill_duration=3600.0)
CONFIG["cloud"] = {"provider": "auto", "tags": "on", "tag_settings": True}
CONFIG["providers"] = ["simulated"]


class Ears(Watch):
    """What people and the asker heard, and what was done."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str, dict[str, Any]]] = []
        self.acts: list[float] = []
        self.lines: list[str] = []

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        self.told.append((now.boot, message["kind"], message["facts"]))

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        self.acts.append(now.boot)

    def said(self, now: Instant, line: str) -> None:
        self.lines.append(line)

    def of_the_wish(self) -> list[str]:
        return [kind for _, kind, facts in self.told if facts.get("reason") == "person" and kind != "notice"]


class Hangs(Faults):
    """The first worker that prepares hangs; whatever is released fails, if wished."""

    def __init__(self, *, go: str = "") -> None:
        self.left, self.go = 1, go

    def take(self, subject: str, host: SimHost) -> str:
        if subject == "prepare" and self.left:
            self.left -= 1
            return "hang"
        return self.go if subject == "go" else ""


class Bug(SimHost):
    """One bug of the guard, at this moment."""

    def service(self, message: str) -> None:
        if self.now >= HAPPENS and not self.world.saved:
            self.world.saved.append((self.now, {}))
            raise LookupError("a bug")
        super().service(message)


def life(host: SimHost) -> Loop:
    loop = Loop(host, CONFIG, host.start())
    with suppress(SimOff, SimCrash):
        loop.run()
    host.die()
    return loop


def asked(ears: Ears, kind: type[SimHost] = SimHost, faults: Faults | None = None, until: float = 2500.0) -> SimHost:
    """A machine at work on which root says stop, and the first worker hangs."""
    host = kind(Machine(gpus=1, script=[Phase(9**9, 0.9)]), seed=3, until=until, watch=ears, faults=faults or Hangs())
    host.world.at(ASKED, lambda: _ask(host))
    return host


def _ask(host: SimHost) -> None:
    host.request(0, {"command": "stop", "user": "root"})


def _reload(host: SimHost) -> None:
    host.world.configuration = effective(mode="live", kill_action="command", kill_duration=1800.0)
    host.signal("HUP")


def _tag(host: SimHost) -> None:
    host.world.tags["costguard-kill-duration"] = "2h"


def _announce(host: SimHost) -> None:
    host.world.notices = [("n1", "reboot", host.world.instant().wall + 600.0, "maintenance")]


@pytest.mark.parametrize(("what", "kept"), [(_reload, False), (_tag, True), (_announce, True)])
def test_it_goes_on_or_is_taken_back_aloud(what: Any, kept: bool) -> None:
    """Another configuration takes it back; tags and a mere reboot that the cloud announces do not."""
    ears = Ears()
    host = asked(ears)
    host.world.at(HAPPENS, lambda: what(host))
    loop = life(host)
    assert (len(ears.acts) == 1) is kept
    assert ears.of_the_wish() == (["acting", "done"] if kept else ["cancelled"])
    assert loop.last.state.core.stop_request is not None
    assert loop.last.state.core.stop_request.fate == ("acted" if kept else "withdrawn")


def test_a_bug_that_was_survived_takes_it_back_aloud() -> None:
    """The bug may be in the way of that very stop; nothing of it goes on unseen."""
    ears = Ears()
    life(asked(ears, Bug))
    assert any("BUG" in line for line in ears.lines)
    assert (ears.acts, ears.of_the_wish()) == ([], ["cancelled"])


@pytest.mark.parametrize("how", ["TERM", "killed"])
@pytest.mark.parametrize("away", [1.0, 20000.0])
def test_a_guard_that_was_away_does_not_carry_it_out(how: str, away: float) -> None:
    """It ends while the worker hangs; the next one, a second or hours later, takes it back aloud, and acts on no GPU."""
    first, second = Ears(), Ears()
    host = asked(first)
    host.world.at(HAPPENS, lambda: host.signal("TERM") if how == "TERM" else setattr(host, "doom", 1))
    life(host)
    host.world.pass_time(away)
    life(SimHost(world=host.world, until=host.world.now + 1000.0, watch=second, faults=Faults()))
    assert first.acts + second.acts == []
    assert first.of_the_wish() == (["unguarded"] if how == "TERM" else [])
    assert second.of_the_wish() == ["cancelled"]
    assert "guard restarted" in str(next(facts["why"] for _, kind, facts in second.told if kind == "cancelled"))


def test_on_a_machine_at_work_it_is_given_up_once_and_never_cancelled_by_work() -> None:
    """The command fails: people hear that it is given up, and nothing more happens in the hours after."""
    ears = Ears()
    loop = life(asked(ears, faults=Hangs(go="fail"), until=20000.0))
    assert ears.of_the_wish() == ["acting", "failed"]
    assert "cancelled" not in [kind for _, kind, _ in ears.told]
    assert loop.last.state.core.phase == "WATCHING"


def test_an_interrupted_boot_takes_it_back_in_the_next_one() -> None:
    """The machine goes off by other hands while the wish waits: the next boot says so."""
    first, second = Ears(), Ears()
    host = asked(first)
    host.world.at(HAPPENS, host.world.power_off)
    life(host)
    host.world.now += 600.0
    host.world.boot()
    life(SimHost(world=host.world, until=host.world.now + 500.0, watch=second))
    (why,) = (facts["why"] for _, kind, facts in second.told if kind == "cancelled" and facts["reason"] == "person")
    assert "machine restarted" in why


@pytest.mark.parametrize("damage", ["absent", "torn", "shape", "emptied"])
def test_a_state_that_is_lost_within_the_boot_is_told(damage: str) -> None:
    """Armed, windows and a countdown are gone: people hear so once, and what they were warned of is taken back."""
    first, second = Ears(), Ears()
    host = SimHost(Machine(gpus=1, script=[Phase(900.0, 0.9), Phase(9**9, 0.0)]), seed=3, until=4800.0, watch=first)
    life(host)
    assert [kind for _, kind, _ in first.told] == ["warning", "unguarded"]
    runtime = host.world.runtime
    if damage == "absent":
        del runtime["state.json"]
    elif damage == "torn":
        runtime["state.json"] = runtime["state.json"][:100]
    elif damage == "shape":
        runtime["state.json"] = runtime["state.json"].replace(b'"picked"', b'"pocked"')
    else:
        runtime.clear()
    loop = life(SimHost(world=host.world, until=host.world.now + 300.0, watch=second))
    assert sorted(kind for _, kind, _ in second.told) == ["cancelled", "state_lost"]
    assert loop.last.state.core.signals.armed_at is None
    third = Ears()
    life(SimHost(world=host.world, until=host.world.now + 300.0, watch=third))
    assert third.told == [], "told once"


@pytest.mark.parametrize("away", [2.0, 4000.0])
def test_a_guard_that_is_stopped_and_started_keeps_armed(away: float) -> None:
    """I7: a stop of the service ends the guard cleanly; the next one goes on, however long that took."""
    first, second = Ears(), Ears()
    host = SimHost(Machine(gpus=1, script=[Phase(900.0, 0.9), Phase(9**9, 0.0)]), seed=3, until=1500.0, watch=first)
    armed = life(host).last.state.core.signals.armed_at
    assert armed is not None
    host.world.pass_time(away)
    loop = life(SimHost(world=host.world, until=host.world.now + 300.0, watch=second))
    assert loop.last.state.core.signals.armed_at == armed
    assert "state_lost" not in [kind for _, kind, _ in second.told]


def test_a_first_start_and_a_new_boot_have_lost_nothing() -> None:
    """Without a state before there is nothing to tell; a boot begins anew by rule, and closes what was announced."""
    first, second = Ears(), Ears()
    host = SimHost(Machine(gpus=1, script=[Phase(900.0, 0.9), Phase(9**9, 0.0)]), seed=3, until=4800.0, watch=first)
    life(host)
    host.world.boot()
    life(SimHost(world=host.world, until=host.world.now + 300.0, watch=second))
    assert "state_lost" not in [kind for _, kind, _ in first.told + second.told]
    (why,) = (facts["why"] for _, kind, facts in second.told if kind == "cancelled")
    assert "the machine restarted in the meantime" in why
    found = summaries(
        [
            Event(row["incident"], row["wall"], row["kind"], "i", "n", json.loads(row["data"]))
            for b in host.world.history
            for row in b["events"]
        ]
    )
    assert [(each.result, each.words) for each in found] == [
        ("cancelled", "cancelled: the machine restarted in the meantime")
    ]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b'{"version":9,"instance":"i-simulated","data":{}}',
        b'{"version":1,"instance":"i-simulated","data":{"holds":7}}',
    ],
)
def test_commitments_that_cannot_be_used_are_told_at_the_next_boot(damage: bytes) -> None:
    """Whoever held the machine must hear that nothing holds it any more."""
    first, second = Ears(), Ears()
    host = SimHost(Machine(gpus=1, script=[Phase(9**9, 0.0)]), seed=3, until=500.0, watch=first)
    host.world.at(100.0, lambda: _hold(host))
    life(host)
    host.world.boot()
    host.world.disk["commitments.json"] = damage
    loop = life(SimHost(world=host.world, until=host.world.now + 300.0, watch=second))
    assert not loop.last.state.core.people.holds
    assert [kind for _, kind, _ in second.told] == ["state_lost"]


def _hold(host: SimHost) -> None:
    host.request(1001, {"command": "hold", "seconds": 7200})
