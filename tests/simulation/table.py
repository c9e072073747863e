"""Which pairs of phase and fault were met."""

from collections.abc import Mapping, Sequence

from tests.simulation.story import Report
from tests.simulation.troubles import EVENTS, OPERATIONS, PHASES

NAMES = (*(f"{subject} {word}" for subject, words in OPERATIONS.items() for word in words), *EVENTS)


def table(met: Mapping[tuple[str, str], int]) -> str:
    """One row for each fault, one column for each phase."""
    rows = [f"{'':24}" + "".join(f"{phase:>11}" for phase in PHASES)]
    rows.extend(f"{name:24}" + "".join(f"{met.get((phase, name), 0) or '-':>11}" for phase in PHASES) for name in NAMES)
    return "\n".join(rows)


def account(counts: Mapping[str, int], reports: Sequence[Report], seconds: float) -> str:
    """What happened, in two lines."""
    days = seconds / 86400
    faults = sum(sum(report.met.values()) for report in reports)
    guards, boots = sum(report.guards for report in reports), sum(report.boots for report in reports)
    return (
        ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        + f"\n{days:.0f} machine-days, {faults} faults ({faults / max(days, 1e-9):.0f} a day), {guards} guards, {boots} boots"
    )


RARE = ("ACTING", "CONFIRMING", "FAILED")
MOSTLY = ("WATCHING", "DONE")
ONLY = {
    "prepare": ("WARNING",),
    "go": ("ACTING",),
    "confirm": ("CONFIRMING",),
    "plan": (),
    "notify": PHASES[:5],
    "hook": (),
    "beat": (),
}
"""When an operation happens at all: workers of an attempt only in their phase, a preflight once a day."""


def required() -> set[tuple[str, str]]:
    """Pairs that a year must meet.

    Not among them: operations in phases in which they do not happen (above), or that last for seconds, so that an
    operation seldom falls into them (readers and disks while ACTING or CONFIRMING).
    """
    pairs = {(phase, name) for name in EVENTS for phase in PHASES if phase not in RARE}
    for subject, words in OPERATIONS.items():
        pairs |= {(phase, f"{subject} {word}") for word in words for phase in ONLY.get(subject, MOSTLY)}
    return pairs


def rare() -> set[tuple[str, str]]:
    """Events in the rare phases: a year meets nearly all of them."""
    return {(phase, name) for name in EVENTS for phase in RARE}
