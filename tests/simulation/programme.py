"""Ten simulated days, as one command lives them: many short lives, each crowded with what it is about.

``python -m tests.simulation.programme [--seed N] [--seeds K] [--days D]`` prints every rule that was broken. A round is a life about each
bent, a life about each pair of neighbours in a drawn order, lives about a handful of things drawn from everything, two with a day on which nothing
happens, and lives of machines on which people come and go. A round is shuffled, so that whatever shows in one kind of life shows early.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

from tests.simulation import presence
from tests.simulation.bents import BENTS, CALM, Bent, Happening, both, dense, drawn
from tests.simulation.judge import Violation
from tests.simulation.story import Story
from tests.simulation.troubles import EVERYTHING
from tests.simulation.year import uncollected

DAYS = 10.0
HANDFULS = 3
BESIDE = 2
"""Things that befall a life beside what it is about: dealt, so that in ten days nearly each that there is befalls one."""

PEOPLE = (3, 0.2)
"""Lives with people in a round, and the days of each."""


class Life(NamedTuple):
    """One life of a programme; people come and go in one without a bent."""

    seed: int
    name: str
    days: float
    bent: Bent | None = None

    def live(self, *, verbose: bool = False) -> float:
        """The days that it took; raises what was broken."""
        if self.bent is None:
            presence.live(self.seed, self.days)
            return self.days
        return Story(self.seed, self.days, bent=self.bent, verbose=verbose).run().seconds / 86400.0


class Complaint(NamedTuple):
    """What broke which rule, after so many days of its programme."""

    days: float
    life: Life
    error: BaseException


def _dealt(dice: random.Random) -> Iterator[Happening]:
    """All that can befall a life, in a drawn order, over and over."""
    while True:
        yield from dice.sample(EVERYTHING, len(EVERYTHING))


def _round(dice: random.Random, seeds: Iterator[int], deck: Iterator[Happening]) -> list[Life]:
    about = [*BENTS]
    dice.shuffle(about)
    pairs = zip(about, about[1:] + about[:1], strict=True)
    kinds = [(name, BENTS[name]) for name in about]
    kinds += [(f"{one} and {other}", both(BENTS[one], BENTS[other])) for one, other in pairs]
    kinds += [("a handful", drawn(dice)) for _ in range(HANDFULS)]
    lives = [Life(next(seeds), name, bent.days, dense(bent, dice, tuple(islice(deck, BESIDE)))) for name, bent in kinds]
    calm = {why: CALM._replace(stays_up=(why,)) for why in ("refused", "unreadable")}
    lives += [Life(next(seeds), f"a calm day, {why}", bent.days, bent) for why, bent in calm.items()]
    lives += [Life(next(seeds), "people come and go", PEOPLE[1]) for _ in range(PEOPLE[0])]
    dice.shuffle(lives)
    return lives


APART = 1000
"""The lives of a programme have the seeds from so many times its own on."""


def programme(seed: int, days: float = DAYS) -> Iterator[Life]:
    """The lives of so many days."""
    dice, seeds, left = random.Random(seed), count(APART * seed), days
    deck = _dealt(dice)
    while left > 0.0:
        for life in _round(dice, seeds, deck):
            if left <= 0.0:
                return
            yield life
            left -= life.days


def complaint(seed: int, days: float = DAYS) -> Complaint | None:
    """The first one of a programme."""
    lived = 0.0
    for life in programme(seed, days):
        try:
            lived += life.live()
        except (Exception, Violation, presence.Broken) as error:  # noqa: BLE001  # a bug may show itself in any way
            return Complaint(lived + life.days / 2, life, error)
    return None


def main() -> int:
    """Exit code 1 when a rule was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.programme")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="so many programmes, from --seed on")
    parser.add_argument("--days", type=float, default=DAYS)
    parser.add_argument("--life", type=int, help="the one life with this seed, with every line of its log")
    given = parser.parse_args()
    if given.life is not None:
        lives = programme(given.life // APART, given.days)
        next(life for life in lives if life.seed == given.life).live(verbose=True)
        return 0
    broken = 0
    with uncollected():
        for seed in range(given.seed, given.seed + given.seeds):
            began, found = time.process_time(), 0
            for life in programme(seed, given.days):
                try:
                    life.live()
                except (Exception, Violation, presence.Broken) as error:  # noqa: BLE001  # it belongs to this life
                    found += 1
                    print(f"seed {life.seed} ({life.name}): {error}", *getattr(error, "__notes__", ()), sep="\n")
            print(f"programme {seed}: {found} complaints, {time.process_time() - began:.0f} CPU seconds", flush=True)
            broken += found
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
