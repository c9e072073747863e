"""Break functions in ways that nobody chose, and see that the tests which are meant for them notice.

``python -m tests.mutants.generated`` tries a sample of one group of `modules.toml` (``--count``; ``--seed``, which also
chooses the group, is the commit unless given); ``--all`` tries every mutant, with a table by file. Words choose files or
functions. What `survivors.toml` lists is left out. Exit code 1 when another one survives in a file that is *closed*, or more
than chance explains where nine of ten are noticed (`floor.py`).
"""

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from tests.mutants.bench import CUT, PASSED, UNFIT
from tests.mutants.floor import TO_BE_KILLED, allowed
from tests.mutants.generate import Mutant, Place, made, places
from tests.mutants.tree import ROOT, copy

HERE = Path(__file__).parent
QUICK = ("-m", "not thorough")
MEASURED = ("costguard", "providers", "tests")
LIVED = {PASSED, CUT}
Key = tuple[str, str, str, str]


class Group(NamedTuple):
    """Modules, and the tests that are meant for them."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]  # and options of pytest
    processes: bool  # whether tests start processes that import them
    closed: frozenset[str]  # files of which every survivor is listed
    examples: int = 25  # random cases of each property
    traced: bool = True  # whether the likeliest tests come first; without, each mutant names its own


class Result(NamedTuple):
    """What became of a mutant, and which test noticed it."""

    mutant: Mutant
    fate: str
    test: str
    seconds: float


def groups() -> list[Group]:
    """The table of `modules.toml`."""
    found = []
    for entry in tomllib.loads((HERE / "modules.toml").read_text())["group"]:
        files = {str(path.relative_to(ROOT)) for pattern in entry["files"] for path in ROOT.glob(pattern)}
        kept = tuple(sorted(files - set(entry.get("except", ()))))
        closed = frozenset(entry.get("closed", ()))
        found.append(Group(entry["name"], kept, (*entry["tests"], *QUICK), entry.get("processes", False), closed))
    return found


def listed() -> dict[Key, str]:
    """Survivors that are known, with the reason why each is let live."""
    path = HERE / "survivors.toml"
    entries = tomllib.loads(path.read_text()).get("survivor", []) if path.exists() else []
    return {(one["file"], one["function"], one["old"], one["new"]): one["reason"] for one in entries}


class Copy:
    """A copy of the tree with a warm pytest on it."""

    def __init__(self, folder: Path, group: Group, within: float, measured: Path, change: Mutant | None = None) -> None:
        self._folder, self._group, self._within = folder, group, within
        self._stamp = 1_000_000_000
        self.unsound: set[str] = set()
        """Tests that fail on the unbroken code, too: they tell nothing."""
        copy(folder)
        if change is not None:
            (folder / change.file).write_text(change.text)
        theirs, ours = os.pipe()
        answers, theirs_too = os.pipe()
        environment = {
            **os.environ,
            "PYTHONPATH": f"{folder}:{folder}/providers",
            "COSTGUARD_HYPOTHESIS": "mutants",
            "COSTGUARD_EXAMPLES": str(group.examples),
        }
        how = "traced" if group.traced else "plain"
        program = [sys.executable, "tests/mutants/bench.py"]
        command = [*program, str(theirs), str(theirs_too), str(measured), how, *group.tests]
        self._log = (folder / "bench.log").open("w")
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, pass_fds=(theirs, theirs_too), stdin=subprocess.DEVNULL,
            stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        os.close(theirs_too)
        self._orders, self._answers = os.fdopen(ours, "w", buffering=1), os.fdopen(answers)
        self.unsound.update(self._answer()["unsound"])

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            self._log.flush()
            raise RuntimeError((self._folder / "bench.log").read_text()[-3000:])
        answer: dict[str, Any] = json.loads(line)
        return answer

    def verdict(self, mutant: Mutant, tests: str = "") -> Result:
        """Try one, with all tests or with those whose name begins so."""
        began = time.monotonic()
        path = self._folder / mutant.file
        before = path.read_text()
        self._write(path, mutant.text)
        order = {
            "module": mutant.module,
            "text": mutant.text,
            "function": mutant.function,
            "where": f"{mutant.file}:{mutant.function}",
            "tests": tests,
            "processes": self._group.processes,
            "within": self._within,
        }
        self._orders.write(json.dumps(order) + "\n")
        found = self._answer()
        self._write(path, before)
        return Result(mutant, found["fate"], found["test"], time.monotonic() - began)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text)
        self._stamp += 2  # compiled files are known by whole seconds and the size
        os.utime(path, (self._stamp, self._stamp))

    def close(self) -> None:
        """End the process."""
        self._orders.close()
        self._process.wait()
        self._answers.close()
        self._log.close()


def _digest() -> str:
    """Of the code and its tests: what was measured before either changed says of other functions which tests call them."""
    whole = hashlib.sha256()
    for path in sorted(path for folder in MEASURED for path in (ROOT / folder).rglob("*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()[:12]


def attempt(group: Group, mutants: Iterator[Mutant], jobs: int, within: float, kept: Path | None) -> Iterator[Result]:
    """Try mutants of one group, some at a time."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name, ThreadPoolExecutor(jobs) as pool:
        idle: SimpleQueue[Copy] = SimpleQueue()
        measured = Path(name) / "measured.json" if kept is None else kept / f"{group.name}-{_digest()}.json"
        copies = [
            Copy(Path(name) / str(number), group, within, measured) for number in range(jobs)
        ]  # the first measures
        for one in copies:
            idle.put(one)

        def one_of(mutant: Mutant) -> Result:
            bench = idle.get()
            try:
                return bench.verdict(mutant)
            finally:
                idle.put(bench)

        yield from pool.map(one_of, mutants)
        for one in copies:
            one.close()


