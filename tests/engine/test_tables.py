"""The tables that people read are the ones that the engine obeys."""

from pathlib import Path

import pytest

from costguard.engine import Policy, Veto
from costguard.engine.docs_page import document
from costguard.engine.invariants import InvariantError, check
from costguard.engine.phases import TRANSITIONS
from costguard.engine.reasons import OWN_REASONS, REASONS
from costguard.engine.rules import rules_of
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, WARNING, WATCHING
from tests.engine.world import BASE, BUSY, DARK, QUIET, World

PHASES = {WATCHING, WARNING, ACTING, CONFIRMING, DONE, FAILED}
ROWS = {row.name: row for row in REASONS}
TESTS = Path(__file__).parents[1]
JUDGES = {
    "engine/monitor.py": {"deadline": "it comes although work goes on: no window to look at"},
    "simulation/rules.py": {"unknown": "no reader watches the host, so it cannot be set"},
}
"""Who judges what the engine does by other means, and the reasons that they leave out."""

POLICIES = {
    "idle": BASE._replace(arm_duration=None, unused_after=None, unknown_alarm=1e9),
    "unused": BASE._replace(unused_after=300.0, unknown_alarm=1e9),
    "deadline": BASE._replace(lifetime=300.0, unused_after=None, unknown_alarm=1e9),
    "unknown": BASE._replace(unknown_stop_after=300.0, unused_after=None, unknown_alarm=1e9),
}

KEPT = [reason.name for reason in OWN_REASONS if reason.name in POLICIES]


def test_the_page_is_printed_from_the_code() -> None:
    """docs/engine.md says what the tables say; `make docs` writes it again."""
    assert (Path(__file__).parents[2] / "docs" / "engine.md").read_text() == document(), "run `make docs`"


def test_every_own_reason_keeps_to_its_line() -> None:
    """The tests below hold each line of the table against the engine; a reason that is added gets a policy for them."""
    own = {reason.name for reason in OWN_REASONS}
    lacking, gone = own - POLICIES.keys(), POLICIES.keys() - own
    assert not lacking, f"add a policy for {sorted(lacking)} to POLICIES of tests/engine/test_tables.py"
    assert not gone, f"give {sorted(gone)} a place in OWN_REASONS of engine/reasons.py, or take it out of POLICIES"


def test_those_who_judge_the_engine_know_every_own_reason() -> None:
    """Monitor and simulation know nothing of the engine: a reason that they do not know is judged by nobody."""
    for judge, by_others in JUDGES.items():
        source = (TESTS / judge).read_text(encoding="utf-8")
        lacking = [
            reason.name for reason in OWN_REASONS if f'"{reason.name}"' not in source and reason.name not in by_others
        ]
        assert not lacking, f"say in tests/{judge} what must be true when the machine ends because of {lacking}"


def test_every_phase_can_be_left_and_is_in_the_table() -> None:
    """No phase is a trap: every one has a way out, and WATCHING can be reached from every one."""
    assert {before for before, _, _ in TRANSITIONS} == {after for _, after, _ in TRANSITIONS} == PHASES
    reach = {WATCHING}
    for _ in PHASES:
        reach |= {before for before, after, _ in TRANSITIONS if after in reach}
    assert reach == PHASES
    assert len({(before, after) for before, after, _ in TRANSITIONS}) == len(TRANSITIONS)


def test_a_way_that_is_not_in_the_table_is_refused() -> None:
    """The engine checks itself: a step along no listed way raises, so that nothing of it is done."""
    world = World(Policy(), 1)
    world.run(20.0, QUIET)
    there = world.state._replace(core=world.state.core._replace(phase=CONFIRMING))
    with pytest.raises(InvariantError, match="WATCHING to CONFIRMING"):
        check(world.state, there, (), rules_of(world.policy))


