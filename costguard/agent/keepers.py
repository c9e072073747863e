"""Who keeps the machine up, for the history: when a sense begins to, and when it lets the machine go.

Only while it matters: while the machine would be stopped but for what senses see. What comes and goes is one stretch, and each day has
room for so many, so neither a restless sense nor a user with many names fills the history.
"""

from collections.abc import Callable, Mapping
from typing import Any

from costguard.agent.host_side import HostSide
from costguard.engine.obstacles import heeded
from costguard.engine.rules import DAY_SECONDS, Rules
from costguard.engine.state import WARNING, WATCHING, State
from costguard.host.ports import Instant
from costguard.readers.host.sense import Activity

SHORTEST_SECONDS = 60.0
"""What keeps the machine up for less is not recorded."""

PAUSE_SECONDS = 600.0
"""What is seen again within this time goes on."""

BEGUN_A_DAY = 40
"""Of a day; with their ends fewer than the history has room for in the time for which it keeps events."""

FOLLOWED_LIMIT = 64
"""How many are followed at once; more are left out."""

KEEPS, LET_GO = "keeps", "let_go"
"""The kinds of both events."""

Record = Callable[[float, str, Mapping[str, Any]], None]
"""Keeps an event of this date and kind."""


class _Stretch:
    """Somebody or something that a sense has seen, and from when until when that keeps the machine up; on the boot clock."""

    __slots__ = ("activity", "begun", "left_out", "over", "recorded", "seen", "times")

    def __init__(self, activity: Activity, at: float) -> None:
        self.activity = activity
        self.begun = self.seen = at
        self.times = 1
        self.over = ""  # why it is seen no more, in words
        self.recorded = self.left_out = False


class Keepers:
    """See the module."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._stretches: dict[tuple[str, str], _Stretch] = {}
        self._begun: list[float] = []  # when those of the last day were recorded
        self._left_out = 0

    def look(self, now: Instant, state: State, rules: Rules, side: HostSide) -> None:
        """After each tick."""
        kept = state.core.alarms.kept
        if kept is None and not self._stretches:
            return
        matters = kept is not None and state.core.phase in {WATCHING, WARNING}
        heard = {veto.source for veto in heeded(state, rules) if veto.sense} if matters else set()
        seen = {key: one for key, one in side.keeping.items() if key[0] in heard}
        for key, activity in seen.items():
            self._follow(key, activity, now)
        over = "" if matters else "a GPU works again" if state.core.phase == WATCHING else "an action began"
        for key, stretch in list(self._stretches.items()):
            if key not in seen:
                stretch.over = stretch.over or over or _why(key, side)
                if over or now.boot - stretch.seen >= PAUSE_SECONDS:
                    self._end(key, now)

    def close(self, now: Instant) -> None:
        """The guard ends."""
        for key in list(self._stretches):
            self._stretches[key].over = self._stretches[key].over or "costguard ended"
            self._end(key, now)

    def _follow(self, key: tuple[str, str], activity: Activity, now: Instant) -> None:
        stretch = self._stretches.get(key)
        if stretch is None:
            if len(self._stretches) >= FOLLOWED_LIMIT:
                return
            stretch = self._stretches[key] = _Stretch(activity, now.boot)
        elif stretch.over:
            stretch.times += 1
        stretch.activity, stretch.seen, stretch.over = activity, now.boot, ""
        if not (stretch.recorded or stretch.left_out) and now.boot - stretch.begun >= SHORTEST_SECONDS:
            self._begin(key, stretch, now)

    def _begin(self, key: tuple[str, str], stretch: _Stretch, now: Instant) -> None:
        self._begun = [at for at in self._begun if now.boot - at < DAY_SECONDS]
        if len(self._begun) >= BEGUN_A_DAY:
            self._left_out += 1
            stretch.left_out = True
            return
        self._begun.append(now.boot)
        stretch.recorded = True
        since = None if stretch.activity.since > now.boot else _date(stretch.activity.since, now)
        facts: dict[str, Any] = {"since": since, "lets_go": stretch.activity.lets_go}
        if self._left_out:
            facts["left_out"], self._left_out = self._left_out, 0
        self._record(_date(stretch.begun, now), KEEPS, {**_named(key, stretch.activity), **facts})

    def _end(self, key: tuple[str, str], now: Instant) -> None:
        stretch = self._stretches.pop(key)
        if stretch.recorded:
            facts = {
                "begun": _date(stretch.begun, now), "seconds": stretch.seen - stretch.begun, "times": stretch.times,
                "by": stretch.over,
            }  # fmt: skip
            self._record(_date(stretch.seen, now), LET_GO, {**_named(key, stretch.activity), **facts})


def _named(key: tuple[str, str], activity: Activity) -> dict[str, str]:
    return {"sense": key[0], "who": activity.who, "what": activity.what, "user": activity.user}


def _why(key: tuple[str, str], side: HostSide) -> str:
    """Why it is seen no more."""
    sense = key[0]
    if sense not in side.sights:
        return f"the sense {sense} was switched off"
    if key in side.keeping:
        return "senses.at_most was reached"
    return "it can be seen again" if not key[1] else "it was not seen again"


def _date(at: float, now: Instant) -> float:
    """A moment of the boot clock as a date."""
    return now.wall + min(at, now.boot) - now.boot
