"""Run stories: ``python -m tests.simulation --seed N --days D --verbose``; ``--seeds 80`` from N on, on all cores."""

import argparse
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from tests.simulation.story import Report, Story
from tests.simulation.table import account, table
from tests.simulation.year import Result, live, run, together


def main() -> int:
    """Exit code 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many stories, from --seed on")
    parser.add_argument("--days", type=float, default=30.0, help="running days of each story")
    parser.add_argument("--verbose", action="store_true", help="every line of one story's log")
    given = parser.parse_args()
    began = time.perf_counter()
    if given.verbose:
        reports = [Story(given.seed, given.days, verbose=True).run()]
        failed: list[tuple[int, str]] = []
    else:
        seeds = range(given.seed, given.seed + given.seeds)
        results = list(_shown(seeds, given.days)) if len(seeds) > 1 else [live((given.seed, given.days))]
        reports = [report for _, report, _ in results if isinstance(report, Report)]
        failed = [(seed, text) for seed, report, text in results if report is None]
    for _, text in failed:
        print(text)
    met, counts, seconds = together(reports)
    print(table(met))
    print(account(counts, reports, seconds))
    print(f"{len(failed)} failures {[seed for seed, _ in failed]}, {time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


def _shown(seeds: range, days: float) -> Iterator[Result]:
    """Live them all, with a bar on a terminal and a line for every failure at once."""
    with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("stories", total=len(seeds))
        for result in run(seeds, days):
            progress.advance(bar)
            if result[1] is None:
                progress.console.print(f"seed {result[0]} broke a rule")
            yield result


if __name__ == "__main__":
    sys.exit(main())
