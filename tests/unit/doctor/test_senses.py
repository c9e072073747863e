"""`doctor` shows each sense: what it sees, what it cannot see, and whether that keeps the machine up."""

import os
from pathlib import Path
from typing import Any

import pytest

from costguard.config import load_effective
from costguard.doctor.senses import checks
from costguard.readers.host.senses import SENSES


def row(**changes: Any) -> dict[str, Any]:
    return {
        "name": "terminals",
        "required": True,
        "hatch": False,
        "unknown": "",
        "seen": "no terminal",
        "active": [],
        **changes,
    }


def said(*rows: dict[str, Any]) -> list[tuple[str, str]]:
    report = {"agent": {"senses": list(rows)}}
    return [(check.level, check.text) for check in checks(report, {}, "/proc")]


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (row(), "ok", "terminals: no terminal (required: what it cannot see keeps the machine up)"),
        (row(required=False), "ok", "terminals: no terminal (advisory: what it cannot see keeps nothing up)"),
        (row(unknown="/proc hides the processes of other users (hidepid)"), "bad", "(hidepid)), and it is required: the machine is kept up"),
        (row(unknown="hidepid", required=False), "warn", "it is advisory: that keeps nothing up"),
        (row(unknown="not yet seen"), "note", "it compares two readings"),
        (row(active=[{"words": "ann on pts/3 typed; counts until rest"}]), "note", "terminals: ann on pts/3 typed; counts until rest"),
        (row(active=[{"words": "slurmd runs"}], hatch=True), "note", "terminals: slurmd runs; it blocks every stop"),
    ],
)  # fmt: skip
def test_each_sense_says_what_it_means(given: dict[str, Any], level: str, words: str) -> None:
    """Somebody who works is no problem; a sense that is required and cannot see is one."""
    (first, *_) = said(given)
    assert first[0] == level
    assert words in first[1]


def test_what_is_switched_off_is_named() -> None:
    """Each one; and that without any the GPUs alone decide."""
    off = said(row())[-1]
    assert off[0] == "note" or len(SENSES) == 1
    assert [level for level, _ in said()] == ["warn"]


def test_without_an_agent_the_senses_look_once(tmp_path: Path) -> None:
    """Those that ask a server or a program have not looked then."""
    proc = tmp_path / "proc"
    (proc / "1").mkdir(parents=True)
    (proc / "1" / "stat").write_text("1 (init) S 0 1 1 0 " + "0 " * 30)
    (proc / "self").symlink_to("1")
    effective = load_effective({"state_dir": str(tmp_path / "state")}, {})
    found = {check.text.partition(":")[0].partition(" ")[0]: check for check in checks(None, effective, str(proc))}
    assert found["terminals"].level == "ok"
    assert not os.path.exists(tmp_path / "state")
    effective["senses"] = {"enabled": False}
    assert [check.level for check in checks(None, effective, str(proc))] == ["warn"]
    assert [check.level for check in checks(None, {}, str(proc))] == ["note"]
