"""Many stories at once, and what they met together."""

import gc
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from tests.simulation.judge import Violation
from tests.simulation.story import Report, Story, tell

Result = tuple[int, Report | None, str]


@contextmanager
def uncollected() -> Iterator[None]:
    """A story of days leaves ten megabytes of garbage; to look for it all the time takes a tenth of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def live(given: tuple[int, float]) -> Result:
    """One story; its failure as text."""
    seed, days = given
    try:
        return seed, Story(seed, days).run(), ""
    except (Exception, Violation) as error:  # noqa: BLE001  # whatever it is, it belongs to this seed
        return seed, None, tell(error)


def run(seeds: Sequence[int], days: float) -> Iterator[Result]:
    """Stories on all cores, in the order of their seeds, each as soon as it is over."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(seeds)), mp_context=get_context("spawn")) as pool:
        yield from pool.map(live, [(seed, days) for seed in seeds])


def together(reports: Sequence[Report]) -> tuple[Counter[tuple[str, str]], Counter[str], float]:
    """Pairs of phase and fault met, counts of what happened, and running seconds."""
    met: Counter[tuple[str, str]] = Counter()
    counts: Counter[str] = Counter()
    for report in reports:
        met.update(report.met)
        counts.update(report.counts)
    return met, counts, sum(report.seconds for report in reports)
