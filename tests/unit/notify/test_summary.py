"""Consecutive summaries count each second once, whenever they are made and however late the history is written."""

import json
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from costguard.history import FILE, query, store
from costguard.history.job import Batch, EventRow, MachineMinute
from costguard.notify import summary
from costguard.notify.job import Draft

DAY, MINUTE = 86400.0, 60
START = 1_772_409_600  # 2026-03-02 00:00 UTC
PRICE = 36.0


class Plan(NamedTuple):
    """A machine's days: minutes from its start to the end, minutes that it is off, between writes and between questions."""

    begin: int
    length: int
    off: tuple[int, ...]
    writes: tuple[int, ...]
    asks: tuple[int, ...]
    late: int  # minutes that wait in memory at a write
    unheard: int  # of so many summaries each one reaches nobody


plans = st.builds(
    Plan,
    st.integers(0, 1439),
    st.integers(2000, 6000),
    st.lists(st.integers(1, 4000), max_size=3).map(tuple),
    st.lists(st.integers(30, 240), min_size=1, max_size=5).map(tuple),
    st.lists(st.integers(60, 2000), min_size=1, max_size=5).map(tuple),
    st.integers(0, 30),
    st.integers(2, 5),
)


def kinds(minute: int) -> tuple[float, float, float]:
    """Seconds of work, rest and neither in that minute: unlike ones, so that none stands in for another."""
    return (60.0 - minute % 7, 0.0, float(minute % 7)) if minute // 100 % 3 else (0.0, 59.5, 0.0)


def ask(folder: Path, wall: float, *, heard: bool) -> dict[str, object] | None:
    facts = {"state": str(folder), "every": "daily", "price_per_hour": PRICE, "currency": "EUR"}
    draft = summary.due(Draft("s", "summary", facts=facts), wall)
    if draft is None or "error" in draft.facts:
        return None
    if not heard:
        return None
    summary.told(draft, wall)
    return dict(draft.facts)


