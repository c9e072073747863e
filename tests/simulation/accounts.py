"""For how long users have held the machine since work was last seen: at least, and at most.

Every hold costs the time that it lasted and, however short it was, as much as it delayed: a countdown, or a look.
"""

from typing import NamedTuple


class Spell(NamedTuple):
    """One grant: how long it is at most, and what it costs at least."""

    start: float
    end: float
    least: float


class Account:
    """What one user has used."""

    def __init__(self) -> None:
        self._spells: list[Spell] = []

    def granted(self, at: float, end: float, least: float) -> None:
        """The user holds the machine until then, in place of an earlier hold."""
        self._spells.append(Spell(max([at, *(one.end for one in self._spells)]), end, least))

    def released(self, at: float) -> None:
        """The hold ended early: what is left of it is given back."""
        self._spells = [one._replace(start=min(one.start, at), end=min(one.end, at)) for one in self._spells]

    def moved(self, end: float) -> None:
        """The hold under way ends then."""
        self._spells = [one._replace(end=min(one.end, end), start=min(one.start, end)) for one in self._spells]

    def lasts(self, since: float, seconds: float) -> None:
        """A hold that was under way then may end so much later."""
        self._spells = [one._replace(end=one.end + seconds) if one.end > since else one for one in self._spells]

    def reaches(self, at: float, end: float) -> None:
        """The hold under way is seen to end so late: over a boot, or with a date that was set, that may be later than it was granted."""
        last = max((one.end for one in self._spells if one.end > at), default=end)
        self._spells = [one._replace(end=max(end, last)) if one.end == last else one for one in self._spells]

    def forgiven(self, at: float) -> None:
        """Work was seen: only the time to come counts; of what a hold costs at least so much may be left."""
        self._spells = [
            one._replace(start=max(one.start, at), least=min(one.least, one.end - at))
            for one in self._spells
            if one.end > at
        ]

    @property
    def grants(self) -> int:
        """How many there were."""
        return len(self._spells)

    @property
    def least(self) -> float:
        """Seconds that were certainly used, or will be."""
        return sum(max(0.0, one.end - one.start) for one in self._spells)

    @property
    def most(self) -> float:
        """Seconds that may count as used."""
        return self.least + sum(one.least for one in self._spells)
