"""How old a machine is: rights that were given after it was made take minutes to arrive."""

from costguard.files import text_of

YOUNG_SECONDS = 600.0
"""Age in seconds up to which a denied right may simply not have arrived yet."""


def is_young(age: float | None) -> bool:
    """Whether a machine of this age (seconds, None: unknown) may still be waiting for its rights; False where it is unknown."""
    return age is not None and age < YOUNG_SECONDS


def uptime(procfs: str) -> float | None:
    """Seconds since boot, where the cloud does not say how old the machine is; None when unknown."""
    try:
        return float(text_of(f"{procfs}/uptime").split()[0])
    except (ValueError, IndexError):
        return None
