"""Rules that are broken on purpose: each still finds the text that it breaks, and a test that exists."""

import tomllib
from itertools import pairwise
from pathlib import Path

import costguard

ROOT = Path(__file__).resolve().parents[2]


def source_of(file: str) -> Path:
    """The file in the checkout, or where a wheel put it."""
    if (ROOT / file).exists():
        return ROOT / file
    return Path(costguard.__file__).parents[1] / file.removeprefix("providers/")


def test_every_mutant_finds_its_text_and_its_test() -> None:
    """One that is stale proves nothing; `tests/mutants/run.py` says whether the tests catch it."""
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
    assert stale == []
