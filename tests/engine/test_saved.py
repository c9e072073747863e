"""The saved form: its keys, and their order, outlive every change of how the engine keeps the values."""

import json
from pathlib import Path

import pytest

from costguard.engine import Known, Observation, Policy, State, Tick, step
from costguard.engine.saved import CORE, INCIDENT, Commitments, commitments, dump, initial, load
from costguard.engine.window import NEVER
from costguard.process.wire import build, plain, to_line

SAVED = json.loads(Path(__file__).with_name("saved.json").read_text())
"""A state with another value in every field, and its commitments, as they are written; and a fresh state."""

LEFT_OUT = {"vetoes", "unchanged_until"}
"""What the next tick brings, or computes."""


@pytest.mark.parametrize("which", ["state", "fresh"])
def test_what_was_written_is_read_and_written_the_same(which: str) -> None:
    """To the letter, so that an upgrade and a step back go on where the guard was."""
    written = json.dumps(SAVED[which])
    assert json.dumps(dump(load(json.loads(written)))) == written


def test_a_fresh_state_is_saved_as_ever() -> None:
    """The defaults are part of the form."""
    assert json.dumps(dump(initial("boot-1", "i-1"))) == json.dumps(SAVED["fresh"])


def test_commitments_are_written_as_ever() -> None:
    """What must survive a boot."""
    state = load(SAVED["state"])
    assert json.loads(to_line(commitments(state, state.at, 1.7e9, 2.0))) == SAVED["commitments"]
    assert plain(build(Commitments, SAVED["commitments"])) == SAVED["commitments"]


def test_commitments_of_the_version_before_are_read_and_it_reads_these() -> None:
    """It wrote every key, also of what was empty, and asks for some of them without a doubt."""
    empty = {
        "holds": [], "holders": [], "held": 0.0, "accounts": [], "stops": [], "unused": 0.0, "ran": 0.0, "spent_since": 0.0,
        "spent": 0.0, "wall": 5.0, "dated": True, "boot_id": "b", "earlier": {"ran": 0.0, "spent": 0.0}, "incident": None,
        "deadline": {"extensions": [], "whole": 0.0, "told_left": None},
    }  # fmt: skip
    made = commitments(initial("b", "i"), 0.0, 5.0)
    assert build(Commitments, empty) == made
    needed = {"holds", "held", "stops", "unused", "ran", "spent_since", "spent", "wall", "earlier", "incident"}
    assert needed <= json.loads(to_line(made)).keys()


def every(value: object, path: str = "") -> dict[str, object]:
    """Each value of a core by its place."""
    found: dict[str, object] = {}
    for name in getattr(value, "_fields", ()):
        part, place = getattr(value, name), f"{path}{name}"
        if path or not type(part).__module__.endswith("engine.state") or name in {"incident", "stop_request"}:
            found[place] = part
        else:
            found |= every(part, f"{place}.")
    return found


def test_everything_that_the_engine_keeps_is_saved() -> None:
    """A new field that has no key would be forgotten by every restart."""
    core = load(SAVED["state"]).core
    assert every(core).keys() == set(CORE.values()) | LEFT_OUT
    assert core.incident is not None
    own = {place for place in every(core.incident) if place not in {"announcement", "attempt"}}
    parts = {f"{part}.{name}" for part in ("announcement", "attempt") for name in getattr(core.incident, part)._fields}
    assert own | parts == set(INCIDENT.values())


@pytest.mark.parametrize("key", ["devices", "picked", "holds", "stops", "plans", "checking", "incident", "alarm"])
def test_a_state_without_what_every_version_has_is_refused(key: str) -> None:
    """Nothing is guessed: a guard that cannot read its state begins anew, and says so."""
    core = {name: value for name, value in SAVED["state"]["core"].items() if name != key}
    with pytest.raises(KeyError):
        load({**SAVED["state"], "core": core})


def test_what_an_earlier_version_did_not_know_has_its_default() -> None:
    """Keys came one after the other."""
    later = ("wish", "weak", "strong", "accounts", "hold_told", "check_soon", "notice_soonest")
    core = {name: value for name, value in SAVED["state"]["core"].items() if name not in later}
    state = load({**SAVED["state"], "core": core})
    assert (state.core.stop_request, state.core.alarms.weak_sign, state.core.signals.strong_work) == (None, None, None)
    assert (state.core.people.accounts, state.core.people.told, state.core.plans.round_failed) == ((), (), False)
    assert state.core.notice.soonest == NEVER


def test_what_a_later_version_knows_is_refused() -> None:
    """A value that this version cannot heed may matter."""
    with pytest.raises((KeyError, TypeError)):
        load({**SAVED["state"], "core": {**SAVED["state"]["core"], "another": 1}})
    assert isinstance(load(SAVED["state"]), State)


def test_a_countdown_to_nothing_is_none() -> None:
    """A document that names a phase without its incident: the guard watches again."""
    core = {**SAVED["fresh"]["core"], "phase": "WARNING", "fresh": ""}
    state = load({**SAVED["fresh"], "core": core})
    seen = Observation(("gpu",), (Known(0.0),))
    assert step(state, Tick(10.0, seen, 1.7e9, 0.0, True), Policy()).state.core.phase == "WATCHING"
