"""Plant one bug at a time in a copy of the package, and see after how many simulated days the judge notices.

``python -m tests.simulation.planted [WORD ...]`` takes every bug of `planted.toml` whose text contains one of the words
(default: all); ``--seeds N`` lives so many programmes with each (default 1), of ``--days`` (10). The same programmes
without a bug come first: a complaint there is the judge's mistake. Exit code 1 when a bug was noticed in none,
and its entry does not say why (`unnoticed`), or when there was a complaint without one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.tree import copy

TABLE = Path(__file__).with_name("planted.toml")
NOTHING = {"rule": "-", "why": "nothing is planted", "file": "", "unnoticed": "as it must be"}
LIFE = "from tests.simulation.planted import lives; lives({seed}, {days})"


def lives(seed: int, days: float) -> None:
    """Live a programme, and print after how many days which rule was broken in which kind of life."""
    from tests.simulation.programme import complaint
    from tests.simulation.year import uncollected

    with uncollected():
        found = complaint(seed, days)
    if found is None:
        print("-")
        return
    words = (str(found.error).splitlines() or [""])[0][:120]
    print(f"{found.days:.2f} {type(found.error).__name__} ({found.life.name}): {words}")


def noticed(planted: dict[str, str], seeds: range, days: float) -> list[str]:
    """What each life says about one bug."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        folder = Path(name)
        copy(folder)
        if not planted["file"]:
            return [one(folder, seed, days) for seed in seeds]
        path = folder / planted["file"]
        text = path.read_text()
        if (found := text.count(planted["old"])) != 1:
            return [f"old text found {found} times"]
        path.write_text(text.replace(planted["old"], planted["new"]))
        return [one(folder, seed, days) for seed in seeds]


def one(folder: Path, seed: int, days: float) -> str:
    """One programme in a process of its own."""
    command = [sys.executable, "-c", LIFE.format(seed=seed, days=days)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"0 {(done.stderr.strip().splitlines() or ['nothing'])[-1]}"


def main() -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.planted")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--table", type=Path, default=TABLE, help="of other bugs, in the same form")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--days", type=float, default=10.0)
    given = parser.parse_args()
    began = time.monotonic()
    table = tomllib.loads(given.table.read_text())["planted"]
    nothing = [NOTHING]
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
