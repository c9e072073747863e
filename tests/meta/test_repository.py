"""What every file of the repository keeps to."""

import ast
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("costguard", "providers", "tests", "bench", "release")
SOURCES = sorted(file for folder in FOLDERS for file in (ROOT / folder).glob("**/*.py"))
TESTS = sorted((ROOT / "tests").glob("**/test_*.py"))


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_exceptions_to_rules_have_a_reason() -> None:
    """A suppressed check names its code and says why, in the same line."""
    bare = [
        f"{name_of(file)}:{token.start[0]}: {token.string}"
        for file in SOURCES
        if not all(map(explained, file.read_text(encoding="utf-8").splitlines()))  # most files need no closer look
        for token in comments(file)
        if not explained(token.string)
    ]
    assert not bare


def comments(file: Path) -> Iterator[tokenize.TokenInfo]:
    with tokenize.open(file) as text:
        yield from (token for token in tokenize.generate_tokens(text.readline) if token.type == tokenize.COMMENT)


def explained(comment: str) -> bool:
    if "type: ignore" in comment and not re.search(r"type: ignore\[[a-z, -]+\] +# \S", comment):
        return False
    return not re.search(r"\bnoqa\b", comment) or bool(
        re.search(r"noqa: [A-Z]+[0-9]+(, ?[A-Z]+[0-9]+)* +(- |# )\S", comment)
    )


@pytest.mark.parametrize(
    ("comment", "is_explained"),
    [
        ("# noqa: S311 - spreads machines, hides nothing", True),
        ("# type: ignore[arg-type] # as above", True),
        ("# noqa: S311", False),
        ("# noqa", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
        ("# nothing to see", True),
    ],
)
def test_what_a_reason_is(comment: str, is_explained: bool) -> None:
    """The rule above can fail."""
    assert explained(comment) == is_explained


def test_a_name_of_a_module_is_given_once() -> None:
    """Of two values of one name the later one stands for both, and no other check says so."""
    twice = [
        f"{name_of(file)}: {name}"
        for file in SOURCES
        for name, count in Counter(given(ast.parse(file.read_text(encoding="utf-8")))).items()
        if count > 1
    ]
    assert not twice


def given(module: ast.Module) -> Iterator[str]:
    """The names that a module gives, outside of any condition."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (
            name.id
            for target in targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        )


def test_every_test_states_its_rule() -> None:
    """The docstring of a test is the rule that it keeps; a failing one then explains itself."""
    silent = [
        f"{name_of(file)}:{node.lineno}: {node.name}"
        for file in TESTS
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert not silent


def test_nothing_of_one_machine_is_in_the_repository() -> None:
    """No folder of a developer's machine, and no package registry: users bring their own."""
    foreign = re.compile(r"(?:^|[^\w.-])/(?:work|farm|root|home/[a-z]+)/|pypi\.org|python[h]osted|registry\.npm[j]s")
    for file in listed():
        if file.suffix not in {".png", ".csv"}:
            assert not foreign.search(file.read_text(encoding="utf-8", errors="replace")), name_of(file)


def test_the_repository_has_sources_alone() -> None:
    """No file that something was made of or fetched into, which nobody can read; the one exception is compared with its source elsewhere."""
    if not (ROOT / ".git").exists():
        pytest.skip("without git nobody knows which files are the repository's")
    packed = {name_of(file) for file in listed() if b"\0" in file.read_bytes()}
    assert packed <= {"terraform/aws/backstop/watch.zip"}


def listed() -> list[Path]:
    """The repository's files; without git (an unpacked copy), everything."""
    try:
        done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=30)
        names = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = list(ROOT.glob("**/*"))
    return [file for file in names if file.is_file()]


def test_a_decision_has_a_number_of_its_own() -> None:
    """Two that were made side by side would be one in every reference."""
    numbers = [record.name[:4] for record in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))]
    assert sorted(set(numbers)) == numbers
