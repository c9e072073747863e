"""How often one user may ask: each has an allowance that fills up again, and nobody uses up another's."""

USERS_KEPT = 256
"""So many users who asked lately are told apart; further ones share one allowance."""

OTHERS = -1


class Limit:
    """``burst`` requests at once, and one more every ``every`` seconds. ``now`` is any clock that does not jump."""

    def __init__(self, burst: int, every: float) -> None:
        self._every, self._slack = every, (burst - 1) * every
        self._whole: dict[int, float] = {}  # by user: when the allowance is whole again

    def take(self, uid: int, now: float) -> float:
        """Count one request of a user. 0 when it is allowed, else the seconds until one is; those are not counted."""
        if uid not in self._whole and len(self._whole) >= USERS_KEPT:
            self._whole = {each: whole for each, whole in self._whole.items() if whole > now}
            uid = uid if len(self._whole) < USERS_KEPT else OTHERS
        whole = max(self._whole.get(uid, now), now)
        if whole - now > self._slack:
            return whole - now - self._slack
        self._whole[uid] = whole + self._every
        return 0.0
