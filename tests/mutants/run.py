"""Break one rule at a time in a copy of the package, and see that the tests notice.

``python -m tests.mutants.run [WORD ...]`` runs every mutant whose text contains one of the words (default: all),
two at a time (``JOBS`` changes that). Exit code 1 when one survives, or when its ``old`` is no longer found once.
"""

import math
import os
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.bench import FAILED, HUNG, PASSED, UNFIT
from tests.mutants.generate import Mutant, written
from tests.mutants.generated import HERE, Copy, Group
from tests.mutants.tree import ROOT
from tests.shares import Share

CAUGHT = {FAILED, HUNG}
UNSOUND = "its tests fail on the unbroken code"


def place(tests: str) -> str:
    """Where tests are: a path without a folder is one of the engine's."""
    return tests if tests.startswith("tests/") else f"tests/engine/{tests}"


def broken(mutant: dict[str, str]) -> tuple[str, str]:
    """The text of the file before and after; the same text twice where ``old`` is not found exactly once."""
    text = (ROOT / mutant["file"]).read_text()
    return text, text.replace(mutant["old"], mutant["new"]) if text.count(mutant["old"]) == 1 else text


def written_group(tests: Iterable[str]) -> Group:
    """What `Copy` runs for mutants that were written by hand, each with the tests that notice it."""
    return Group("written", (), tuple(tests), processes=True, closed=frozenset(), examples=60, traced=False)


class Bench:
    """Copies with a warm pytest, and one mutant after the other."""

    def __init__(self, folder: Path, tests: Sequence[str], jobs: int) -> None:
        self._folder = folder
        self._copies = [
            Copy(folder / str(number), written_group(tests), math.inf, folder / "measured") for number in range(jobs)
        ]
        self._idle: SimpleQueue[Copy] = SimpleQueue()
        for one in self._copies:
            self._idle.put(one)
        self.unsound = sorted(self._copies[0].unsound)
        """Tests that fail beside the others, each of which may leave something behind: their mutants have a process of their own."""

    def try_mutant(self, mutant: dict[str, str]) -> str:
        """What the tests say about one."""
        before, after = broken(mutant)
        if before == after:
            return "old text not found once"
        tests = place(mutant["tests"])
        whole = Mutant(mutant["file"], "", "", "", "", after)
        if any(test.startswith(tests) for test in self.unsound):
            return self._cold(whole, tests) if self._cold(None, tests) == PASSED else UNSOUND
        change = written(mutant["file"], before, after)
        fate = UNFIT if change is None else self._warm(change, tests)
        # a value outside functions is there only for who imports everything again
        return self._cold(whole, tests) if fate == UNFIT else fate

    def _warm(self, change: Mutant, tests: str) -> str:
        copy = self._idle.get()
        try:
            return copy.verdict(change, tests).fate
        finally:
            self._idle.put(copy)

    def _cold(self, change: Mutant | None, tests: str) -> str:
        with tempfile.TemporaryDirectory(dir=self._folder) as name:
            copy = Copy(Path(name) / "tree", written_group([tests]), math.inf, Path(name) / "measured", change)
            copy.close()
            return FAILED if copy.unsound else PASSED

    def close(self) -> None:
        """End all processes."""
        for one in self._copies:
            one.close()


def chosen(words: Sequence[str]) -> Iterator[dict[str, str]]:
    """The mutants in which one of the words stands."""
    for mutant in tomllib.loads((HERE / "mutants.toml").read_text())["mutant"]:
        if not words or any(word in str(mutant) for word in words):
            yield mutant


def drawn(mutants: Iterable[dict[str, str]], seed: str) -> Iterator[dict[str, str]]:
    """A tenth of them, others for another seed; all without one."""
    for mutant in mutants:
        if not seed or Share(seed, 0, 10).has(mutant["why"]):
            yield mutant


def main(words: Sequence[str]) -> int:
    """Print a table and the sum."""
    began, jobs = time.monotonic(), int(os.environ.get("JOBS", "2"))
    mutants = list(drawn(chosen(words), os.environ.get("DRAW", "")))
    if not mutants:
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as name, ThreadPoolExecutor(jobs) as pool:
        bench = Bench(Path(name), sorted({place(mutant["tests"]) for mutant in mutants}), jobs)
        for test in bench.unsound:
            print(f"{test} does not pass beside the others")
        results = list(pool.map(bench.try_mutant, mutants))
        bench.close()
    for mutant, result in zip(mutants, results, strict=True):
        word = "caught" if result in CAUGHT else "SURVIVED" if result == PASSED else result.upper()
        print(f"{mutant['invariant']:6} {word:9} {mutant['file'].removeprefix('costguard/'):22} {mutant['why']}")
    caught = sum(result in CAUGHT for result in results)
    print(f"{caught} caught, {len(mutants) - caught} survived, in {time.monotonic() - began:.0f} s")
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
