"""Which costguard this is."""

import sys
from pathlib import Path

import pytest

import costguard
from costguard.doctor import package

HOME = str(Path(costguard.__file__).parents[1])


def found(path: list[str], command_path: str = "") -> list[str]:
    checks = list(package.checks(path, {"PATH": command_path}))
    assert checks[0].level == "ok"
    assert all(check.hint for check in checks[1:])
    assert {check.level for check in checks[1:]} <= {"warn"}
    return [check.text for check in checks[1:]]


def test_ours_alone_is_no_complaint() -> None:
    """The package by its path, also when that is listed twice."""
    assert found([HOME, HOME]) == []


def test_the_other_vendors_distribution_is_told(tmp_path: Path) -> None:
    """The bare name belongs to another tool on the package index."""
    info = tmp_path / "costguard-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: costguard\nVersion: 3.1\n")
    ours = tmp_path / "costguard_agent-0.1.0.dist-info"
    ours.mkdir()
    (ours / "METADATA").write_text("Metadata-Version: 2.1\nName: costguard-agent\nVersion: 0.1.0\n")
    (told,) = found([HOME, str(tmp_path)])
    assert told.startswith("the distribution costguard 3.1 is installed; it is another vendor's")


def test_another_package_of_the_name_is_told(tmp_path: Path) -> None:
    """Which one an import gets depends on the order of the path."""
    (tmp_path / "costguard").mkdir()
    (tmp_path / "costguard/__init__.py").touch()
    (told,) = found([str(tmp_path), HOME])
    assert f"another package named costguard is in {tmp_path}/costguard" in told


@pytest.mark.skipif(
    not (Path(sys.executable).parent / "costguard").exists(), reason="only an installed costguard has a command"
)
def test_another_command_of_the_name_is_told(tmp_path: Path) -> None:
    """What people get when they type it may not be what they installed."""
    other = tmp_path / "costguard"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    own = str(Path(sys.executable).parent)
    assert found([HOME], f"{own}:{tmp_path}") == []
    (told,) = found([HOME], f"{tmp_path}:{own}")
    assert f"`costguard` in your PATH is {other}, not this Python's" in told
