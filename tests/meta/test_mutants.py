"""Rules that are broken on purpose: each still finds the text that it breaks, and a test that exists."""

import ast
import tomllib
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

import pytest

import costguard
from tests.mutants.floor import TO_BE_KILLED, allowed
from tests.mutants.generate import made, places

ROOT = Path(__file__).resolve().parents[2]


def source_of(file: str) -> Path:
    """The file in the checkout, or where a wheel put it."""
    if (ROOT / file).exists():
        return ROOT / file
    return Path(costguard.__file__).parents[1] / file.removeprefix("providers/")


def test_every_mutant_finds_its_text_and_its_test() -> None:
    """One that is stale, or is no program any more, proves nothing; `tests/mutants/run.py` says whether the tests catch it."""
    source = (ROOT / "tests/mutants/mutants.toml").read_text()
    begun = [after for before, after in pairwise(source.splitlines()) if before == "[[mutant]]"]
    lost = [line for line in source.splitlines() if line.startswith("invariant = ")]
    assert len(begun) == len(lost), "a merge took a line `[[mutant]]` away: write one above each `invariant`"
    mutants = tomllib.loads(source)["mutant"]
    stale = []
    for mutant in mutants:
        tests = mutant["tests"] if mutant["tests"].startswith("tests/") else f"tests/engine/{mutant['tests']}"
        path, _, name = tests.partition("::")
        text = source_of(mutant["file"]).read_text()
        good = (
            (ROOT / path).is_file() and f"def {name.partition('[')[0]}" in (ROOT / path).read_text() if name else True
        )
        if text.count(mutant["old"]) != 1 or not good:
            stale.append(f"{mutant['file']}: {mutant['why']}")
        elif mutant["file"].endswith(".py"):
            ast.parse(text.replace(mutant["old"], mutant["new"]), f"{mutant['file']} with: {mutant['why']}")
    assert stale == []


def functions(scope: ast.Module | ast.ClassDef, prefix: str = "") -> set[str]:
    """All of a module, each with the classes around it."""
    found = set()
    for node in scope.body:
        if isinstance(node, ast.ClassDef):
            found |= functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            found.add(prefix + node.name)
    return found


def test_every_survivor_that_is_let_live_still_exists() -> None:
    """Its function is there, its lines are in that file, and it says why."""
    entries = tomllib.loads((ROOT / "tests/mutants/survivors.toml").read_text())["survivor"]
    keys = [(one["file"], one["function"], one["old"], one["new"]) for one in entries]
    assert len(set(keys)) == len(keys)
    stale = []
    for file, of_file in groupby(sorted(entries, key=itemgetter("file")), itemgetter("file")):
        text = source_of(file).read_text()
        there, words = functions(ast.parse(text)), " ".join(text.split())
        for one in of_file:
            if one["function"] not in there:
                stale.append(f"{file} has no function {one['function']}")
            elif one["old"] not in words:
                stale.append(f"{file} has no line {one['old']!r}")
            assert len(one["reason"]) > 20, one
    assert not stale, f"correct these entries of tests/mutants/survivors.toml: {stale}"


def test_the_table_of_modules_names_what_exists() -> None:
    """Each pattern finds files, each group tests, and what counts as closed is one of its files."""
    for group in tomllib.loads((ROOT / "tests/mutants/modules.toml").read_text())["group"]:
        package = source_of("costguard/__init__.py").parents[1]
        files = {str(path.relative_to(package)) for pattern in group["files"] for path in package.glob(pattern)}
        assert files
        assert files >= set(group.get("closed", ())) | set(group.get("except", ()))
        assert all((ROOT / test).exists() for test in group["tests"])


def test_no_type_is_broken(tmp_path: Path) -> None:
    """A function evaluates none of them, so that nothing could notice."""
    (tmp_path / "x.py").write_text("def f(a):\n    b: dict[str, int | None] = a\n    return b | a\n")
    found = {mutant.new for place in places(tmp_path, "x.py") if (mutant := made(tmp_path, place)) is not None}
    assert found == {"pass", "return b & a"}


@pytest.mark.parametrize(("tried", "most"), [(0, 0), (1, 1), (30, 9), (150, 27), (3000, 352)])
def test_a_sample_fails_for_what_is_no_chance(tried: int, most: int) -> None:
    """Of thirty mutants a third survives by bad luck in less than one run of a thousand; of thousands hardly more than a tenth."""
    assert allowed(tried) == most
    assert tried * (1.0 - TO_BE_KILLED) <= most


def test_every_planted_bug_finds_its_text() -> None:
    """`python -m tests.simulation.planted` says after how many simulated days each is noticed."""
    planted = tomllib.loads((ROOT / "tests/simulation/planted.toml").read_text())["planted"]
    stale = [bug["why"] for bug in planted if source_of(bug["file"]).read_text().count(bug["old"]) != 1]
    assert stale == []
