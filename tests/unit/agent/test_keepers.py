"""The history names who kept the machine up when it would have been stopped otherwise, and nothing restless fills it."""

import functools
import io
import json
from collections import deque
from typing import Any

import pytest

from costguard.agent.host_side import vetoes_of
from costguard.agent.keepers import BEGUN_A_DAY, PAUSE_SECONDS
from costguard.agent.loop import Loop
from costguard.cli.history_view import overview
from costguard.history.keepers import Keeper, keepers
from costguard.history.query import Event
from costguard.readers.host.sense import NOT_YET, Sight
from costguard.testing.simhost import Machine, Phase, SimHost, SimOff, effective, sensing

INTERVAL = 10.0
WORKED, WINDOW = 600.0, 600.0
DUE = WORKED + WINDOW
"""When the machine would be stopped but for what senses see."""

ANN, BOB = ("ann on pts/3", "typed"), ("bob on pts/4", "typed")
RULES: dict[str, Any] = {
    "interval": INTERVAL, "kill_duration": WINDOW, "arm_duration": None, "mode": "live", "boot_grace": 0.0, "grace": 120.0,
    "kill_action": "command", "unused_after": None,
}  # fmt: skip


class Life:
    """A machine whose GPU works for ten minutes and is idle from then on, or works again."""

    def __init__(self, until: float = 6000.0, *, again: float = 9**9, **policy: Any) -> None:
        script = [Phase(WORKED, 0.9), Phase(again - WORKED, 0.0), Phase(9**9, 0.9)]
        self.host = SimHost(Machine(script=script), seed=5, until=until)
        self.loop = Loop(self.host, sensing(effective(**{**RULES, **policy}), "terminals"), self.host.start())
        self.world = self.host.world
        self.world.history = deque()

    def works(self, since: float, until: float, *who: tuple[str, str]) -> None:
        self.world.at(since, functools.partial(self.world.activities.update, {"terminals": list(who) or [ANN]}))
        self.world.at(until, self.world.activities.clear)

    def events(self) -> list[Event]:
        try:
            self.loop.run()
        except SimOff:
            self.host.die()
        return [
            Event(row["incident"], row["wall"], row["kind"], batch["instance"], "node", json.loads(row["data"]))
            for batch in self.world.history
            for row in batch["events"]
        ]

    def kept(self) -> list[Keeper]:
        return keepers(self.events())


def lasted(one: Keeper) -> float:
    assert one.ended is not None
    return one.ended - one.begun


def test_who_kept_the_machine_up_is_recorded_with_its_end() -> None:
    """From when it would have been stopped: before that it is nobody's doing."""
    life = Life()
    life.works(700.0, 3000.0)
    (one,) = life.kept()
    assert (one.sense, one.who, one.what, one.times) == ("terminals", *ANN, 1)
    assert one.by == "it was not seen again"
    assert one.lets_go
    begun = life.host.clock().wall - life.host.clock().boot + DUE
    assert one.begun == pytest.approx(begun, abs=6 * INTERVAL)
    assert lasted(one) == pytest.approx(3000.0 - DUE, abs=8 * INTERVAL)


@pytest.mark.parametrize(("since", "until"), [(100.0, 1100.0), (2000.0, 2030.0)])
def test_what_kept_nothing_up_is_not_recorded(since: float, until: float) -> None:
    """While a GPU works, before the window is over; nor what lasts less than a minute."""
    life = Life(until=1190.0 if until < DUE else 6000.0)
    life.works(since, until)
    assert life.kept() == []


def test_a_gpu_that_works_again_ends_it() -> None:
    """Whoever types goes on doing so."""
    life = Life(again=3000.0)
    life.works(700.0, 5900.0)
    (one,) = life.kept()
    assert one.by == "a GPU works again"
    assert lasted(one) == pytest.approx(3000.0 - DUE, abs=12 * INTERVAL)


