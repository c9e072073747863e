"""Which pairs of phase and fault were met."""

from collections.abc import Mapping

from tests.simulation.troubles import EVENTS, OPERATIONS, PHASES

NAMES = (*(f"{subject} {word}" for subject, words in OPERATIONS.items() for word in words), *EVENTS)


def table(met: Mapping[tuple[str, str], int]) -> str:
    """One row for each fault, one column for each phase."""
    rows = [f"{'':24}" + "".join(f"{phase:>11}" for phase in PHASES)]
    rows.extend(f"{name:24}" + "".join(f"{met.get((phase, name), 0) or '-':>11}" for phase in PHASES) for name in NAMES)
    return "\n".join(rows)
