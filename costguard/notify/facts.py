"""The facts of a message, read with care. Pure but for the time zone."""

import re
from collections.abc import Mapping

from costguard.engine.wording import ActionWording, GuardedWording, wording_of
from costguard.engine.words import PRECISE_SECONDS, clock, clock_ahead, duration

DAY = 86400.0

LARGEST = 1e11
"""A larger duration, date or amount of money counts as missing."""


class Facts:
    """Facts of a message, read with care: a value of another kind counts as missing."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """A text, or an empty one."""
        value = self._given.get(name)
        return value.strip() if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A number, or None."""
        return number(self._given.get(name))

    def true(self, name: str) -> bool:
        """Whether the value is exactly ``True``."""
        return self._given.get(name) is True

    def rows(self, name: str) -> list[object]:
        """A list, or an empty one."""
        value = self._given.get(name)
        return list(value) if isinstance(value, list | tuple) else []

    def mapping(self, name: str) -> Mapping[str, object]:
        """A mapping, or an empty one."""
        value = self._given.get(name)
        return value if isinstance(value, Mapping) else {}

    def names(self, name: str) -> list[str]:
        """The strings of a list; other members are left out."""
        return [row for row in self.rows(name) if isinstance(row, str)]

    @property
    def dry(self) -> bool:
        """Whether the message belongs to a dry run."""
        return self.text("mode") not in {"", "live"}

    @property
    def machine(self) -> str:
        """What to call the machine."""
        return self.text("machine") or self.text("instance") or "this machine"

    @property
    def ends_bill(self) -> bool:
        """Whether the action is meant to end the bill of the machine."""
        return self.wording.ends_bill

    @property
    def wording(self) -> ActionWording:
        """How to speak of the action."""
        return wording_of(self.text("action"), in_task=bool(self.text("task")))

    @property
    def guarded(self) -> GuardedWording:
        """How to speak of what is guarded."""
        return self.wording.guarded

    @property
    def name(self) -> str:
        """What to call the guarded machine or task."""
        task = self.text("task") or "the task"
        return (
            task
            if self.machine in re.split("[ /]", task)
            else self.guarded.name.format(machine=self.machine, task=task)
        )

    @property
    def subject(self) -> str:
        """The subject of a sentence about the action, as *GPU-7* in *GPU-7 will stop*."""
        return self.wording.subject.format(self.name)

    def advice(self, name: str) -> str:
        """A command or name from the scheduler of the task (a field of `costguard.tasks.api.Advice`); empty for none."""
        found = self.mapping("advice").get(name)
        return found.strip() if isinstance(found, str) else ""

    @property
    def earliest(self) -> str:
        """The same as ``when``, with *at the earliest* where it shows seconds: the action may come some seconds later."""
        seconds = self._due_in
        soon = seconds is not None and 1.0 <= seconds < PRECISE_SECONDS
        return self.when.replace(" (", " at the earliest (") if soon else self.when

    @property
    def _due_in(self) -> float | None:
        seconds = self.number("due_in_seconds")
        return self.number("grace") if seconds is None else seconds

    @property
    def when(self) -> str:
        """When it is due, as far as known: *at 15:40 UTC (in 10m)*, *at 15:40:07 UTC (in 2m)*, *at once*."""
        seconds, wall, now = self._due_in, self.number("due_wall"), self.number("wall")
        if seconds is None:
            return "" if wall is None else f"at {clock(wall, 0.0)}"
        if seconds < 1.0:
            return "at once"
        if wall is None and now:
            wall = now + seconds
        away = f"in {duration(seconds)}"
        if wall is None:
            return away
        return f"at {clock_ahead(wall, wall - seconds)} ({away})"


def number(value: object) -> float | None:
    """A number that can be printed: finite, and within the calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value)
