"""What people read, in messages and in the status, is so: each kind of claim against what the judge knows of it."""

from typing import TYPE_CHECKING, Any

from costguard.host.ports import Instant
from tests.simulation.shown import Shown
from tests.simulation.terms import NEVER, is_loud

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

CRITICAL = frozenset(
    (
        *("failed", "cannot", "outcome_unknown", "preflight_refused", "unknown_alarm", "notice", "reminder"),
        *("deadline_passed", "finding", "state_lost"),
    )
)
"""Messages for which somebody may have to get up; the last ones only at times."""

NEEDS_SOMEBODY = frozenset(("failed", "cannot", "outcome_unknown", "preflight_refused", "unknown_alarm", "notice"))
"""And for which somebody has to, always."""

PHASES = {
    "watching": {"WATCHING"},
    "warned": {"WARNING"},
    "gone": {"ACTING", "CONFIRMING", "WARNING"},  # what has failed is decided anew
    "done": {"DONE", "WATCHING"},  # work may have ended it, or not
    "failed": {"FAILED", "WATCHING"},
}
EXACT, REST = 5.0, 300.0
SETTLED = 120.0
"""Seconds without a disturbance after which what the status says is certain."""


class Claims:
    """Looks into messages and answers."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge
        self._refused: set[str] = set()  # actions whose refusal people were told of in this boot
        self._ever: set[str] = set()  # incidents that people were warned of, or that went out
        self._fresh = False  # this guard found no state
        self._shown = Shown(judge)

    def begins(self, *, fresh: bool) -> None:
        """A guard begins."""
        self._fresh = fresh
        if fresh:
            self._refused.clear()

    def told(self, now: Instant, message: dict[str, Any]) -> None:
        """A message goes out."""
        judge, kind, facts = self._judge, message["kind"], message["facts"]
        self._level(kind, message["level"])
        if facts.get("told_again") or judge.at <= judge.stalled + 2.0:
            return
        if kind == "warning":
            self._ever.add(facts["incident"])
        claims = {
            "cancelled": self._of_something,
            "came_back": self._of_something,
            "closed": self._of_something,
            "reminder": self._reminder,
            "state_lost": self._state_lost,
            "notice": self._notice,
            "preflight_refused": self._refusal,
            "preflight_passed": self._passes,
            "weak_sign": self._weak,
        }
        if kind in claims:
            claims[kind](facts)
        elif kind == "deadline_passed":
            self._passed(now)
        elif kind == "deadline_ahead":
            self._ahead(facts)

    def _level(self, kind: str, level: str) -> None:
        if level == "critical" and kind not in CRITICAL:
            self._judge.breaks(f"somebody is woken by {kind}")
        if kind in NEEDS_SOMEBODY and level != "critical":
            self._judge.breaks(f"{kind} needs somebody, and its level is {level}")

    def _of_something(self, facts: dict[str, Any]) -> None:
        """What is taken back, or over, people have heard of."""
        incident = facts.get("incident")
        if self._judge.at - self._judge.guard_at <= self._judge.law.interval:
            return  # the one before it was killed as it was about to say so
        heard = self._ever | {one for one, _ in self._judge.gone} | {self._judge.incident}
        if incident not in heard and self._judge.reason != "person" and facts.get("reason") != "person":
            self._judge.breaks(f"{incident} is said to be over, and nobody was warned of it")

    def _reminder(self, _facts: dict[str, Any]) -> None:
        if self._judge.stage in {"watching", "warned", "gone"}:
            self._judge.breaks(f"people are reminded of what stands in the way, and nothing does ({self._judge.stage})")

    def _state_lost(self, _facts: dict[str, Any]) -> None:
        if not self._fresh:
            self._judge.breaks("the state is said to be lost, and it was there")

    def _notice(self, _facts: dict[str, Any]) -> None:
        if self._judge.shown_at < self._judge.story.world.boot_zero:  # what was announced before a sleep was, too
            self._judge.breaks("the cloud is said to take the machine, and it has announced nothing")

    def _refusal(self, facts: dict[str, Any]) -> None:
        self._refused.add(facts["action"])
        if self._judge.refused.get(facts["action"]) != "refuse":
            self._judge.breaks(f"{facts['action']} is said to be refused, and its plan says otherwise")

    def _passes(self, facts: dict[str, Any]) -> None:
        if self._judge.refused.get(facts["action"]) == "refuse":
            self._judge.breaks(f"{facts['action']} is said to be possible now, and its plan was refused")

    def _weak(self, _facts: dict[str, Any]) -> None:
        """One weak sign alone: no load, and the sign is there."""
        judge, law = self._judge, self._judge.law
        looks = [look for look in judge.sights.looks if look.at > judge.at - law.window + 2 * law.interval]
        seen = [one for look in looks for gpu in law.judged if (one := look.seen[gpu]) is not None]
        last = [one for look in looks[-2:] for gpu in law.judged if (one := look.seen[gpu]) is not None]
        if last and all(load >= law.limit for load, _, _ in last):
            judge.breaks("one weak sign alone is said to keep it up, and there is load")
        if seen and not any(sign for _, sign, _ in seen):
            judge.breaks("a weak sign is said to keep it up, and there was none")

    def _passed(self, now: Instant) -> None:
        judge, law = self._judge, self._judge.law
        ran = judge.ran + judge.awake() + law.interval
        dated = now.wall >= law.lease - 1.0 and now.synced is not False
        if ran < law.lifetime and ran - (judge.budget_from or 0.0) < law.budget and not dated:
            judge.breaks("a deadline is said to have passed, and none has")
        looks = [look.seen for look in judge.sights.looks if look.at > judge.at - REST - 2 * law.interval]
        seen = [one for look in looks for one in look]
        whole = judge.at - max(judge.guard_at, judge.anew, judge.hazy_at, judge.stalled) > REST + 2 * law.interval
        if whole and None not in seen and not any(one is not None and is_loud(one, law) for one in seen):
            judge.breaks("a deadline is said to wait for work, and nobody works")

    def _ahead(self, facts: dict[str, Any]) -> None:
        """How much time is left until the deadline."""
        judge = self._judge
        if judge.at - max(judge.ruled_at, judge.guard_at, judge.jumped, judge.doubted, judge.began) < SETTLED:
            return
        soonest = judge.extensions.soonest - judge.at - judge.law.interval - EXACT
        if facts["due_in_seconds"] < soonest:
            judge.breaks(f"a deadline is said to come in {facts['due_in_seconds']:.0f} s, {soonest:.0f} are left")

    # -- the status ------------------------------------------------------------------------------------------

    def status(self, answer: dict[str, Any]) -> None:
        """Somebody asked how it stands."""
        judge, at = self._judge, self._judge.at
        disturbed = max(judge.guard_at, judge.ruled_at, judge.stalled, judge.began, judge.hazy_at, judge.jumped)
        if at - disturbed < max(SETTLED, 2 * judge.law.interval) or judge.unsaved or not judge.tags_taken:
            return
        given = judge.story.ruled["policy"]
        self._is("mode", answer, given["mode"])
        self._is("grace", answer, judge.law.grace)
        self._is("threshold", answer, judge.law.limit)
        self._is("window", answer, judge.law.window)
        self._is("admin_hold", answer, given["admin_hold"])
        if not answer["sentence"]:
            judge.breaks("the status has no sentence")
        if at - judge.stage_at > EXACT and (phases := PHASES.get(judge.stage)) and answer["phase"] not in phases:
            judge.breaks(f"the status says {answer['phase']}, and it is {judge.stage} for {at - judge.stage_at:.0f} s")
        if judge.arming.surely and not answer["armed"] and at - judge.arming.since > SETTLED:
            judge.breaks("the status says that it has not worked, and it has")
        loads = [one[0] for look in judge.sights.looks for one in look.seen if one is not None]
        never = max(loads, default=0.0) <= judge.law.arm_above  # a guard that was killed may have heard of more
        if answer["armed"] and never and not judge.arming.maybe and judge.law.arm_for is not None:
            judge.breaks("the status says that it has worked, and it has not")
        self._holds(answer)
        self._gpus(answer)
        self._due(answer)
        self._shown.look(answer)

    def _is(self, name: str, answer: dict[str, Any], truth: object) -> None:
        if answer[name] != truth:
            self._judge.breaks(f"the status says {name} {answer[name]!r}, and it is {truth!r}")

    def _holds(self, answer: dict[str, Any]) -> None:
        judge, at = self._judge, self._judge.at
        if not judge.holds.settled or judge.holds.perhaps > at:
            return
        shown = {hold["uid"]: hold["until"] - answer["agent"]["now"] for hold in answer["holds"]}
        for uid, until in judge.holds.until.items():
            if (
                until > at + 2 * judge.law.interval
                and abs(shown.get(uid, -NEVER) - (until - at)) > judge.law.interval + EXACT
            ):
                judge.breaks(f"user {uid} holds it for {until - at:.0f} s, and the status says {shown.get(uid)}")
        for uid, left in shown.items():
            if left > 2 * judge.law.interval and judge.holds.until.get(uid, -NEVER) < at:
                judge.breaks(f"the status shows a hold of user {uid} for {left:.0f} s, and there is none")

    def _due(self, answer: dict[str, Any]) -> None:
        """In a countdown: which, and when it ends."""
        judge, incident = self._judge, answer["incident"]
        told = judge.warned.get(judge.incident)
        if judge.stage != "warned" or not told or judge.reason == "person" or judge.at - judge.stage_at < EXACT:
            return
        if incident is None or incident["id"] != judge.incident or incident["reason"] != judge.reason:
            judge.breaks(f"the status says {incident}, and people were warned of {judge.incident} ({judge.reason})")
        elif (
            incident["due"] is not None
            and incident["due"] - answer["agent"]["now"] < told[0] + judge.law.grace - judge.at - EXACT
        ):
            judge.breaks(
                f"the status says that it acts in {incident['due'] - answer['time']:.0f} s, sooner than it may"
            )

    def _gpus(self, answer: dict[str, Any]) -> None:
        """Each GPU as the last answer of the reader had it."""
        judge = self._judge
        before = judge.ticks[-3] if len(judge.ticks) > 2 else judge.began
        last, keys = judge.sights.looks[-4:], judge.story.machine.keys
        looks = [look for look in last if look.at > before or look in last[-2:]]  # of one tick there may be two
        for gpu in answer["gpus"]:
            number = keys.index(gpu["key"])
            seen = [look.seen[number] for look in looks]
            if all(one is None for one in seen) and gpu["known"]:
                judge.breaks(f"the status says that GPU {number} can be read")
            if gpu["known"] and not any(one is not None and abs(one[0] - (gpu["load"] or 0.0)) < 1e-6 for one in seen):
                judge.breaks(f"the status says load {gpu['load']} of GPU {number}, and {seen} was read")