def warned(reason: str) -> World:
    """A machine whose people were just warned for this reason."""
    world = World(POLICIES[reason], 1)
    while world.phase() != WARNING:
        world.tick(DARK if reason == "unknown" else QUIET)
        world.settle()
    assert world.state.core.incident is not None
    assert world.state.core.incident.reason == reason
    return world


@pytest.mark.parametrize("reason", KEPT)
def test_work_ends_the_countdown_as_the_table_says(reason: str) -> None:
    """Work cancels every own reason, unless a deadline is to act although work goes on."""
    assert "cancels" in ROWS[reason].work_seen
    world = warned(reason)
    world.run(100.0, BUSY)
    assert world.phase() == WATCHING
    assert not world.stops()


@pytest.mark.parametrize("reason", [name for name in KEPT if ROWS[name].unknown != "–"])
def test_unknown_does_what_the_table_says(reason: str) -> None:
    """Unknown blocks idle and unused; a deadline is only told of it."""
    world = warned(reason)
    world.run(200.0, DARK)
    assert bool(world.stops()) is (ROWS[reason].unknown == "told")


@pytest.mark.parametrize("reason", KEPT)
def test_a_veto_does_what_the_table_says(reason: str) -> None:
    """A reader's veto cancels; a deadline is only told of it."""
    world = warned(reason)
    world.vetoes = (Veto("terminals", "ann typed"),)
    world.run(200.0)
    assert bool(world.stops()) is (ROWS[reason].reader_veto == "told")


@pytest.mark.parametrize("reason", KEPT)
def test_an_escape_hatch_blocks_like_the_administrator(reason: str) -> None:
    """A tag of the machine or a kernel parameter needs no login, and ends even a countdown of a deadline."""
    world = warned(reason)
    world.vetoes = (Veto("kernel parameter", "costguard=off", hatch=True),)
    world.run(2000.0)
    assert not world.stops()
    assert "cancelled" in world.kinds()
    assert "HELD" in str(world.last and world.last.sentence)
    assert str(world.last and world.last.sentence).count("costguard=off") == 1
    world.vetoes = ()
    world.run(1000.0)
    assert world.stops(), "without it the reason counts again, after a new warning"


@pytest.mark.parametrize("reason", KEPT)
def test_a_hold_postpones_and_the_administrator_blocks(reason: str) -> None:
    """A hold postpones every own reason: after it a new warning comes. The administrator's hold blocks all of them."""
    assert ROWS[reason].user_hold == "postpones"
    assert ROWS[reason].admin_hold == "blocks"
    world = warned(reason)
    world.hold(500.0)
    until = world.now + 500.0
    world.run(1000.0)
    assert world.stops()[0] >= until + world.policy.grace
    blocked = World(POLICIES[reason]._replace(admin_hold="audit"), 1)
    blocked.run(1000.0, DARK if reason == "unknown" else QUIET)
    assert "warning" not in blocked.kinds()


def test_a_persons_stop_needs_no_window_and_the_administrator_refuses_it() -> None:
    """A person's own command acts while work goes on; only the administrator's hold refuses it."""
    world = World(BASE, 1)
    world.run(50.0, BUSY)
    world.ask_stop()
    world.run(60.0, BUSY)
    assert world.stops()
    held = World(BASE._replace(admin_hold="audit"), 1)
    held.run(50.0, BUSY)
    assert "refused" in str(held.ask_stop().effects)
    held.run(60.0, BUSY)
    assert not held.stops()
    hatch = World(BASE, 1)
    hatch.vetoes = (Veto("tag of the machine", "costguard = off", hatch=True),)
    hatch.run(50.0, BUSY)
    assert "refused: tag of the machine" in str(hatch.ask_stop().effects)
    late = World(BASE, 1)
    late.run(50.0, BUSY)
    late.ask_stop()
    late.vetoes = hatch.vetoes
    late.run(60.0, BUSY)
    assert not late.stops(), "also when it comes while the worker is made ready"
