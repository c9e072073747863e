"""What every file of the repository keeps to."""

import ast
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("costguard", "providers", "tests", "bench")
SOURCES = sorted(file for folder in FOLDERS for file in (ROOT / folder).glob("**/*.py"))
TESTS = sorted((ROOT / "tests").glob("**/test_*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", SOURCES, ids=name_of)
def test_exceptions_to_rules_have_a_reason(file: Path) -> None:
    """A suppressed check names its code and says why, in the same line."""
    with tokenize.open(file) as text:
        comments = [token.string for token in tokenize.generate_tokens(text.readline) if token.type == tokenize.COMMENT]
    for comment in comments:
        if "type: ignore" in comment:
            assert re.search(r"type: ignore\[[a-z, -]+\] +# \S", comment)
        if re.search(r"\bnoqa\b", comment):
            assert re.search(r"noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)* +(- |# )\S", comment)


@pytest.mark.parametrize("file", TESTS, ids=name_of)
def test_every_test_states_its_rule(file: Path) -> None:
    """The docstring of a test is the rule that it keeps; a failing one then explains itself."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            assert ast.get_docstring(node), f"{node.name} has no docstring"


def test_nothing_of_one_machine_is_in_the_repository() -> None:
    """No folder of a developer's machine, and no package registry: users bring their own."""
    foreign = re.compile(r"(?:^|[^\w.-])/(?:work|farm|root|home/[a-z]+)/|pypi\.org|python[h]osted|registry\.npm[j]s")
    for file in listed():
        if file.suffix not in {".png", ".csv"}:
            assert not foreign.search(file.read_text(encoding="utf-8", errors="replace")), name_of(file)


def listed() -> list[Path]:
    """The repository's files; without git (an unpacked copy), everything."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=30)
        names = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = list(ROOT.glob("**/*"))
    return [file for file in names if file.is_file()]
