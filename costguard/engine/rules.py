"""A policy, worked out once so that a step need not."""

from typing import NamedTuple

from costguard.engine.policy import MACHINE_ACTIONS, Policy

EPSILON_SECONDS = 1e-6
"""Seconds by which two moments may differ and be the same: sums of times must not cost a whole look."""

LOOK_SECONDS = 0.05
"""Seconds between a look and the tick that takes it: by so much a hole may be longer than the evidence of counters that were read on both sides of it."""

DAY_SECONDS = 86400.0

SHORT_GAP_SECONDS = 60.0
"""A warning outlives a hole of at most this many seconds, if counters bridged it."""

NOTICE_KEPT_SECONDS = 600.0
"""A notice of the cloud that did not come true is forgotten so long after its moment."""

RESUME_JUMP_SECONDS = 2.0
"""Seconds by which boot and monotonic clock must part, from one tick to the next, before it counts as a resume."""

CLOCK_NOISE_SECONDS = 0.1
"""Seconds by which two readings of two clocks may part before one of them was set, or the machine slept."""


def reached(at: float, moment: float) -> bool:
    """Whether a moment has come."""
    return at + EPSILON_SECONDS >= moment


class Rules(NamedTuple):
    """What `costguard.engine` asks of a policy in every tick."""

    policy: Policy
    actions: tuple[str, ...]
    ends_machine: bool
    heeds_signs: bool
    quiet_threshold: float
    tolerance: float
    gap: float  # a momentary reading stands for at most this long
    by_mean: bool
    judges_any: bool  # one idle GPU is enough
    judges_mean: bool  # the mean load decides, not the single GPUs


_last: Rules | None = None


def rules_of(policy: Policy) -> Rules:
    """The rules of a policy; the last one asked for is remembered by identity."""
    global _last  # noqa: PLW0603  # a cache of one: a policy is asked for in every tick, and hashing it costs more
    last = _last
    if last is not None and last.policy is policy:
        return last
    rules = Rules(
        policy=policy,
        actions=policy.actions,
        ends_machine=policy.ends_machine,
        heeds_signs=policy.heeds_signs,
        quiet_threshold=policy.quiet_threshold,
        tolerance=policy.tolerance,
        gap=1.5 * policy.interval,
        by_mean=policy.aggregate == "mean",
        judges_any=policy.judges == "any",
        judges_mean=policy.judges == "mean",
    )
    _last = rules
    return rules


def highest_threshold(rules: Rules) -> float:
    """The load above which the load of one GPU decides nothing more; 1 where the mean of several is compared."""
    return 1.0 if rules.by_mean or rules.judges_mean else max(rules.quiet_threshold, rules.policy.arm_threshold)


def is_machine_action(action: str) -> bool:
    """Whether this one action ends or restarts the machine."""
    return action in MACHINE_ACTIONS