def lived(folder: Path, plan: Plan) -> list[dict[str, object]]:
    """The summaries that people had of these days."""
    had: list[dict[str, object]] = []
    waiting: list[MachineMinute] = []
    asked = 0
    stops = {plan.length * (number + 1) // 4: length for number, length in enumerate(plan.off)}
    begin = START + plan.begin * MINUTE
    wall, write, question, minute = begin, begin, begin + 15 * MINUTE, 0
    while minute < plan.length:
        if minute in stops:
            wall += stops[minute] * MINUTE
        waiting.append(MachineMinute(wall, *kinds(minute)))
        wall, minute = wall + MINUTE, minute + 1
        if wall >= write and len(waiting) > plan.late:
            written, waiting = waiting[: len(waiting) - plan.late], waiting[len(waiting) - plan.late :]
            closed = EventRow(f"i{minute}", wall - 1.0, "told", json.dumps(off(wall)))
            store.save(
                Batch(
                    str(folder / FILE),
                    f"b{minute}",
                    "i-1",
                    wall,
                    dated=True,
                    machine=tuple(written),
                    events=(closed,),
                    gpus=(),
                )
            )
            write = wall + plan.writes[minute % len(plan.writes)] * MINUTE
        if wall >= question:
            asked += 1
            found = ask(folder, wall + 0.5, heard=asked % plan.unheard > 0)
            had += [found] if found else []
            question = wall + plan.asks[asked % len(plan.asks)] * MINUTE
    return had


def off(wall: float) -> dict[str, object]:
    """The message about a stop of an hour, long before: it counts whole, by the date of the message."""
    facts = {"stopped_wall": wall - 2 * DAY, "started_wall": wall - 2 * DAY + 3600.0, "saved": PRICE}
    return {"effect": "m", "name": "closed", "facts": {**facts, "price_per_hour": PRICE, "currency": "EUR"}}


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(plans)
def test_consecutive_summaries_add_up_to_the_history(plan: Plan) -> None:
    """Hours, time off and money: as the quarters of an hour and the events have them, until where the last one ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        had = lived(folder, plan)
        if not had:
            return
        until = max(float(str(one["until"])) for one in had)
        with query.reading(str(folder / FILE)) as database:
            (first,) = database.execute("SELECT min(start) FROM quarters").fetchone()
            whole = query.totals(database, 0.0, until)
            closed = [event for event in query.events(database, 0.0) if event.wall < until]
            started = [float(str(one["since"])) for one in had]
    assert started[0] <= first, "nothing was before the first"
    assert started[1:] == [*(float(str(one["until"])) for one in had[:-1])], "each begins where the last one ended"
    for name in ("works", "quiet", "unknown"):
        assert sum(float(str(one[name])) for one in had) == pytest.approx(getattr(whole, name)), name
    assert sum(float(str(one["idle_cost"])) for one in had) == pytest.approx(whole.quiet / 3600.0 * PRICE)
    assert sum(float(str(one["off"])) for one in had) == pytest.approx(3600.0 * len(closed))


def test_the_first_summary_has_what_was_done_before_it_was_first_asked_for(tmp_path: Path) -> None:
    """As it has the hours: a stop that was refused and a hold of the first minutes, or of the days before there was a channel."""
    begin = START + 7 * 3600
    minutes = tuple(MachineMinute(begin + number * MINUTE, 0.0, 60.0, 0.0) for number in range(3 * 24 * 60))
    events = (
        EventRow("b-i1", begin + 120.0, "phase", json.dumps({"from": "WATCHING", "to": "WARNING"})),
        EventRow("b-i1", begin + 300.0, "phase", json.dumps({"from": "WARNING", "to": "DONE", "done": "cannot"})),
        EventRow("", begin + 400.0, "told", json.dumps({"name": "held", "facts": {"owner": "uid 7"}})),
        EventRow("", begin + 90000.0, "told", json.dumps({"name": "held", "facts": {"owner": "uid 7"}})),
    )
    store.save(Batch(str(tmp_path / FILE), "b1", "i-1", begin, dated=True, gpus=(), machine=minutes, events=events))
    assert ask(tmp_path, begin + 90_500.0, heard=True) is None, "the first look"
    first = ask(tmp_path, begin + 3 * DAY - 30.0, heard=True)
    assert first is not None
    assert (first["since"], first["until"]) == (begin, begin + 3 * DAY - 900.0)
    assert first["troubles"] == ("could not be carried out",)
    assert first["holders"] == (("uid 7", 2),)


def test_what_is_told_again_counts_once(tmp_path: Path) -> None:
    """A warning that nobody took at its first try, and what the next guard repeats, is one; and a job that may hang is counted."""

    def told(at: float, name: str, **facts: object) -> EventRow:
        return EventRow("", at, "told", json.dumps({"name": name, "effect": f"m{at}", "facts": facts}))

    begin = START + 7 * 3600
    minutes = tuple(MachineMinute(begin + number * MINUTE, 0.0, 60.0, 0.0) for number in range(3 * 24 * 60))
    events = (
        told(begin + 60.0, "warning"), told(begin + 70.0, "warning", attempts=2), told(begin + 90.0, "warning", attempts=3),
        told(begin + 95.0, "held", owner="uid 7"), told(begin + 99.0, "held", owner="uid 7", told_again=True),
        told(begin + 120.0, "finding", code="suspect_hung"), told(begin + 130.0, "finding", code="ghost"),
        told(begin + 140.0, "kept_up"),
    )  # fmt: skip
    store.save(Batch(str(tmp_path / FILE), "b1", "i-1", begin, dated=True, gpus=(), machine=minutes, events=events))
    assert ask(tmp_path, begin + 90_500.0, heard=True) is None, "the first look"
    found = ask(tmp_path, begin + 3 * DAY - 30.0, heard=True)
    assert found is not None
    assert (found["warnings"], found["hung"], found["kept_up"]) == (1, 1, 1)
    assert found["holders"] == (("uid 7", 1),)
