"""What doctor asks of the action worker, and makes of its answers."""

from pathlib import Path

from costguard.config import load_effective
from costguard.doctor.plans import plans


def test_a_question_leaves_no_file(tmp_path: Path) -> None:
    """Doctor may run as anybody, beside an agent whose folder it must not touch; what it finds stands in its words."""
    effective = load_effective({"state_dir": str(tmp_path / "state"), "set": ["kill_action=shutdown"]}, {})
    effective["paths"] = {"state": str(tmp_path / "state"), "runtime": str(tmp_path / "run")}
    (found,) = plans(effective, None)
    assert found.action == "shutdown"
    assert found.verdict
    assert list(tmp_path.iterdir()) == []
