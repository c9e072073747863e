"""Break one rule at a time in a copy of the package, and see that the tests notice.

``python tests/mutants/run.py [WORD ...]`` runs every mutant whose text contains one of the words (default: all),
two at a time (``JOBS`` changes that). Exit code 1 when one survives, or when its ``old`` is no longer found once.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("costguard", "tests", "pyproject.toml")
LIMIT = 120.0
CAUGHT = {"failed", "hung"}


def copy(target: Path) -> None:
    """The package and the tests of rules, away from the checkout."""
    for name in COPIED:
        source, place = ROOT / name, target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter on the copy."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COSTGUARD_HYPOTHESIS": "mutants",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def place(tests: str) -> str:
    """Where tests are: a path without a folder is one of the engine's."""
    return tests if tests.startswith("tests/") else f"tests/engine/{tests}"


def verdict(folder: Path, tests: str) -> str:
    """``passed``, ``failed`` or ``hung``; raises RuntimeError when the tests could not even run."""
    try:
        options = ("-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
        done = python(folder, *options, place(tests))
    except subprocess.TimeoutExpired:
        return "hung"
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return "failed" if done.returncode else "passed"


def try_mutant(mutant: dict[str, str]) -> str:
    """What the tests say about one mutant."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        copy(folder)
        path = folder / mutant["file"]
        text = path.read_text()
        found = text.count(mutant["old"])
        if found != 1:
            return f"old text found {found} times"
        path.write_text(text.replace(mutant["old"], mutant["new"]))
        return verdict(folder, mutant["tests"])


def sound(tests: list[str]) -> bool:
    """Whether the tests pass on the unbroken copy; otherwise catching means nothing."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        copy(Path(name))
        where = python(Path(name), "-c", "import costguard.engine; print(costguard.engine.__file__)").stdout.strip()
        if not Path(where).is_relative_to(Path(name)):
            print(f"the tests would import {where}, not the copy")
            return False
        broken = [file for file in tests if verdict(Path(name), file) != "passed"]
    for file in broken:
        print(f"{place(file)} does not pass on the unbroken code")
    return not broken


def main(words: list[str]) -> int:
    """Print a table and the sum."""
    began = time.monotonic()
    mutants = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]
    chosen = [mutant for mutant in mutants if not words or any(word in str(mutant) for word in words)]
    if not chosen or not sound(sorted({mutant["tests"] for mutant in chosen})):
        return 1
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        results = list(pool.map(try_mutant, chosen))
    for mutant, result in zip(chosen, results, strict=True):
        word = "caught" if result in CAUGHT else "SURVIVED" if result == "passed" else result.upper()
        print(f"{mutant['invariant']:6} {word:9} {mutant['file'].removeprefix('costguard/'):22} {mutant['why']}")
    caught = sum(result in CAUGHT for result in results)
    print(f"{caught} caught, {len(chosen) - caught} survived, in {time.monotonic() - began:.0f} s")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
