"""That this machine has ended is said to people: a guard that still runs on it disproves that, and says so."""

from typing import TYPE_CHECKING, Any

from tests.simulation.terms import MACHINE

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

RUNS_ON, LATE = 300.0, 90.0
"""Seconds after *done* from which a guard that runs must tell that it does, and by which that may come late beside two ticks."""

TAKES_BACK = frozenset(("failed", "next_action"))
RESET = frozenset(("state_lost", "came_back", "closed"))


class Endings:
    """What was said to have ended this machine, and since when."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._since: float | None = None
        self._incident = ""
        self.disproved: dict[str, float] = {}  # incidents whose *done* was wrong, and when that was told
        self._once: float | None = None  # when such a word was wrong in this boot
        self._sure = True  # that the guard remembers that

    def begins_anew(self) -> None:
        """A boot, a resume, or a lost state: the cloud is believed again."""
        self._since, self._once, self._sure = None, None, True

    def let_go(self) -> None:
        """Another policy, or root, has ended what was latched."""
        self._since = None

    def unsaved(self) -> None:
        """Whether the guard remembers what came last nobody knows."""
        self._since = None
        self._sure &= self._once is None or self._once < self._judge.saved_at - 1.0

    @property
    def open(self) -> bool:
        """Whether the machine is said to have ended, and nothing has disproved that yet."""
        return self._since is not None

    def is_believed(self, action: str) -> bool:
        """Whether the word that an action has ended this machine counts."""
        return action not in MACHINE or self._once is None

    def told(self, kind: str, facts: dict[str, Any]) -> None:
        """People hear of an end, or that it was none."""
        if kind == "done" and facts["action"] in MACHINE:
            if self._once is not None and self._sure and not facts.get("told_again"):
                self._judge.breaks(f"{facts['action']} is called done on a word that was wrong before")
            asleep = self._judge.drowsy  # the look that sees the sleep ends it: the machine came back
            self._since, self._incident = None if asleep else self._judge.at, facts["incident"]
        elif kind in TAKES_BACK and self._since is not None and facts.get("incident") == self._incident:
            self.disproved[self._incident] = self._judge.at
            self._since, self._once, self._sure = None, self._judge.at, True
        elif kind in RESET:
            self._since = None

    def tick(self) -> None:
        """The guard still looks."""
        judge, since = self._judge, self._since
        if since is None:
            return
        late = judge.at - max(since + RUNS_ON, judge.stalled, judge.guard_at, judge.began)
        if late > 2 * judge.law.interval + LATE:
            judge.breaks(f"the machine is said to have ended {judge.at - since:.0f} s ago, and its guard runs on it")
