"""Several policies on several machines, on several cores where that is worth it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from costguard.engine.policy import Policy
from costguard.engine.rules import Rules, rules_of
from costguard.replay.levels import Levels, Tables
from costguard.replay.outline import is_plain, outline
from costguard.replay.pool import parts, shared
from costguard.replay.prevented import Prevented, prevented
from costguard.replay.run import EVERYTHING_COUNTS, Ignored, Walked, policy_for, walk
from costguard.replay.summary import Tally, account, account_of
from costguard.replay.trace import Trace

TELL_EVERY = 20_000
"""Samples between two reports of progress."""

A_MACHINE = 150
"""The fixed cost of a machine, in samples that take as long."""


class ComparedPolicy(NamedTuple):
    """What one policy decided on one machine; ``walked`` is None where the caller does not read the decisions."""

    policy: Policy
    account: Tally
    walked: Walked | None
    prevented: tuple[Prevented, ...] = ()


Key = tuple[int, int]
"""The positions of a trace and of a policy."""


def compare(
    traces: Sequence[Trace],
    policies: Sequence[Policy],
    progress: Callable[[float], None],
    *,
    ignored: Sequence[Ignored] = (),
    every_sample: bool = False,
    read: bool = True,
    processes: int | None = None,
) -> dict[Key, ComparedPolicy]:
    """Every policy on every machine. ``progress`` gets the share that is done, from 0 to 1.

    ``ignored``: for each policy what of the recorded senses does not count; nothing, unless given.
    ``read``: the caller reads the decisions, so the engine makes every one; else they are only counted, which is much faster.
    ``processes``: how many share the work; by default as many as are worth it.
    """
    samples = sum(len(trace.times) + (A_MACHINE if read else 0) for trace in traces) * len(policies)
    order = _alike(policies)
    keys = [(i, j) for i in range(len(traces)) for j in order]
    count = max(1, min(parts(samples) if processes is None else processes, len(keys)))

    def owner(key: Key, place: int) -> int:
        """Where there are machines for every process, one takes all policies of a machine: they share its levels."""
        return (key[0] if len(traces) >= count else place) % count

    def lot(part: int) -> dict[Key, ComparedPolicy]:
        mine = [key for place, key in enumerate(keys) if owner(key, place) == part]
        setup = _ReplaySetup(policies, ignored, every_sample=every_sample, read=read or every_sample)
        return _decide(traces, setup, mine, progress if part == 0 else _nobody)

    found: dict[Key, ComparedPolicy] = {}
    for lots in shared(count, lot):
        found.update(lots)
    return found


def _nobody(_share: float) -> None:
    """A progress callback that reports nothing."""


def _alike(policies: Sequence[Policy]) -> list[int]:
    """The positions of the policies, those of equal thresholds side by side, so that processes share them out evenly."""
    rules = [rules_of(policy) for policy in policies]
    return sorted(range(len(policies)), key=lambda j: (rules[j].quiet_threshold, rules[j].heeds_signs))


class _ReplaySetup:
    """How the policies are replayed: everything that does not depend on the machine, worked out once."""

    def __init__(
        self, policies: Sequence[Policy], ignored: Sequence[Ignored], *, every_sample: bool, read: bool
    ) -> None:
        self._policies = policies
        self._ignored = ignored or [EVERYTHING_COUNTS] * len(policies)
        self._every_sample = every_sample
        self._read = read
        self._rules: dict[tuple[int, float], Rules | None] = {}

    def replay(self, j: int, levels: Levels, progress: Callable[[int], None]) -> ComparedPolicy:
        """One policy on one machine."""
        policy, ignored = self._policies[j], self._ignored[j]
        if (rules := self._plain(j, levels.trace)) and (found := outline(levels, rules, policy.interval)):
            return ComparedPolicy(rules.policy, account_of(levels, found, rules), None)
        walked = walk(levels, policy, ignored=ignored, every_sample=self._every_sample, progress=progress)
        found_by = account(levels, walked)
        spared = prevented(levels, policy, found_by.stops, ignored=ignored, every_sample=self._every_sample)
        return ComparedPolicy(walked.policy, found_by, walked, spared)

    def _plain(self, j: int, trace: Trace) -> Rules | None:
        """The rules of a policy that needs no engine; None for any other."""
        if self._read or trace.vetoes:
            return None
        key = (j, trace.interval)
        if key not in self._rules:
            rules = rules_of(policy_for(self._policies[j], trace))
            self._rules[key] = rules if is_plain(rules) else None
        return self._rules[key]


def _decide(
    traces: Sequence[Trace], setup: _ReplaySetup, keys: Sequence[Key], progress: Callable[[float], None]
) -> dict[Key, ComparedPolicy]:
    found: dict[Key, ComparedPolicy] = {}
    whole = sum(len(traces[i].times) for i, _ in keys) or 1
    done, told, levels, tables = 0, 0, None, Tables()
    for i, j in keys:
        if levels is None or levels.trace is not traces[i]:
            levels = Levels(traces[i], tables)
        found[i, j] = setup.replay(j, levels, partial(_tell, progress, done, whole))
        done += len(levels.times)
        if done - told > TELL_EVERY or done == whole:
            told = done
            progress(done / whole)
    return found


def _tell(progress: Callable[[float], None], done: int, whole: int, ticks: int) -> None:
    progress((done + ticks) / whole)
