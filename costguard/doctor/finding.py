"""What the doctor finds, as values."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Level = Literal["ok", "note", "warn", "unseen", "bad"]
Verdict = Literal["GUARDED", "WOULD BE GUARDED", "CANNOT TELL", "NOT GUARDED"]
"""Proven; proven but for the mode, which is a dry run; nothing is missing of what this user may see; not proven."""


class CheckResult(NamedTuple):
    """One check. ``hint`` says what to do, with the command where there is one."""

    level: Level
    text: str
    hint: str = ""


def ok(text: str, hint: str = "") -> CheckResult:
    """As it should be."""
    return CheckResult("ok", text, hint)


def note(text: str, hint: str = "") -> CheckResult:
    """Good to know."""
    return CheckResult("note", text, hint)


def warn(text: str, hint: str = "") -> CheckResult:
    """Something is wrong, but the machine is guarded."""
    return CheckResult("warn", text, hint)


def unseen(text: str, hint: str = "") -> CheckResult:
    """Whether the machine is guarded depends on this, and this user may not see it."""
    return CheckResult("unseen", text, hint)


def bad(text: str, hint: str = "") -> CheckResult:
    """Because of this the machine is not guarded."""
    return CheckResult("bad", text, hint)


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