def chosen(group: Group, words: Sequence[str], count: int | None, seed: str) -> list[Place]:
    """Every place, or so many of them by chance."""
    found = [place for file in group.files for place in places(ROOT, file)]
    found = [place for place in found if not words or any(word in f"{place.file}:{place.function}" for word in words)]
    dice = random.Random(f"{seed} {group.name}")
    return found if count is None or count >= len(found) else dice.sample(found, count)


def commit() -> str:
    """The seed of a checkout: every commit draws anew."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:12] or "0"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, and print what survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.generated", description=__doc__)
    parser.add_argument("words", nargs="*", help="part of a file's or a function's name")
    parser.add_argument("--all", action="store_true", help="every mutant, instead of a sample")
    parser.add_argument("--count", type=int, default=40, help="size of the sample")
    parser.add_argument("--seed", default=os.environ.get("SEED") or commit())
    parser.add_argument("--group", help="only this one of modules.toml")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("JOBS", "2")))
    parser.add_argument("--measured", type=Path, help="folder that keeps what a run on the unbroken code measured")
    parser.add_argument(
        "--within",
        type=float,
        default=math.inf,
        help="CPU seconds of tests for each, the likeliest first; what is not noticed by then is no known survivor",
    )
    parser.add_argument("--json", action="store_true", help="each result as a line of JSON")
    options = parser.parse_args(arguments)
    wanted = [group for group in groups() if options.group in {None, group.name}]
    sizes = [len(chosen(group, options.words, None, "")) for group in wanted]
    if not (options.all or options.group or options.words):
        wanted = random.Random(options.seed).choices(wanted, weights=sizes)
    count = None if options.all else options.count
    if not options.json:
        names = ", ".join(group.name for group in wanted)
        print(f"{'all' if count is None else count} of {sum(sizes)} mutants: {names} (SEED={options.seed})", flush=True)
    results: list[Result] = []
    known = listed()
    for group in wanted:
        mutants = (made(ROOT, place) for place in chosen(group, options.words, count, options.seed))
        fresh = (mutant for mutant in mutants if mutant is not None and mutant.key not in known)
        for result in attempt(group, fresh, options.jobs, options.within, options.measured):
            results.append(result)
            _show(result, as_json=options.json)
    if not options.json:
        _sum_up(results)
    closed = frozenset[str]().union(*(group.closed for group in wanted))
    lived = [result.mutant.file for result in results if result.fate == PASSED]
    return int(_too_many(results) or not closed.isdisjoint(lived))


def _show(result: Result, *, as_json: bool) -> None:
    mutant = result.mutant
    if as_json:
        row = {**mutant._asdict(), "fate": result.fate, "test": result.test, "seconds": round(result.seconds, 2)}
        del row["text"]
        print(json.dumps(row), flush=True)
    elif result.fate in LIVED:
        word = "SURVIVED" if result.fate == PASSED else "NOT NOTICED IN ITS TIME"
        print(f"{word} {mutant.file} {mutant.function}\n  - {mutant.old}\n  + {mutant.new}", flush=True)
    elif result.fate == UNFIT:
        print(f"UNFIT {mutant.file} {mutant.function} {result.test}\n  + {mutant.new}", flush=True)


def _tried(results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.fate != UNFIT]


def _too_many(results: Sequence[Result]) -> bool:
    """Whether more survived than chance explains."""
    return sum(result.fate in LIVED for result in results) > allowed(len(_tried(results)))


def _sum_up(results: Sequence[Result]) -> None:
    """A table by file."""
    tried = _tried(results)
    lived = Counter(result.mutant.file for result in tried if result.fate in LIVED)
    for file, number in sorted(Counter(result.mutant.file for result in tried).items()):
        print(f"{file:40} {number - lived[file]:5} of {number:5} killed")
    killed = len(tried) - lived.total()
    cut = sum(result.fate == CUT for result in tried)
    print(
        f"{killed} of {len(tried)} killed ({100.0 * killed / max(1, len(tried)):.1f} %); of {cut} others not all tests had time"
    )
    if _too_many(results):
        print(f"TOO MANY SURVIVED: {allowed(len(tried))} of {len(tried)} at most where {TO_BE_KILLED:.0%} are killed")


if __name__ == "__main__":
    sys.exit(main())
