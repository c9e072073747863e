"""Run stories: ``python -m tests.simulation --seed N --days D --verbose``, ``--years 10`` for a soak."""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.monitor import Violation
from tests.simulation.story import Report, Story, tell
from tests.simulation.table import table


def main() -> int:
    """Exit code 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many stories, from --seed on")
    parser.add_argument("--days", type=float, default=30.0, help="running days of each story")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep-going", action="store_true", help="tell every failure in a line")
    given = parser.parse_args()
    reports: list[Report] = []
    failures, began = 0, time.perf_counter()
    for seed in range(given.seed, given.seed + given.seeds):
        try:
            reports.append(Story(seed, given.days, verbose=given.verbose).run())
        except (Exception, Violation) as error:  # noqa: BLE001  # whatever it is, it belongs to this seed
            failures += 1
            text = tell(error)
            print(f"seed {seed}: {type(error).__name__}: {error}" if given.keep_going else text, flush=True)
            if not given.keep_going:
                return 1
    met: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    for report in reports:
        met.update(report.met)
        counts.update(report.counts)
    print(table(met))
    seconds = sum(report.seconds for report in reports)
    print(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    faults = sum(met.values())
    print(
        f"{seconds / 86400:.1f} machine-days, {faults} faults ({faults / max(seconds / 86400, 1e-9):.0f} a day), "
        f"{sum(r.guards for r in reports)} guards, {sum(r.boots for r in reports)} boots, {failures} failures, "
        f"{time.perf_counter() - began:.0f} s"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
