"""What the doctor finds, as values."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Level = Literal["ok", "note", "warn", "bad"]
Verdict = Literal["GUARDED", "WOULD BE GUARDED", "NOT GUARDED"]
"""Proven in live mode; proven but for the mode, which is a dry run; not proven."""


class CheckResult(NamedTuple):
    """One thing that was looked at.

    ``bad``: because of it this machine is not guarded; ``warn``: something is wrong, and it is guarded all the same.
    ``hint`` names what to do, with the command where there is one.
    """

    level: Level
    text: str
    hint: str = ""


class ReportSection(NamedTuple):
    """Several checks of one subject."""

    name: str
    checks: tuple[CheckResult, ...]


class Report(NamedTuple):
    """All sections, and what follows. ``why`` is everything that is missing; ``facts`` are the same things as values for programs."""

    verdict: Verdict
    why: tuple[str, ...]
    sections: tuple[ReportSection, ...]
    facts: Mapping[str, Any]

    @property
    def guarded(self) -> bool:
        """Whether this machine is really stopped when nothing works on it, as far as can be proven."""
        return self.verdict == "GUARDED"
