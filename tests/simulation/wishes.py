"""What people ask: root is obeyed at once, and nobody else gets what is root's."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

STARTS_WITHIN = 150.0
"""Seconds after its start, beside a look, in which a guard may ask to be asked again."""

READY = 15.0
"""Seconds that a worker takes until it is ready, when nothing goes wrong."""


class Wishes:
    """A person's stop, from the question to the deed; and what users may not ask."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._since: float | None = None  # a stop by hand is to be carried out

    def answered(self, kind: str, uid: int, *, done: bool) -> None:
        """Somebody got an answer."""
        judge = self._judge
        if kind == "root's" and done:
            judge.breaks(f"user {uid} was given what only root may ask for")
        if kind != "stop":
            return
        if done:
            self._since = judge.at if judge.law.live else None
        elif not self._may_refuse():
            judge.breaks("a person's stop is refused")

    def _may_refuse(self) -> bool:
        judge = self._judge
        law, at = judge.law, judge.at
        busy = judge.stage in {"gone", "unsure"}
        fresh = at - max(judge.guard_at, judge.began) < law.interval + STARTS_WITHIN or not judge.ticks
        asks = judge.asks or at - judge.asks_changed < 1.5 * law.interval  # what a tag no longer says ends with a look
        return bool(law.forbidden or judge.story.world.hatch or asks or busy or fresh or judge.drowsy)

    def disturbed(self) -> None:
        """The guard begins again, or somebody took the stop back."""
        self._since = None

    def tick(self) -> None:
        """A stop by hand waits for nothing but its worker: it begins with the next look, and goes out with the one after."""
        judge, since = self._judge, self._since
        if since is None:
            return
        if judge.wish is None or judge.stage == "gone" or judge.troubled(since - 300.0):
            self._since = None
        elif judge.at - since > 2 * judge.law.interval + READY:
            judge.breaks(f"a stop by hand has not begun after {judge.at - since:.0f} s")
