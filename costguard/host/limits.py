"""Rate limits per user: each has an allowance that refills, and none uses up another's."""

USERS_KEPT = 256
"""Users with an allowance of their own at a time; further ones share one. Subordinate user ids are counted apart."""

OTHERS = -1

SUBORDINATE = 65536
"""From this user id on, one person may have tens of thousands (subuid(5)); below, an administrator assigns each."""


class TokenBucket:
    """``burst`` requests at once, and one more every ``every`` seconds.

    ``together``: one allowance for all people, and another one for all subordinate user ids.
    """

    def __init__(self, burst: int, every: float, *, together: bool = False) -> None:
        self._every, self._slack, self._together = every, (burst - 1) * every, together
        self._tables: tuple[dict[int, float], dict[int, float]] = ({}, {})  # by user: when the allowance is full again

    def take(self, uid: int, now: float) -> float:
        """Count one request at ``now`` (seconds of a clock that does not jump).

        Returns 0 when it is allowed, else the seconds until one is; a refused request is not counted.
        """
        table = self._tables[uid >= SUBORDINATE]
        key = OTHERS if self._together else uid
        if key not in table and len(table) >= USERS_KEPT:
            for user in [user for user, full_at in table.items() if full_at <= now]:
                del table[user]
            key = key if len(table) < USERS_KEPT else OTHERS
        full_at = max(table.get(key, now), now)
        if full_at - now > self._slack:
            return full_at - now - self._slack
        table[key] = full_at + self._every
        return 0.0
