"""How often one user may ask: each has an allowance that fills up again, and nobody uses up another's."""

USERS_KEPT = 256
"""So many users who asked lately are told apart; further ones share one allowance. People and subordinate numbers are kept apart."""

OTHERS = -1

SUBORDINATE = 65536
"""From here on one person may have tens of thousands of user ids (subuid(5)); below, an administrator gives out each."""


class Limit:
    """``burst`` requests at once, and one more every ``every`` seconds. ``now`` is any clock that does not jump.

    ``together``: not for each user, but for all people, and as much again for all subordinate numbers.
    """

    def __init__(self, burst: int, every: float, *, together: bool = False) -> None:
        self._every, self._slack, self._together = every, (burst - 1) * every, together
        self._tables: tuple[dict[int, float], dict[int, float]] = ({}, {})  # by user: when the allowance is whole again

    def take(self, uid: int, now: float) -> float:
        """Count one request of a user. 0 when it is allowed, else the seconds until one is; those are not counted."""
        table = self._tables[uid >= SUBORDINATE]
        key = OTHERS if self._together else uid
        if key not in table and len(table) >= USERS_KEPT:
            for each in [each for each, whole in table.items() if whole <= now]:
                del table[each]
            key = key if len(table) < USERS_KEPT else OTHERS
        whole = max(table.get(key, now), now)
        if whole - now > self._slack:
            return whole - now - self._slack
        table[key] = whole + self._every
        return 0.0
