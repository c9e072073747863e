"""What the doctor finds, as values."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Level = Literal["ok", "note", "warn", "bad"]


class Check(NamedTuple):
    """One thing that was looked at.

    ``bad``: because of it this machine is not guarded; ``warn``: something is wrong, and it is guarded all the same.
    ``hint`` names what to do, with the command where there is one.
    """

    level: Level
    text: str
    hint: str = ""


class Section(NamedTuple):
    """Several checks of one subject."""

    name: str
    checks: tuple[Check, ...]


class Report(NamedTuple):
    """All sections, and what follows. ``facts`` are the same things as values for programs."""

    guarded: bool
    why: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: Mapping[str, Any]
