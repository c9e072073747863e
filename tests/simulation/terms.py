"""What a policy asks for, word by word from the design. Nothing of the engine is used here."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from costguard.testing.simhost import Phase

MACHINE = frozenset({"stop", "terminate", "hibernate", "shutdown", "reboot"})
CLOUD = frozenset({"stop", "terminate", "hibernate"})
CAREFUL = 0.2
"""No machine action at a load above this, unless the owner says so."""

NEVER = float("inf")
LONG = 20 * 86400.0
"""Seconds: no story is longer than such a period of a budget."""

Seen = tuple[float, bool, float]
"""One GPU in one answer of the reader: its load, whether other signs show work, how many seconds back that reaches."""


class Terms(NamedTuple):
    """A policy as the judge understands it. Times are seconds."""

    live: bool
    interval: float
    arm_above: float
    arm_for: float | None
    window: float
    tolerance: float  # seconds of work that a window may hold
    limit: float  # load from which on a GPU works
    signs: bool  # whether signs of work other than load are work
    together: str  # all | any | mean
    by_mean: bool  # the mean arms
    chosen: tuple[int, ...]
    judged: tuple[int, ...]
    lacking: bool  # a chosen GPU is not there
    machine: bool
    grace: float
    boot_grace: float
    unused: float | None
    alarm: float
    lifetime: float  # running seconds after which a deadline has passed
    budget: float  # running seconds that the money lasts for
    period: float  # after which another budget begins
    lease: float  # date of a deadline
    stop_busy: bool
    actions: tuple[str, ...]
    hold_max: float
    forbidden: bool


def terms(config: Mapping[str, Any], wanted: Mapping[str, Any], gpus: int) -> Terms:
    """Those of a configuration; ``wanted`` is what tags of the machine ask for, which counts as far as it is milder."""
    policy = config["policy"]
    actions = (policy["kill_action"], *policy["fallback"])
    machine = bool(MACHINE & set(actions))
    limit = min(policy["kill_threshold"], wanted.get("kill_threshold", 1.0))
    everything = tuple(range(gpus))
    names = [{str(i), f"GPU-{i:08x}", f"0000:{i + 1:02x}:00.0"} for i in everything]
    given = policy["gpu_devices"]
    chosen = tuple(i for i in everything if not given or names[i] & set(given))
    window, unused = policy["kill_duration"], policy["unused_after"]
    money = NEVER
    if policy["budget"] is not None and policy["price_per_hour"]:
        money = policy["budget"] / policy["price_per_hour"] * 3600.0
    return Terms(
        live=policy["mode"] == "live",
        interval=policy["interval"],
        arm_above=policy["arm_threshold"],
        arm_for=policy["arm_duration"],
        window=max(window, wanted.get("kill_duration", 0.0)),
        tolerance=policy["window_share"] * window if policy["window_rule"] == "share" else 0.0,
        limit=min(limit, CAREFUL) if machine and not policy["stop_below_load"] else limit,
        signs=machine and not policy["stop_below_load"],
        together="all" if machine else policy["aggregate"],
        by_mean=policy["aggregate"] == "mean",
        chosen=chosen,
        judged=everything if machine else chosen,
        lacking=any(name not in set().union(*names) for name in given),
        machine=machine,
        grace=max(policy["grace"], wanted.get("grace", 0.0)),
        boot_grace=max(policy["boot_grace"], wanted.get("boot_grace", 0.0)) if machine else 0.0,
        unused=max(unused, wanted.get("unused_after", 0.0)) if unused and policy["arm_duration"] is not None else None,
        alarm=policy["unknown_alarm"],
        lifetime=policy["lifetime"] or NEVER,
        budget=money,
        period=policy["budget_period"],
        lease=policy["lease_until"] or NEVER,
        stop_busy=policy["stop_busy"],
        actions=actions,
        hold_max=policy["hold_max"],
        forbidden=bool(policy["admin_hold"]),
    )


def works(phase: Phase, gpu: int, law: Terms) -> bool:
    """Whether one GPU truly works, by what the policy calls work."""
    return phase.load_of(gpu) >= law.limit or (law.signs and bool(phase.signs))


def busy(phase: Phase, law: Terms, gpus: Sequence[int]) -> bool:
    """Whether these GPUs together truly work."""
    if law.together == "mean":
        return sum(phase.load_of(gpu) for gpu in gpus) / len(gpus) >= law.limit if gpus else False
    return any(works(phase, gpu, law) for gpu in gpus)


def is_loud(seen: Seen, law: Terms) -> bool:
    """Whether one answer of the reader shows work of one GPU."""
    return seen[0] >= law.limit or (law.signs and seen[1])


def arms(seen: Sequence[Seen | None], law: Terms) -> bool:
    """Whether the load of the chosen GPUs is above the threshold that arms."""
    loads = [one[0] for gpu in law.chosen if (one := seen[gpu]) is not None]
    if law.by_mean:
        return len(loads) == len(law.chosen) > 0 and sum(loads) / len(loads) > law.arm_above
    return any(load > law.arm_above for load in loads)
