"""What the status foretells is so: when the machine counts as idle or unused, when its deadline comes, and what people have left of it.

Each moment lies between two bounds: what the guard has seen at most, and what it has seen for sure.
"""

from typing import TYPE_CHECKING, Any

from tests.simulation.terms import NEVER, is_loud

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

EXACT = 5.0
SETTLED = 300.0
"""Seconds without a disturbance after which each of these numbers is certain."""


class Shown:
    """Looks into the numbers of an answer, as seconds from now on."""

    def __init__(self, judge: "Judge") -> None:
        self._judge = judge

    def look(self, answer: dict[str, Any]) -> None:
        """Somebody asked how it stands."""
        judge, at, law = self._judge, self._judge.at, self._judge.law
        rented = judge.story.ruled.get("providers") and judge.story.ruled["cloud"]["tag_settings"]
        if not judge.ticks or judge.drowsy or (rented and not judge.heard_tags):
            return
        disturbed = max(judge.guard_at, judge.ruled_at, judge.stalled, judge.hazy_at, judge.jumped, judge.doubted)
        if at - max(disturbed, judge.began) < SETTLED + 2 * law.interval:
            return
        self._slack = law.interval + EXACT
        self._started(answer)
        self._deadline(answer)
        self._hold_left(answer)
        self._works(answer)
        self._unknown(answer)
        self._hatch(answer)
        if answer["phase"] == "WATCHING" and not judge.story.machine.hooked(at - law.window, at):
            self._idle(answer)
            self._unused(answer)

    def _left(self, answer: dict[str, Any], date: float | None) -> float:
        """Seconds from now until a date; for ever where there is none."""
        return NEVER if date is None else float(date - answer["agent"]["now"])

    def _between(self, what: str, least: float, shown: float, most: float) -> None:
        """What is shown is no less, and no more, than it can be."""
        if not least - self._slack <= shown <= most + self._slack:
            self._judge.breaks(f"the status says {what} {shown:.0f} s, and it is {least:.0f} s to {most:.0f} s")

    def _started(self, answer: dict[str, Any]) -> None:
        """When the machine was booted, or woke up."""
        judge, at = self._judge, self._judge.at
        since = -self._left(answer, answer["started"])
        self._between("that the machine has run for", at - judge.graced_at, since, at - judge.began)

    def _deadline(self, answer: dict[str, Any]) -> None:
        """When the first limit is reached; and when the deadline is that somebody moved."""
        judge, at, law, moved = self._judge, self._judge.at, self._judge.law, self._judge.extensions
        shown = answer["deadline"]
        if shown is None:
            if law.lifetime < NEVER:
                judge.breaks("the status says that there is no deadline")
            return
        limit = self._left(answer, shown["at"])
        latest = min(moved.latest_limit() - at, self._budget_left())
        self._between("that the first limit is reached in", moved.soonest_limit() - at, limit, latest)
        if moved.settled:
            whole, least = self._left(answer, answer["deadline_at"]), max(moved.soonest_limit(), moved.surely) - at
            most = max(latest, moved.latest - at)  # of one that has passed it does not matter when that was
            self._between("that the deadline is in", max(0.0, least), max(0.0, whole), max(0.0, most))

    def _budget_left(self) -> float:
        """Seconds for which the budget lasts at most; for ever where nobody knows what was spent of it."""
        judge, law, world = self._judge, self._judge.law, self._judge.story.world
        period, since = judge.period, judge.budget_since
        known = period is not None and period.length == law.period
        if since is None or since == NEVER or not known or period is None:
            return NEVER
        if world.instant().wall > period.began + period.length - SETTLED:
            return NEVER
        return law.budget - (judge.ran_stored + judge.awake() - since)

    def _hold_left(self, answer: dict[str, Any]) -> None:
        """For how long users may hold the machine."""
        judge, holds = self._judge, self._judge.holds
        if not (holds.settled and holds.certain) or holds.perhaps > -NEVER:
            return
        total = judge.story.ruled["policy"]["hold_total"]
        least, most = holds.used()
        used, slack = total - answer["hold_left"], holds.slack()
        if used < min(total, least) - slack or used > most + slack:
            judge.breaks(
                f"the status says that {used:.0f} s of holds are used, and it is {least:.0f} s to {most:.0f} s"
            )

    def _works(self, answer: dict[str, Any]) -> None:
        """Which GPUs work, by the last answers of the reader."""
        judge, law = self._judge, self._judge.law
        if judge.story.machine.hooked(judge.at - 300.0, judge.at):
            return  # the guard may take that load for the hook's
        before = judge.ticks[-3] if len(judge.ticks) > 2 else judge.began
        last = judge.sights.looks[-4:]
        looks = [look for look in last if look.at > before or look in last[-2:]]
        for gpu in answer["gpus"]:
            number = judge.story.machine.keys.index(gpu["key"])
            loud = [is_loud(one, law) for look in looks if (one := look.seen[number]) is not None]
            if len(loud) < len(looks):
                continue
            if gpu["state"] == "unknown" or (gpu["state"] == "works" and not any(loud)):
                judge.breaks(f"the status says that GPU {number} is {gpu['state']}, and it has been read as quiet")
            if gpu["state"] == "quiet" and all(loud):
                judge.breaks(f"the status says that GPU {number} is quiet, and it works")

    def _unknown(self, answer: dict[str, Any]) -> None:
        """Since when a GPU cannot be read."""
        judge, at, enough = self._judge, self._judge.at, 3 * self._judge.law.interval
        blind, known = judge.rest.blind, judge.rest.all_known
        if blind is not None and at - blind > enough and answer["unknown_since"] is None:
            judge.breaks(f"the status says that each GPU can be read, and one cannot for {at - blind:.0f} s")
        if known is not None and at - known > enough and answer["unknown_since"] is not None:
            judge.breaks(f"the status says that a GPU cannot be read, and each can for {at - known:.0f} s")

    def _hatch(self, answer: dict[str, Any]) -> None:
        """Whether a tag or the kernel's parameter forbids everything."""
        judge, at = self._judge, self._judge.at
        shown = any(veto["hatch"] for veto in answer["vetoes"])
        asks = judge.hatch_since < at - 2 * self._slack and at < judge.hatch_until - 2 * self._slack
        if (asks or judge.story.world.hatch) and not shown:
            judge.breaks("the status says that nothing forbids a stop, and something does")
        gone = not judge.asks and at - judge.asks_changed > 2 * self._slack and not judge.story.world.hatch
        if gone and shown and judge.heard_tags:
            judge.breaks("the status says that a tag forbids a stop, and there is none")

    def _idle(self, answer: dict[str, Any]) -> None:
        """When the machine counts as idle, if nobody works until then."""
        judge, law, tick = self._judge, self._judge.law, self._judge.ticks[-1]
        shown, past = self._left(answer, answer["idle_at"]), tick - judge.at
        armed = judge.arming.surely or law.arm_for is None
        if law.arm_for is not None and not judge.arming.maybe and shown < NEVER:
            judge.breaks("the status says when it is idle after work, and it never worked")
        start = max(tick - law.window, judge.began, judge.anew - self._slack)
        clear = judge.sights.clear_from(law, tick, start, first=law.interval + 1.0)
        least = past + law.window - (tick - clear) if clear > tick - law.window + 1e-3 else -NEVER
        quiet = judge.rest.quiet(law, tick)
        since_armed = NEVER if law.arm_for is None else tick - judge.arming.since
        bucket = law.window / 60.0 + 1.0
        certain = armed and quiet > 2 * law.interval and judge.rest.loud is None
        most = past + max(0.0, law.window + bucket - min(quiet, since_armed)) if certain else NEVER
        self._between("that it is idle in", least, shown, most)

    def _unused(self, answer: dict[str, Any]) -> None:
        """When the machine counts as unused, if nobody works until then."""
        judge, law, tick = self._judge, self._judge.law, self._judge.ticks[-1]
        shown, past = self._left(answer, answer["unused_at"]), tick - judge.at
        if law.unused is None or judge.arming.surely:
            if shown < NEVER:
                judge.breaks("the status says when it is unused, and that is no reason")
            return
        start = max(tick - law.unused, judge.anew)
        clear = judge.sights.clear_from(law._replace(together="all"), tick, start)
        carried = judge.carried if clear <= judge.anew + law.interval + 30.0 else 0.0
        whole = clear > tick - law.unused + 1e-3
        least = past + law.unused - (tick - clear) - carried - law.interval if whole else -NEVER
        quiet = judge.unused()
        certain = not judge.arming.maybe and quiet > 2 * law.interval
        most = max(0.0, law.unused + law.unused / 60.0 + 1.0 - quiet) if certain else NEVER
        self._between("that it is unused in", least, shown, most)
