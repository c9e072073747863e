"""What this machine has cost while idle, from the agent's report."""

from collections.abc import Mapping
from typing import Any

from costguard.engine.words import duration
from costguard.money import Rate, rate

Report = Mapping[str, Any]


def quiet_for(report: Report) -> float | None:
    """Seconds since every GPU of the machine went quiet; None when one works or cannot be read."""
    since = [gpu["since"] for gpu in report["gpus"] if gpu["state"] == "quiet" and gpu["since"] is not None]
    whole = bool(since) and len(since) == len(report["gpus"])
    return max(0.0, float(report["time"] - max(since))) if whole else None


def rate_of(report: Report) -> Rate | None:
    """What an hour of this machine costs; None when that is unknown, and for a task, whose GPUs need not be all of it."""
    if report["agent"].get("task"):
        return None
    known = (report["agent"].get("cloud") or {}).get("price") or {}
    return rate(report.get("price_per_hour"), report.get("currency"), known)


def words(report: Report) -> str:
    """For people; empty when nothing is idle or no price is known."""
    seconds, price = quiet_for(report), rate_of(report)
    if seconds is None or price is None:
        return ""
    return f"{price.words(seconds)} so far, quiet for {duration(seconds)} ({price.source})"


def with_cost(report: Report) -> dict[str, object]:
    """The report for programs, with `idle_cost`: null when nothing is idle or no price is known."""
    seconds, price = quiet_for(report), rate_of(report)
    cost = None if seconds is None or price is None else {"seconds": seconds, **price.estimate(seconds)}
    return {**report, "idle_cost": cost}
