"""What the tests clean up is theirs."""

import os
import subprocess
import sys
from pathlib import Path

from costguard.config.paths import resolve

ROOT = Path(__file__).parents[2]

STARTS = """
import os
from costguard.config.paths import resolve
def test_it(tmp_path):
    "A rule."
    for folder in (tmp_path, tmp_path / "state", tmp_path / "some" / "state"):
        folder.mkdir(parents=True, exist_ok=True)
        os.makedirs(resolve(str(folder), os.environ).runtime)
        print("made", resolve(str(folder), os.environ).runtime)
    os.makedirs(os.environ["FOREIGN"])  # meanwhile somebody else starts an agent
"""


def test_only_folders_of_the_tests_own_agents_are_removed(tmp_path: Path) -> None:
    """Another agent's runtime folder stays, also one that appeared during the run and that nobody holds locked."""
    (tmp_path / "test_it.py").write_text(STARTS, encoding="utf-8")
    foreign = Path(resolve(str(tmp_path / "another agent's"), os.environ).runtime)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-s",
        "-p",
        "tests.leftovers",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    try:
        done = subprocess.run(
            [*argv, "--rootdir", str(tmp_path), "-c", os.devnull, str(tmp_path / "test_it.py")],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "FOREIGN": str(foreign)},
            capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert foreign.is_dir()
    finally:
        foreign.rmdir()
    made = [Path(line.removeprefix("made ")) for line in done.stdout.splitlines() if line.startswith("made ")]
    assert len(made) == 3
    assert {path.parent for path in made} == {foreign.parent}
    assert not any(path.exists() for path in made)