def test_the_end_of_the_agent_ends_it() -> None:
    """So no end is missing but that of a crash."""
    life = Life()
    life.works(700.0, 9000.0)
    life.world.at(3000.0, functools.partial(life.host.signal, "TERM"))
    (one,) = life.kept()
    assert one.by == "costguard ended"
    assert lasted(one) == pytest.approx(3000.0 - DUE, abs=8 * INTERVAL)


def test_who_comes_and_goes_is_one_entry() -> None:
    """With how often; after a longer pause it is another one."""
    life = Life(until=9000.0, grace=3 * PAUSE_SECONDS)
    for begin in (1300.0, 1500.0, 1700.0):
        life.works(begin, begin + 120.0)
    life.works(1820.0 + PAUSE_SECONDS + 100.0, 4000.0)
    first, second = life.kept()
    assert (first.times, second.times) == (3, 1)
    assert first.words == "ann on pts/3 typed (3 times)"
    assert lasted(first) == pytest.approx(520.0, abs=6 * INTERVAL)


def test_many_names_do_not_fill_the_history() -> None:
    """A user may call his programs as he likes; what was left out is counted, and the next day there is room again."""
    life = Life(until=100_000.0, kept_told_after=None)
    for number in range(2 * BEGUN_A_DAY):
        begin = 1300.0 + number * 800.0
        life.works(begin, begin + 790.0, ANN, (f"run-{number} of eve", "typed"))
    end = 1300.0 + 2 * BEGUN_A_DAY * 800.0
    life.works(end, 90_000.0)
    life.works(90_010.0, 99_000.0, ANN, ("late of eve", "typed"))
    events = life.events()
    begun = [event for event in events if event.kind == "keeps"]
    assert len(begun) == BEGUN_A_DAY + 1
    assert begun[-1].data["left_out"] == BEGUN_A_DAY + 1
    ends = [event for event in events if event.kind == "let_go"]
    assert len(ends) <= len(begun)


def test_what_cannot_be_seen_is_recorded_as_that() -> None:
    """A required sense that is blind keeps the machine up as well."""
    from costguard.testing.simhost import Faults

    class Blind(Faults):
        def take(self, subject: str, host: SimHost) -> str:
            return "die" if subject == "host" and host.now > 1000.0 else ""

    life = Life()
    life.host.faults = Blind()
    found = life.kept()
    assert found
    assert found[0].who == ""
    assert found[0].words.startswith("terminals cannot be seen: ")


@pytest.mark.parametrize(
    ("unknown", "words"),
    [(NOT_YET, "has not been seen yet"), ("it answers 403", "cannot be seen: it answers 403")],
)
def test_what_nobody_has_looked_at_yet_is_not_said_to_be_out_of_sight(unknown: str, words: str) -> None:
    """An agent that has just started tells people so."""
    sights = {"jupyter": Sight(unknown=unknown)}
    (veto,) = vetoes_of(sights, {"jupyter": {"required": True}})
    assert veto.reason == words


def test_the_history_shows_it() -> None:
    """In the order of dates, the last one first."""
    from rich.console import Console

    rows = [
        Keeper(1e9, 1e9 + 7200.0, "terminals", *ANN, "ann", "rest", "it was not seen again", 1),
        Keeper(1e9 + 9000.0, None, "jupyter", "", "cannot be seen: 403", "", "", "", 2),
    ]
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(overview("x", 0.0, [], [], [], kept=rows))
    text = console.export_text()
    first, second = [line for line in text.splitlines() if "typed" in line or "cannot be seen" in line]
    assert "no end recorded yet" in first
    assert "jupyter cannot be seen: 403 (2 times)" in first
    assert "for 2h" in second
    assert "it was not seen again" in second


def test_events_of_any_form_are_read() -> None:
    """Of an older agent, cut, or without a beginning."""

    def event(kind: str, **data: Any) -> Event:
        return Event("", 5.0, kind, "i", "node", data)

    (one,) = keepers(
        [event("let_go", sense="x", who="y"), event("keeps"), event("told"), event("let_go", times="many")]
    )
    assert (one.ended, one.times, one.words) == (5.0, 1, " ")
