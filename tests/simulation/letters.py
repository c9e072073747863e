"""What messages say must be true: every number and name that people read is held against what truly is."""

from typing import TYPE_CHECKING, Any

from costguard.host.ports import Instant

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0
NAPS = 2 * 3600.0
"""Seconds before its end in which a machine may have slept."""

CENT = 0.01
EXACT = 2.5
"""Seconds by which a time in a message may be off."""

ASKED_LONG_ENOUGH = 120.0
"""Seconds for which the world is asked about a request before nobody can tell."""

BEGINS = frozenset(("warning", "would_act", "next_action"))
PRICED = {"unknown_alarm": "unknown_seconds", "weak_sign": "weak_seconds"}
"""Messages that name the money so far, and for how long it was spent."""


class Letters:
    """Looks into each message as it goes out."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._lasted = 0.0  # as the last message about unknown said, which goes on

    def told(self, now: Instant, kind: str, facts: dict[str, Any]) -> None:
        """A message goes out."""
        judge, at = self._judge, self._judge.at
        whenever = {
            "came_back": self._came_back,
            "closed": self._closed,
            "unknown_alarm": self._goes_on,
            "unknown_recovered": self._is_over,
        }
        if kind in whenever:
            whenever[kind](facts)
        if at - max(judge.ruled_at, judge.stalled, judge.guard_at, judge.jumped) < 2 * judge.law.interval:
            return  # it may have been decided before that
        rented = judge.story.ruled.get("providers") and judge.story.ruled["cloud"]["tag_settings"]
        if rented and not judge.heard_tags:
            return  # what tags make of the rules is not known
        self._common(now, kind, facts)
        if kind == "warning":
            self._warning(now, facts)
        elif kind == "held":
            self._near(kind, "hold_until_wall", facts, now.wall + facts["hold_seconds"])
        elif kind == "countdown":
            self._countdown(facts)
        elif kind in PRICED:
            self._money(kind, PRICED[kind], facts)
        elif kind == "outcome_unknown":
            self._given_up(facts)
        elif kind == "accepted":
            attempts = [
                attempt for key, tried in judge.gone.items() if key[0] == facts["incident"] for _, attempt in tried
            ]
            if facts["proof"] not in {f"sim-{attempt}" for attempt in attempts}:
                judge.breaks(f"accepted is told with {facts['proof']!r}, which is not the proof of any request of it")
        if kind == "unknown_alarm":
            self._which(facts)

    def _false(self, kind: str, name: str, facts: dict[str, Any], truth: object) -> None:
        self._judge.breaks(f"the message {kind} says {name} {facts[name]!r}, and it is {truth!r}")

    def _near(self, kind: str, name: str, facts: dict[str, Any], truth: float) -> None:
        if abs(facts[name] - truth) > EXACT:
            self._false(kind, name, facts, truth)

    def _common(self, now: Instant, kind: str, facts: dict[str, Any]) -> None:
        """What every message says of the machine and the rules in force."""
        judge, law = self._judge, self._judge.law
        given = judge.story.ruled["policy"]
        truths = {
            "mode": given["mode"],
            "instance": judge.story.world.instance,
            "threshold": law.limit,
            "grace": law.grace,
            "price_per_hour": given["price_per_hour"],
            "stop_below_load": given["stop_below_load"] and law.machine,
        }
        for name, truth in truths.items():
            if facts[name] != truth:
                self._false(kind, name, facts, truth)
        self._near(kind, "wall", facts, now.wall)
        if kind in BEGINS and facts["action"] not in law.actions:  # what is under way may be of another policy
            self._false(kind, "action", facts, law.actions)
        if "gpus" in facts and kind == "warning" and law.machine and len(facts["gpus"]) < judge.sights.known:
            self._false(kind, "gpus", facts, law.judged)

    def _warning(self, now: Instant, facts: dict[str, Any]) -> None:
        """When it will act: not before, and not much later, unless something comes between."""
        judge, at = self._judge, self._judge.at
        soonest = max(judge.law.grace, judge.began + judge.law.boot_grace - at)
        latest = max(judge.law.grace, judge.graced_at + judge.law.boot_grace - at)
        if not soonest - EXACT <= facts["due_in_seconds"] <= latest + EXACT:
            self._false("warning", "due_in_seconds", facts, (soonest, latest))
        self._near("warning", "due_wall", facts, now.wall + facts["due_in_seconds"])
        window = judge.law.unused if facts["reason"] == "unused" else judge.law.window
        if facts["window"] != window:
            self._false("warning", "window", facts, window)

    def _countdown(self, facts: dict[str, Any]) -> None:
        """How much of it is left: no less than was promised."""
        judge = self._judge
        told = judge.warned.get(facts["incident"])
        if told and facts["due_in_seconds"] < (left := told[0] + judge.law.grace - judge.at) - EXACT:
            self._false("countdown", "due_in_seconds", facts, left)

    def _money(self, kind: str, seconds: str, facts: dict[str, Any]) -> None:
        price = self._judge.story.ruled["policy"]["price_per_hour"]
        if price is None:
            if facts["money"] is not None:
                self._false(kind, "money", facts, None)
        elif facts["money"] is None or abs(facts["money"] - facts[seconds] / 3600.0 * price) > 0.01:
            self._false(kind, "money", facts, facts[seconds] / 3600.0 * price)
        longest = self._judge.at - self._judge.story.world.boot_zero + 2 * self._judge.law.interval
        if not 0.0 <= facts[seconds] <= longest:
            self._false(kind, seconds, facts, "no longer than the boot")

    def _goes_on(self, facts: dict[str, Any]) -> None:
        """What lasts, lasts longer each time: whatever came between."""
        judge, lasted, self._lasted = self._judge, self._lasted, facts["unknown_seconds"]
        if self._lasted < lasted - 1.0 and not facts.get("told_again"):
            judge.breaks(f"unknown has lasted {self._lasted:.0f} s, and it was {lasted:.0f} s before")

    def _is_over(self, _facts: dict[str, Any]) -> None:
        self._lasted = 0.0

    def afresh(self) -> None:
        """The guard remembers nothing of what it has told."""
        self._lasted = 0.0

    def _which(self, facts: dict[str, Any]) -> None:
        """The GPUs that cannot be read are those that could not be in the last answer."""
        judge = self._judge
        look, machine = judge.sights.looks[-1] if judge.sights.looks else None, judge.story.machine
        if look is None or judge.at - look.at > 1.0 or judge.unread:
            return
        truth = {f"GPU {i} ({machine.model})" for i in range(len(machine.keys)) if look.seen[i] is None}
        named = {
            name if name.startswith("GPU") else f"GPU {machine.keys.index(name)} ({machine.model})"
            for name in facts["unknown_gpus"]
        }
        known = {f"GPU {i} ({machine.model})" for i, key in enumerate(machine.keys) if key in judge.sights.listed}
        if not truth & known <= named <= truth:
            self._false("unknown_alarm", "unknown_gpus", facts, sorted(truth))

    def _came_back(self, facts: dict[str, Any]) -> None:
        """Whether a request was out when the machine fell asleep."""
        tried = [one for key, entries in self._judge.gone.items() if key[0] == facts["incident"] for one in entries]
        at, attempt = max(tried, default=(-DAY, ""))
        status = self._judge.story.world.results.get(attempt, {}).get("status")
        if facts["acted"] and not tried:
            self._false("came_back", "acted", facts, "that nothing was requested")
        if not facts["acted"] and status == "accepted" and self._judge.slept_at - at < ASKED_LONG_ENOUGH:
            self._false("came_back", "acted", facts, "that a request was accepted")

    def _closed(self, facts: dict[str, Any]) -> None:
        """For how long the machine was off, as well as its last commitments can tell."""
        judge, left = self._judge, self._judge.left
        # a guard that falls asleep and ends when it wakes has counted the time until it fell asleep
        counted = min(left.stored_at, judge.slept_at) if judge.off_at - judge.slept_at < NAPS else left.stored_at
        off, unknown = judge.began - judge.off_at, judge.off_at - counted
        doubted = max(judge.jumped, judge.doubted)
        if facts["off_seconds"] is None and left.dated and self._dated() and doubted < left.stored_of:
            self._false("closed", "off_seconds", facts, off)
        price, limit = (judge.story.ruled["policy"][name] for name in ("price_per_hour", "saving_limit"))
        lasted = facts["off_seconds"] if limit is None else min(facts["off_seconds"] or 0.0, limit)
        saved = None if price is None or facts["off_seconds"] is None else lasted / 3600.0 * price
        if (facts["saved"] is None) != (saved is None) or abs((facts["saved"] or 0.0) - (saved or 0.0)) > CENT:
            self._false("closed", "saved", facts, saved)
        if facts["off_seconds"] is None or judge.jumped > judge.off_at - DAY or not self._dated():
            return
        if not off - EXACT <= facts["off_seconds"] <= off + max(0.0, unknown) + judge.at - judge.began + 120.0:
            self._false("closed", "off_seconds", facts, off)

    def _dated(self) -> bool:
        """Whether the machine knows now that its date is right."""
        return self._judge.story.world.synced is True

    def _given_up(self, facts: dict[str, Any]) -> None:
        """That nobody can tell what became of a request is said only after it was asked for some time."""
        judge = self._judge
        tried = [at for key, entries in judge.gone.items() if key[0] == facts["incident"] for at, _ in entries]
        if tried and judge.at - max(tried) < ASKED_LONG_ENOUGH:
            judge.breaks(f"nobody can tell what became of a request {judge.at - max(tried):.0f} s after it")
