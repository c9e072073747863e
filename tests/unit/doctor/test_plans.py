"""What doctor asks of the action worker, and makes of its answers."""

import sys
from pathlib import Path

import pytest

from costguard.config import load_effective
from costguard.doctor.plans import plans

TOLD = """
from costguard.plans import PlanFinding, Plan
from costguard.cloud.api import Consequence, Identity
class Machine:
    def facts(self, verb): return {}
    def plan(self, verb, facts): return Plan(verb, "go", (PlanFinding("shutdown_stops", "a shutdown stops it"),))
class Told:
    name, settings, verbs, tags = "Told", (), ("stop",), False
    def recognises(self, dmi): return True
    def instance_of(self, dmi): return "m-1"
    def guest_shutdown(self): return Consequence(True, True, "x")
    def identify(self, site): return Identity("Told", "m-1", "r", "z", "t", "", {}, ("firmware",))
    def notices(self, site): return ()
    def open(self, site, identity): return Machine()
    def price(self, identity): return None
PROVIDER = Told()
"""
"""A cloud that says what a shutdown does, which a guard remembers for this boot."""


def test_a_question_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor may run as anybody, beside an agent whose folder it must not touch; what it finds stands in its words."""
    effective = load_effective({"state_dir": str(tmp_path / "state"), "set": ["kill_action=stop"]}, {})
    effective["paths"] = {"state": str(tmp_path / "state"), "runtime": str(tmp_path / "run")}
    (tmp_path / "told.py").write_text(TOLD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    effective |= {
        "providers": ["told=told"],
        "cloud": {"provider": "told"},
        "host": {"sysfs": str(tmp_path / "sys"), "procfs": str(tmp_path), "stands_for_host": True},
    }
    (found,) = plans(effective, None)
    assert (found.action, [code for code, _, _ in found.findings]) == ("stop", ["shutdown_stops"])
    assert not (tmp_path / "run").exists()
