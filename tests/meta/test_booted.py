"""What `.ci/booted` does where no machine can be booted: it says what was not checked, and is no silent pass where it must be checked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm.image import NEEDED

ROOT = Path(__file__).parents[2]
UNREACHED = "E: cannot reach the mirror"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with all programs that are needed; the one that fetches the distribution finds no mirror."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in {*NEEDED, "fakeroot", "newuidmap"} - {"tar"}:
        (folder / name).write_text(f"#!/bin/sh\necho '{UNREACHED}' >&2\nexit 25\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(("wanted", "code"), [("", 0), ("required", 1)])
def test_no_mirror_is_said_and_an_error_where_it_is_required(
    programs: Path, tmp_path: Path, wanted: str, code: int
) -> None:
    """The reason is in the same line."""
    own = {"VM": wanted, "PYTHON": sys.executable, "COSTGUARD_VM_CACHE": str(tmp_path / "cache")}
    environment = os.environ | own | {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        [ROOT / ".ci/booted", ROOT / "pyproject.toml"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "NOT CHECKED here: the service on a machine that boots" in done.stderr
    assert UNREACHED in done.stderr
