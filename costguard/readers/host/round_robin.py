"""Taking turns: if a look takes a few of many, one user's many leave room for another user's few."""

from collections.abc import Callable, Iterable
from typing import TypeVar

One = TypeVar("One")


def round_robin(found: Iterable[One], user: Callable[[One], int]) -> list[One]:
    """One of each user, in their order, then another one of each, and so on."""
    taken: dict[int, int] = {}
    places: list[tuple[int, int, One]] = []
    for one in found:
        uid = user(one)
        taken[uid] = place = taken.get(uid, 0) + 1
        places.append((place, len(places), one))
    return [one for _, _, one in sorted(places)]
