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


EVERYDAY = ("WATCHING", "WARNING", "DONE")
MORE = {
    "prepare": ("WARNING",),
    "go": ("ACTING",),
    "confirm": ("CONFIRMING",),
    "plan": ("WATCHING",),
    "notify": PHASES[:5],
}
"""When an operation can happen at all: workers of an attempt only in their phase, a preflight mostly while watching."""


def required() -> set[tuple[str, str]]:
    """Pairs that a year must meet. The others: an operation that does not happen in that phase, or hardly ever."""
    pairs = {(phase, name) for name in EVENTS for phase in PHASES}
    for subject, words in OPERATIONS.items():
        pairs |= {(phase, f"{subject} {word}") for word in words for phase in MORE.get(subject, EVERYDAY)}
    return pairs
