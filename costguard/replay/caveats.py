"""Why the numbers of a replay are worth less than they look."""

from collections.abc import Iterator, Sequence

from costguard.engine.policy import Policy
from costguard.engine.wording import may_end_bill, wording_of
from costguard.engine.words import duration, several
from costguard.replay.show import PolicyRun, rate_of, step

TOO_COARSE = 10
"""Samples of a window below which short work is easily missed."""


def caveats(results: Sequence[PolicyRun]) -> Iterator[str]:
    """What to know before the numbers of each policy are believed."""
    groups: dict[str, list[PolicyRun]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    for label, group in groups.items():
        for caveat in [*_coarse(group), *of_policy(group[0].policy)]:
            yield f"{label}: {caveat}"


def _coarse(group: Sequence[PolicyRun]) -> Iterator[str]:
    """Samples that are too far apart."""
    grace, window = group[0].policy.grace, group[0].policy.kill_duration
    if seen := _steps(group, grace if grace > 0 else float("inf")):
        yield (
            f"{seen} is too coarse for a warning of {duration(grace)}: "
            "work in a sample may have begun before the countdown ended or after the stop, so stops are a range"
        )
    if seen := _steps(group, window / TOO_COARSE):
        yield (
            f"{seen} is too coarse for a window of {duration(window)}: "
            "short work between two samples is missed, so stops and recovered hours are overstated"
        )


def _steps(group: Sequence[PolicyRun], limit: float) -> str:
    """The steps above a limit, in words; empty where there is none."""
    found = [result.trace.interval for result in group if result.trace.interval > limit]
    if not found:
        return ""
    low, high = step(min(found)), step(max(found))
    return f"a sample every {low if low == high else f'{low} to {high}'}" + (
        f" (on {len(found)} of {several(len(group), 'machine')})" if len(group) > 1 else ""
    )


def of_policy(policy: Policy) -> Iterator[str]:
    """What holds for a policy on any recording."""
    if policy.admin_hold:
        yield f"no stop is possible under the administrator's hold ({policy.admin_hold})"
    action = policy.kill_action
    if not may_end_bill(action):
        yield f"{action} ends no bill: the recovered hours are time in which the machine stays billed, and save no money"
    elif wording_of(action).bill_is_yours and rate_of(policy):
        yield f"{action} ends no bill by itself: the money holds only if your command ends the machine"
    if policy.aggregate == "any" and not policy.ends_machine:
        yield "one idle GPU is enough for it: other GPUs may have been at work in what counts as idle, and the money is that of the whole machine"
