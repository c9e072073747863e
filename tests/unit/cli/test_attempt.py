"""A person's own stop, without an agent: what its worker is told."""

import pytest

from costguard.actions.base import Context
from costguard.cli.attempt import job
from costguard.config import load_effective
from costguard.engine.state import PERSON
from costguard.process.wire import from_line, to_line


@pytest.mark.parametrize("action", ["shutdown", "stop"])
def test_the_record_of_it_names_the_machine(tmp_path: object, action: str) -> None:
    """In what outlives the machine, an attempt without its machine is worth nothing."""
    effective = load_effective(
        {"set": [f"host.sysfs={tmp_path}", f"host.procfs={tmp_path}", "hook.pre_stop=[]"][:2]}, {}
    )
    made = job(effective, action, "uid 7")
    assert made.instance
    assert (made.job, made.asks, made.reason, made.sentence) == ("act", True, PERSON, "uid 7 ran `costguard stop`")
    assert made.attempt.endswith("a")
    assert made.incident == made.attempt[:-1] + "i"
    assert from_line(Context, to_line(made)) == made


def test_whoever_stops_it_by_hand_has_chosen_the_action() -> None:
    """It is no fall-back then, which more is asked of."""
    effective = load_effective({"set": ["kill_action=stop", "fallback=['shutdown']"]}, {})
    assert Context.of(effective, "shutdown").fallback is True
    assert job(effective, "shutdown", "uid 7").fallback is False
