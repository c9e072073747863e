"""A policy with the settings that tags of the machine ask for, as far as they are milder."""

from collections.abc import Mapping

from costguard.engine.policy import Policy

LONGEST = 366 * 86400.0
"""Seconds; a tag cannot ask for more. Whoever wants the machine to stay up for good says ``costguard = off``."""

SETTINGS = ("kill_duration", "grace", "boot_grace", "unused_after", "kill_threshold")
"""What a tag may change."""


def changes(configured: Policy, ruled: Policy) -> dict[str, float | None]:
    """The settings that differ, as they are in force; None is off."""
    return {name: getattr(ruled, name) for name in SETTINGS if getattr(ruled, name) != getattr(configured, name)}


def milder(policy: Policy, wanted: Mapping[str, object]) -> Policy:
    """Times can only become longer, and the threshold lower. What makes no sense changes nothing."""
    changed: dict[str, float | None] = {}
    for name in ("kill_duration", "grace", "boot_grace"):
        value = wanted.get(name)
        if isinstance(value, int | float) and getattr(policy, name) < value <= LONGEST:
            changed[name] = float(value)
    if "kill_duration" in changed:  # a longer window must not tolerate more seconds of work
        changed["window_share"] = policy.window_share * policy.kill_duration / float(wanted["kill_duration"])  # type: ignore[arg-type]  # a number, as seen above
    lower = wanted.get("kill_threshold")
    if isinstance(lower, int | float) and 0 < lower < policy.kill_threshold:
        changed["kill_threshold"] = float(lower)
    if "unused_after" in wanted and policy.unused_after is not None:
        later = wanted["unused_after"]
        if later is None:
            changed["unused_after"] = None
        elif isinstance(later, int | float) and policy.unused_after < later <= LONGEST:
            changed["unused_after"] = float(later)
    return policy._replace(**changed) if changed else policy  # type: ignore[arg-type]  # the names stand above
