"""Plant one bug at a time in a copy of the package, and see after how many simulated days the judge notices.

``python -m tests.simulation.planted [WORD ...]`` takes every bug of `planted.toml` whose text contains one of the words
(default: all); ``--seeds N`` lives so many lives with each (default 2), ``--days`` their length. The same lives
without a bug come first: a complaint there is the judge's mistake. Exit code 1 when a bug was noticed in no
life, and its entry does not say why (`unnoticed`), or when there was a complaint without one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.tree import copy

if TYPE_CHECKING:
    from tests.simulation.bents import Bent

TABLE = Path(__file__).with_name("planted.toml")
NOTHING = {"rule": "-", "why": "nothing is planted", "file": "", "unnoticed": "as it must be"}
LIFE = "from tests.simulation.planted import {life}; {life}({seed}, {days}{about})"
STORY = 2.5
"""Days of one story about everything; several machines show more than one."""


def lives(seed: int, days: float) -> None:
    """Live some stories about everything, and print after how many days in all which rule was broken."""
    from tests.simulation.bents import PLAIN

    _tell(((1000 * seed + int(number * STORY), PLAIN, STORY) for number in count()), days)


def about(seed: int, days: float, what: str) -> None:
    """The same of stories that are mostly about this, or in turn about everything that a story is mostly about, for *anything*."""
    from tests.simulation.bents import BENTS

    bents = [BENTS[what]] if what in BENTS else [*BENTS.values()]
    drawn = ((1000 * seed + number, bents[(8 * seed + number) % len(bents)]) for number in count())
    _tell(((name, bent, bent.days) for name, bent in drawn), days)


def _tell(stories: Iterable[tuple[int, "Bent", float]], days: float) -> None:
    from tests.simulation.judge import Violation
    from tests.simulation.story import Story

    lived = 0.0
    for seed, bent, length in stories:
        if lived >= days:
            break
        story = Story(seed, min(length, days - lived), bent=bent)
        try:
            story.run()
        except (Exception, Violation) as error:  # noqa: BLE001  # a bug may show itself in any way
            words = (str(error).splitlines() or [""])[0][:120]
            print(f"{lived + story.running / 86400.0:.2f} {type(error).__name__}: {words}")
            return
        lived += story.running / 86400.0
    print("-")


def people(seed: int, days: float) -> None:
    """The same of lives in which people come and go, for a bug whose ``life`` is this."""
    from tests.simulation.presence import Broken, live

    lived = 0.0
    while lived < days:
        try:
            live(1000 * seed + int(lived), STORY)
        except (Exception, Broken) as error:  # noqa: BLE001  # a bug may show itself in any way
            words = (str(error).splitlines() or [""])[0][:120]
            print(f"{lived + STORY:.2f} {type(error).__name__}: {words}")
            return
        lived += STORY
    print("-")


def noticed(planted: dict[str, str], seeds: range, days: float) -> list[str]:
    """What each life says about one bug."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy(folder)
        life, about = planted.get("life", "lives"), planted.get("about", "")
        if not planted["file"]:
            return [one(folder, life, seed, days, about) for seed in seeds]
        path = folder / planted["file"]
        text = path.read_text()
        if (found := text.count(planted["old"])) != 1:
            return [f"old text found {found} times"]
        path.write_text(text.replace(planted["old"], planted["new"]))
        return [one(folder, life, seed, days, about) for seed in seeds]


def one(folder: Path, life: str, seed: int, days: float, what: str) -> str:
    """One life in a process of its own."""
    life, last = ("about", f", {what!r}") if what else (life, "")
    command = [sys.executable, "-c", LIFE.format(life=life, seed=seed, days=days, about=last)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"0 {(done.stderr.strip().splitlines() or ['nothing'])[-1]}"


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--table", type=Path, default=TABLE, help="of other bugs, in the same form")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--days", type=float, default=10.0)
    given = parser.parse_args()
    began = time.monotonic()
    table = tomllib.loads(given.table.read_text())["planted"]
    nothing = [{**NOTHING, "life": "lives"}, {**NOTHING, "about": "anything"}, {**NOTHING, "life": "people"}]
    chosen = nothing + [bug for bug in table if not given.words or any(word in str(bug) for word in given.words)]
    seeds, missed = range(given.seed, given.seed + given.seeds), 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        for bug, results in zip(chosen, pool.map(lambda bug: noticed(bug, seeds, given.days), chosen), strict=True):
            days = " ".join(result.partition(" ")[0] for result in results)
            words = next((result.partition(" ")[2] for result in results if result != "-"), "NOT NOTICED")
            stale = any(result.startswith("old text") for result in results)
            silent = all(result == "-" for result in results)
            missed += stale or (not silent if bug in nothing else silent and "unnoticed" not in bug)
            words = bug.get("unnoticed", words) if words == "NOT NOTICED" else words
            print(f"{bug['rule']:6} {days:24} {bug['why']}: {words}", flush=True)
    print(
        f"{missed} of {len(chosen) - len(nothing)} neither noticed nor known to be missed, in {time.monotonic() - began:.0f} s"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
