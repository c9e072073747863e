"""What the doctor finds, as values."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

Level = Literal["ok", "note", "warn", "unseen", "bad"]
Verdict = Literal["GUARDED", "WOULD BE GUARDED", "CANNOT TELL", "NOT GUARDED"]
"""Proven; proven but for the mode, which is a dry run; nothing is missing of what this user may see; not proven."""


class CheckResult(NamedTuple):
    """One check. ``hint`` says what to do, with the command where there is one."""

    level: Level
    text: str
    hint: str = ""


ok, note, warn, unseen, bad = (partial(CheckResult, level) for level in get_args(Level))
"""A check of each level: as it should be; good to know; wrong, but the machine is guarded; what decides whether it is guarded, and
this user may not see; the reason why it is not guarded."""


class ReportSection(NamedTuple):
    """The checks of one subject."""

    name: str
    checks: tuple[CheckResult, ...]


class Report(NamedTuple):
    """All sections, and the verdict. ``why`` is everything that is missing; ``facts`` are the same for programs."""

    verdict: Verdict
    why: tuple[str, ...]
    sections: tuple[ReportSection, ...]
    facts: Mapping[str, Any]

    @property
    def guarded(self) -> bool:
        """Whether it is proven that this machine is stopped when it is idle."""
        return self.verdict == "GUARDED"
