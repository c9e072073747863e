"""Relaxes a policy by instance tags: they can only make the guard more careful."""

from collections.abc import Mapping

from costguard.engine.policy import Policy

LONGEST = 366 * 86400.0
"""Seconds that a tag can set at most. To keep a machine up for good the tag is ``costguard = off``."""

SETTINGS = ("kill_duration", "grace", "boot_grace", "unused_after", "kill_threshold")
"""What a tag may change."""


def changes(configured: Policy, relaxed: Policy) -> dict[str, float | None]:
    """The settings that differ, with the value in force; None is off."""
    return {name: getattr(relaxed, name) for name in SETTINGS if getattr(relaxed, name) != getattr(configured, name)}


def relax(policy: Policy, wanted: Mapping[str, object]) -> Policy:
    """Make times longer and the threshold lower as the tags want; any other value changes nothing."""
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
