"""The judge: it sees what the guard's surroundings see, and holds that against the design.

It gets what readers and clouds answered, what people asked, which worker was started and released with which job, and
what the machine truly did. It looks into no part of the guard and reads no words. `rules` says what must not
happen, `dues` what must.
"""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from costguard.host.files import COMMITMENTS
from costguard.host.ports import Instant
from costguard.readers.cloud.job import CloudAnswer
from costguard.testing.simhost import Watch
from costguard.testing.simmachine import IDLE_LOAD
from tests.simulation import rules
from tests.simulation.claims import Claims
from tests.simulation.dues import Dues
from tests.simulation.endings import Endings
from tests.simulation.extended import Extensions
from tests.simulation.facts import BLINK, SETTLED, Arming, Look, Rest, Sights
from tests.simulation.held import EXACT, Holds
from tests.simulation.incidents import Incidents
from tests.simulation.letters import Letters
from tests.simulation.processes import Processes
from tests.simulation.steps import Steps
from tests.simulation.tags import asked_by, changed_by, wanted_by
from tests.simulation.terms import LONG, MACHINE, NEVER, Seen, Terms, is_loud, terms
from tests.simulation.tidings import Tidings, due_again
from tests.simulation.wishes import Wishes

if TYPE_CHECKING:
    from tests.simulation.story import Story

DAY = 86400.0
SOON = 900.0
"""Seconds: what the cloud announces for later keeps nothing back until then."""

AFTERWARDS = 600.0
"""Seconds after which an announcement that did not come true is forgotten."""

STANDS = 7200.0
"""Seconds for which an announcement without a date counts while the cloud shows it."""

GONE = 600.0
"""Seconds without it after which the guard may take it for a new one."""

WRITTEN = 700.0
"""Seconds of running time that may not have reached the disk."""

HEEDED = AFTERWARDS / 2
"""Seconds for which the guard certainly keeps still after the moment that was announced."""

ASKED_FOR = 7200.0
"""Seconds for which the guard may ask what became of a request."""

LATCHES = {"done": "done", "would_act": "done", "cannot": "done", "outcome_unknown": "done", "failed": "failed"}
ENDS = frozenset(("cancelled", "came_back", "closed", "state_lost"))
TOLD = {
    "outcome_unknown": rules.given_up,
    "cannot": rules.gives_up,
    "failed": rules.failed,
    "unknown_alarm": rules.alarms,
}
WISH_ENDS = frozenset((*LATCHES, *ENDS, "accepted"))


class Period(NamedTuple):
    """That of a budget: its first date, its length, and since when that is known; nothing is, without a length."""

    began: float = 0.0
    length: float = NEVER
    since: float = 0.0


class Left(NamedTuple):
    """The commitments of the boot before: when they were written, of when they certainly are, and whether with a date that was sure."""

    stored_at: float
    stored_of: float
    dated: bool


class Violation(BaseException):  # the guard survives every Exception, and must not survive this
    """The guard broke a rule."""


class Judge(Watch):
    """What happened, as far as rules speak of it."""

    def __init__(self, story: "Story") -> None:
        self.story = story
        machine = story.machine
        self.counts: Counter[str] = Counter()
        self.sights, self.arming, self.rest = Sights(machine), Arming(), Rest(len(machine.keys))
        self.holds, self.extensions = Holds(self), Extensions(self)
        self.wanted: dict[str, Any] = {}  # what tags of the machine ask for
        self.law: Terms = terms(story.config, {}, len(machine.keys))
        self.began = -20.0  # boot or resume
        self.graced_at = -20.0  # from when on the guard may count boot_grace
        self.ruled_at = -20.0  # boot, resume or reload
        self.anew = -20.0  # every window begins again: boot, resume, reload
        self.guard_at = 0.0  # the guard was started
        self.guards: list[float] = []  # when the last ones were
        self.ticks: list[float] = []
        self.hazy_at = -NEVER  # the last tick in which the guard may have seen nothing, whatever was there to see
        self.unwritten_at = -NEVER  # a guard went on with what was written long before
        self.skipped: dict[str, set[str]] = {}  # incident -> actions whose plan pointed to another one when it began
        self._counted: dict[int, float] = {}  # when a counter of a GPU was certainly read last
        self._count_lost = False  # an answer that no tick took has read them since
        self.saved_at, self.unsaved = 0.0, False
        self.stored_at = self.stored_of = -NEVER  # when commitments were written, and of when they certainly are
        self.configured_at = -NEVER
        self.stalled = -NEVER  # the guard got no CPU until then
        self.carried = 0.0  # quiet seconds of earlier boots
        self._asleep_with = 0.0  # the same of this boot, when the machine fell asleep
        self._carried_under: object = None  # the policy of these
        self.carried_unless_written = 0.0  # the same where the disk never got the own stop that ended them
        self.ran = self.ran_stored = 0.0  # running seconds of earlier boots, and those that are certainly remembered
        self.stored_ran = 0.0
        self.stored_dated = False  # with a date that was sure
        self.left = Left(-NEVER, -NEVER, False)
        self.carried_sure = self.stored_quiet = 0.0  # of the quiet seconds, those that certainly count
        self.stored_under: object = None  # the configuration of these
        self.first_tick = NEVER  # of this boot
        self.budget_from: float | None = None  # running seconds at which a budget began, at the earliest
        self.budget_since: float | None = None  # and at the latest
        self.period: Period | None = None  # of the budget
        # what the guard does
        self.stage, self.stage_at = "watching", 0.0  # watching | warned | gone | done | failed | unsure
        self.perhaps_gone = False  # a guard that was killed in a countdown may have saved that it acts
        self.incident, self.reason = "", ""
        self.warned: dict[str, list[float]] = {}  # incident -> deliveries
        self.tried: dict[str, list[float]] = {}  # incident -> attempts to warn
        self.unreached = (-NEVER, "")  # when a warning reached nobody last, and of which incident
        self.tries: tuple[str, list[float]] = (
            "",
            [],
        )  # of which incident, and the attempts to warn of its last countdown
        self.gone: dict[tuple[str, str], list[tuple[float, str]]] = {}  # incident, action -> releases: when, attempt
        self.acted_ids: set[str] = set()
        self.asked_about: set[str] = (
            set()
        )  # attempts of which the guard asked what became of them: these end their link
        self._asked_at = -NEVER  # the last such question
        self.accepted = (-NEVER, "")  # the last request that was: when the guard heard so, and which attempt
        self.prepared: Counter[tuple[str, str]] = Counter()
        self.ready: dict[str, float] = {}  # attempts whose workers may act, and since when
        self.refused: dict[str, str] = {}  # what the last plan of an action said
        self.ever_refused = False  # in this boot: a guard that was killed may not have kept what came after
        self._closes = ""  # what the next boot must tell of an incident that was open
        self.carried_out = False  # what latched it last was the deed itself
        self.latched_by_plan = False  # *cannot* was told because a plan was refused
        self.stops: list[float] = []  # own stops that ended this machine, with no work since
        self.tried_stops: list[float] = []  # requests to, perhaps in vain
        self._forgiven_stops: tuple[float, list[float]] = (-NEVER, [])  # when work was seen after which of them
        self._in_vain: set[str] = set()  # attempts of which the guard hears with this look that they certainly failed
        self.requests: list[tuple[float, str]] = []  # to end this machine: when, and which attempt
        self.killed = -NEVER  # the guard was
        self.went = -NEVER  # the last request
        self.off_at = self.slept_at = -NEVER  # the machine went off, or fell asleep
        self._was_out = False  # a request, when it went off
        self._cut_off = False  # what its last guard saw last, the disk never got
        # what stands in the way
        self.jumped = -NEVER
        self.doubted = -NEVER  # the date was known to be wrong
        self.hatch_since = NEVER
        self.hatch_until = self.asks_changed = -NEVER
        self._unsaved_end: float | None = (
            None  # until when a tag kept it up before its end was moved, and that not yet saved
        )
        self.heard_tags = False  # this guard, under this policy
        self.tags_taken = True  # and the last answer about them for sure
        self._unsaved_tags: tuple[dict[str, Any], float, float] | None = None  # what held before settings not yet saved
        self.asks = False
        self.taken: list[tuple[float, float]] = []  # the guard knows for sure from then on, and heeds it until then
        self.noticed_until = -NEVER
        self.shown_at = -NEVER  # the cloud announced anything at all
        self._soonest = NEVER  # of what is announced, when the first comes; any guard of this boot knows that
        self._noticed: dict[str, float] = {}  # what this guard was told of, and when it comes
        self._shown: dict[str, tuple[float, float]] = {}  # when it was first and last shown to this guard
        # a person's stop
        self.asked: dict[int, tuple[str, int, float]] = {}
        self.wish: float | None = None  # must end aloud
        self.may_wish: float | None = None  # may be carried out
        self.dates: dict[float, float] = {}
        self.undated: dict[
            float, tuple[float, float]
        ] = {}  # stops on a wrong date: when it was right again, and which it was
        self._look: Look | None = None
        self._kept: Look | None = None  # one that the reader has not told yet
        self.unread: set[int] = set()  # GPUs that an answer since the last tick did not read, which no tick took
        self.dues = Dues(self)
        self.tidings, self.letters, self.wishes = Tidings(self), Letters(self), Wishes(self)
        self.incidents, self.processes = Incidents(self), Processes(self)
        self.claims, self.steps, self.endings = Claims(self), Steps(self), Endings(self)
        self.shown_done: set[str] = set()  # attempts of which the cloud showed that they have ended the machine
        self._plans: dict[str, str] = {}  # what this guard heard of the plan of an action last, under these rules
        self.vetoed: set[str] = set()  # incidents of which this guard knows that a plan was refused
        self.ever_vetoed: set[str] = set()  # and those of which any guard did

    @property
    def at(self) -> float:
        """True seconds."""
        return self.story.world.now

    @property
    def drowsy(self) -> bool:
        """Whether the guard has had no look since the machine was started or woke up, and may not know of that."""
        return not self.ticks or self.ticks[-1] <= self.began

    def breaks(self, words: str) -> None:
        """A rule was broken."""
        raise Violation(words)

    # -- what happens to the machine -------------------------------------------------------------------------

    def awake(self) -> float:
        """Running seconds of this boot."""
        world = self.story.world
        return world.now - world.boot_zero - world.slept

    def going_off(self) -> None:
        """The machine is off; by the guard's request, if that was just now."""
        self.off_at, self._was_out = self.at, self.is_out()
        requested = self._requested()
        own = self.at - requested < 120.0
        if own:
            self.stops.append(requested)
        own = own and self.killed < requested  # else nobody could write down that it was
        unused = 0.0 if self.arming.surely else self._unused_so_far()
        self.carried, self.carried_unless_written = (0.0, unused) if own else (unused, 0.0)
        self._cut_off = bool(self.ticks) and self.killed > self.ticks[-1] - 1.0
        self._carried_under = self._rules(self.story.ruled, self.wanted)
        self.ran += self.awake()

    def _requested(self) -> float:
        """When a request went out that may have been what ended this machine: what certainly failed was not."""
        results = self.story.world.results
        own = [at for at, attempt in self.requests if results.get(attempt, {}).get("status") != "failed"]
        self.requests.clear()
        return max(own, default=-NEVER)

    def _unused_so_far(self) -> float:
        """Quiet seconds that the next boot may count."""
        at = self.ticks[-1] if self.ticks else self.at  # what came after that the guard could not see
        awake = next((tick for tick in self.ticks if tick >= self.began), self.at)
        if at < self.began or (self._asleep_with and (self.at - awake < 60.0 or self.stored_at < self.began)):
            return self._asleep_with  # nor that the machine slept; or it could not write that down
        clear = self.sights.clear_from(self._all(), at, self.anew)
        whole = clear <= self.anew + self.law.interval + 30.0
        return at - clear + (self.carried if whole else 0.0)

    def _rules(self, config: dict[str, Any], wanted: dict[str, Any]) -> object:
        return config["policy"], terms(config, wanted, len(self.story.machine.keys))

    def _all(self) -> Terms:
        return self.law._replace(together="all")

    def booted(self, *, same: bool) -> None:
        """A new boot; ``same``: of the same instance."""
        self.began = self.ruled_at = self.story.world.boot_zero
        self.left = Left(self.stored_at, self.stored_of, self.stored_dated)
        self.sights.looks.clear()
        self.ticks.clear()
        kept = self._commitments()
        known = same and kept and self.stored_of > self.stage_at + 1.0 and self.reason != "person"
        ends = {"warned": "cancelled", "gone": "closed" if self._was_out else ""}
        self._closes = ends.get(self.stage, "") if known else ""
        self.ran_stored = max(0.0, self.stored_ran - WRITTEN) if same and kept else 0.0
        self.period = self._period_kept(kept)
        if self._carried_under != self._rules(self.story.config, {}):
            self.carried = self.carried_unless_written = 0.0  # quiet under another policy proves nothing
        again = same and kept and self.stored_under is self.story.ruled
        self.carried_sure, self.stored_quiet, self.first_tick = self.stored_quiet if again else 0.0, 0.0, NEVER
        if not same:
            self.ran, self.carried, self.budget_from = 0.0, 0.0, None
            self.period = None
            self.stops.clear()
            self.tried_stops.clear()
        elif self.stored_of <= self._forgiven_stops[0]:  # nobody had time to write that down
            self.tried_stops = [*self._forgiven_stops[1], *self.tried_stops]
        self._forgiven_stops = (-NEVER, [])
        self.wanted, self.asks, self.hatch_since, self._unsaved_tags = {}, False, NEVER, None
        self.taken.clear()
        self.noticed_until = -NEVER
        self.refused.clear()
        self.ever_refused = False
        before = len(self.stops)
        self._keep_stops(kept)
        if len(self.stops) < before:
            self.carried = max(self.carried, self.carried_unless_written)
        if self._cut_off and same:
            self.carried = max(self.carried, float(kept.get("unused", 0.0)))
        self._keep_wish()
        self._afresh()
        self.holds.booted(kept)  # the policy of this boot bounds them
        self.extensions.booted(kept)

    def _period_kept(self, kept: dict[str, Any]) -> Period | None:
        """The period of the budget, where the commitments hold its beginning; nobody knows it any more where they lost that, or hold an earlier one."""
        if self.period is None or abs(kept.get("spent_since", 0.0) - self.period.began) < EXACT:
            return self.period
        if kept and not kept.get("spent_since"):  # it begins anew with the next date that is sure
            self.budget_from = None
            return None
        self.budget_from = 0.0 if kept else self.budget_from
        return Period()

    def _keep_stops(self, kept: dict[str, Any]) -> None:
        """What else the commitments hold: the beginning of the budget, and own stops."""
        self.budget_since = self.budget_since if kept.get("spent_since") else None
        dates, stops = list(kept.get("stops", ())), []
        for stop in self.stops:
            date = next((one for one in dates if self._is_of(one, stop)), None)
            if date is not None:  # one that stands for this stop stands for no other
                dates.remove(date)
                stops.append(stop)
        self.stops = stops

    def _is_of(self, date: float, stop: float) -> bool:
        """Whether the guard keeps a stop under this date: that of the request, or of the moment when a wrong one was right again."""
        dates = [self.dates.get(stop, 0.0), *([self.undated[stop][1]] if stop in self.undated else ())]
        return any(abs(date - one) < 5.0 for one in dates)

    def _commitments(self) -> dict[str, Any]:
        """What the disk holds for the next boot: what is lost there is lost."""
        start = self.story.world.start()
        try:
            kept = json.loads(start.commitments) if start.commitments else {}
        except ValueError:
            return {}
        return kept if isinstance(kept, dict) else {}

    def _afresh(self) -> None:
        """The guard remembers nothing of this boot."""
        self._asleep_with = 0.0
        self.endings.begins_anew()
        self.arming.forget()
        self.sights.forget()
        self.enter("watching")
        self.begin_again()
        self.dues.afresh()
        self.letters.afresh()
        self.steps.afresh()
        self.graced_at = self.at if self.story.world.slept else self.began  # nobody remembers when it woke up

    def begin_again(self) -> None:
        """Every window begins anew."""
        self.anew = self.at
        self.law = terms(self.story.ruled, self.wanted, len(self.story.machine.keys))
        self.rest.anew()
        self.dues.wait()

    def resumed(self) -> None:
        """The machine wakes up: that counts as a start."""
        open_still = self._is_open()
        self.endings.begins_anew()
        unwritten = self._asleep_with if self.stored_at < self.began else 0.0  # since it slept before
        self._asleep_with = max(unwritten, 0.0 if self.arming.surely else self._unused_so_far())
        self.slept_at, self.began = self.ticks[-1] if self.ticks else self.began, self.at
        self.ruled_at = self.at
        self.carried = self.carried_sure = 0.0
        self.arming.forget()
        self.enter("watching")
        self.noticed_until = -NEVER
        self.taken.clear()
        self.graced_at = self.at
        self._kept = None  # what was seen before the sleep is of no window any more
        self.begin_again()
        self.tidings.disturbed()
        if open_still:
            self.tidings.owes("came_back")
        self.steps.disturbed()
        self.dues.slept()

    def _is_open(self) -> bool:
        """Whether an incident is certainly under way of which people were warned."""
        warned = self.stage == "warned" and bool(self.warned.get(self.incident)) and self.reason != "person"
        return warned and not self.drowsy and self.at > max(self.stalled, self.stage_at + 10.0)

    def stalls(self, seconds: float) -> None:
        """The guard gets no CPU for so long."""
        self.stalled = self.at + seconds

    def wall_jumped(self) -> None:
        """The date was set."""
        self.jumped = self.at

    def guard_begins(self) -> None:
        """A guard starts; unless its predecessor's state is there, it starts afresh."""
        for kind, uid, seconds in self.asked.values():
            if kind in {"release", "stop"}:
                self.endings.let_go()
            if kind == "release":  # done perhaps, and the guard died before it could say so
                lasts = max(self.holds.latest, self.holds.perhaps)
                self.holds.released(uid)
                self.extensions.released(uid, sure=False)
                self.holds.perhaps = lasts
                self.enter("unsure")
                self.holds.doubt()
            elif kind == "hold":
                self.holds.doubt()
                self.holds.perhaps = max(self.holds.perhaps, self.at + min(seconds, self.law.hold_max))
                self.enter("unsure")
            elif kind == "extend":
                self.extensions.asked(seconds)
                self.enter("unsure")
        self.asked.clear()
        self._noticed.clear()
        self._shown.clear()
        self.vetoed.clear()
        self._counted.clear()
        self._in_vain.clear()
        self.heard_tags = False
        self.stalled = -NEVER
        self.sights.listed.clear()
        self.dues.checks_anew()
        self.tidings.disturbed()
        self.steps.disturbed()
        self._plans.clear()
        self.wishes.disturbed()
        self.incidents.begins()
        self.processes.begins()
        self.holds.begins()
        self.guard_at = self.at
        self.guards = [*self.guards[-99:], self.at]
        if self._look is not None:  # killed in the midst of a tick, which may have been saved
            self.arming.tick(self._look.at, self._look.seen, self.law, sure=False)
        self.arming.restarted()
        self._look = self._kept = None
        self.may_wish = None
        self._keep_wish()
        start = self.story.world.start()
        self.claims.begins(fresh=start.state is None)
        if start.state is None:
            self.story.ruled = self.story.config
            if self.ticks:  # a boot begins with none
                self.carried = self.carried_sure = 0.0
            self.wanted, self.asks, self.hatch_since, self._unsaved_tags = {}, False, NEVER, None
            self.taken.clear()
            self.noticed_until = -NEVER
            kept = self._commitments()
            self.period = self._period_kept(kept)
            self._must_hear(kept, lost=start.lost)
            if self._closes and kept:
                self.tidings.owes(self._closes)
            self._closes = ""
            self.ran_stored = self.ran_stored if kept else 0.0
            self.holds.lost(kept)
            self.extensions.lost(kept)
            self._keep_stops(kept)
            self._afresh()
            if (kept.get("incident") or {}).get("asked") is not None and kept.get("boot_id") == start.boot_id:
                self.perhaps_gone = True  # it was killed between the promise and the deed
                self.enter("unsure")
            return
        self._goes_on()

    def guard_ends(self) -> None:
        """A guard ended as it was told to: for how long the machine has run stands in what it leaves (I8)."""
        self.tidings.leaves()
        kept = self._commitments()
        if self.drowsy or self.at <= self.stalled or self.story.troubles.unstored or not kept:
            return
        ran = self.ran_stored + self.awake() - (self.at - self.ticks[-1]) - 2 * self.law.interval
        if kept["ran"] < ran - EXACT:
            self.breaks(f"I8: a guard that ended forgot {ran - kept['ran']:.0f} s of running time")

    def _goes_on(self) -> None:
        """With the state that was saved last: what came after that is lost, or perhaps."""
        if self.hatch_since > self.saved_at - self.law.interval - 1.0:
            self.hatch_since = NEVER  # it was not saved with the state, and must be heard again
        if self.asks_changed > self.saved_at - self.law.interval - 1.0:
            self.asks = True  # perhaps: that a tag is gone was not saved
        saved = [entry for entry in self.taken if entry[0] - 1.0 <= self.saved_at]
        self.taken = [(max(sure, self._heard_after(self.at)), until) for sure, until in saved]
        if self.unsaved or self.killed - self.saved_at < 0.1:  # what was decided is lost, or what was to be said
            self.perhaps_gone = self.stage == "warned"
            self.enter("unsure" if self.unsaved or self.stage != "gone" else "gone")
            self.holds.ends = None
            self.dues.unheard()
            self.tidings.unheard()
            self.endings.unsaved()
            self.steps.unsaid(self.incident)
        if self.at - self.saved_at > 1.5 * self.law.interval:
            self.unwritten_at = self.at
        if self.unsaved:
            self._forgets()
            self.hazy_at = self.at  # what was seen since the state could be saved last is a hole to this guard
        if self._unsaved_end is not None:  # nor was that a tag asks for longer
            self.hatch_until, self._unsaved_end = self._unsaved_end, None
        if self._unsaved_tags is not None:  # nor were these settings
            self.wanted, since, self.carried = self._unsaved_tags
            self.begin_again()
            self.anew, self._unsaved_tags = since, None
        if self.arming.since > self.saved_at:
            self.arming.surely = False
        self.rest.restarted(self.saved_at - 1.1 * self.law.interval)
        if self._in_force(self.story.ruled) != self._in_force(self.story.config):
            self._ruled_anew()
        elif (
            self.story.ruled == self.story.config and self.configured_at >= self.saved_at - 1.0
        ):  # or not: then a warning under these rules goes on
            ruled_at, warned = self.ruled_at, self.stage == "warned"
            self._ruled_anew()
            self.ruled_at = ruled_at
            self.enter("unsure" if warned else self.stage)
        self.story.ruled = self.story.config
        self.dues.wait()

    def _in_force(self, config: dict[str, Any]) -> dict[str, Any]:
        """A configuration with what tags make of it: where both are as before, nothing has changed for a guard that begins."""
        policy = config["policy"]
        tolerated = policy["window_share"] * policy["kill_duration"]
        return {**config, "policy": {**policy, "window_share": tolerated, **changed_by(self.wanted, policy)}}

    def _forgets(self) -> None:
        """Nobody remembers a request that went out after the state could be saved last: on a full disk it may go out twice."""
        self.gone = {
            key: kept for key, tried in self.gone.items() if (kept := [one for one in tried if one[0] <= self.saved_at])
        }

    def _must_hear(self, kept: dict[str, Any], *, lost: bool) -> None:
        """What the commitments hold of before: that the state of this boot is gone, or how a stop ended."""
        if lost or kept.get("boot_id") == self.story.world.boot_id:
            self.tidings.owes("state_lost")
        elif incident := kept.get("incident"):
            self.tidings.owes("cancelled" if incident["asked"] is None else "closed")

    def _keep_wish(self) -> None:
        """A stop by hand that the next guard finds must be ended aloud by it; one that was not saved is lost."""
        start = self.story.world.start()
        found: dict[str, Any] = {}
        for content in (start.commitments, start.state):
            try:
                saved = json.loads(content) if content else {}
            except ValueError:
                continue
            found = saved.get("incident") or saved.get("engine", {}).get("core", {}).get("incident") or {}
        self.wish = None if found.get("reason") != "person" or self.wish is None else self.at

    # -- the policy in force ---------------------------------------------------------------------------------

    def configured(self, now: Instant, effective: dict[str, Any]) -> None:
        """A reload: from now on the guard works under this configuration."""
        self.story.note("reloaded")
        if effective == self.story.config == self.story.ruled:  # nothing but the plans is made anew
            self.dues.checks_anew()
            return
        self.story.config = effective
        self.configured_at = self.at
        self._ruled_anew()

    def _ruled_anew(self) -> None:
        before, self.story.ruled, self.ruled_at = self.story.ruled, self.story.config, self.at
        if any(before.get(part) != self.story.config.get(part) for part in ("providers", "cloud")):
            self.heard_tags = False
            self.hatch_since = NEVER  # it looks elsewhere now; what it heard before stays until it reads tags there
            rented, settings = self.story.config["providers"], self.story.config.get("cloud", {}).get("tag_settings")
            self.wanted, self.asks = self.wanted if rented and settings else {}, self.asks and bool(rented)
        self.begin_again()
        self.carried = self.carried_sure = 0.0
        self.tidings.disturbed()
        self.steps.ruled_anew(before)
        self._plans.clear()
        self.arming.again()
        self.dues.ruled_anew()
        self.dues.checks_anew()
        self.may_wish = None
        self.endings.let_go()
        if self.stage != "gone" and not (self.stage == "unsure" and self.perhaps_gone):
            self.enter("watching")

    # -- what the guard sees ---------------------------------------------------------------------------------

    def ticked(self, now: Instant, gpus: list[list[object]]) -> None:
        """The reader answered."""
        self.story.troubles.answers()
        # a GPU that was read, and its counter too, and nobody heard of that
        spoilt = {gpu[0] for gpu in gpus if gpu[1] is None and not gpu[4]}
        left = {gpu: at for gpu, at in self._counted.items() if self.story.machine.keys[gpu] not in spoilt}
        self._counted = left if gpus else {}
        look = self.sights.add(self.at, gpus)
        if self._kept is not None and self._look is None:  # told with this one
            self.sights.looks.insert(len(self.sights.looks) - 1, self._kept)
        if self._look is not None:  # no tick took that one: its work counts in the next, its counters prove nothing
            self._count_lost = True
            self.unread |= {gpu for gpu, before in enumerate(self._look.seen) if before is None}
            look = self._with_work_of(self._look, look if self._kept is None else self._with_work_of(self._kept, look))
            self._kept = None  # with which it came
        self._look = look

    def _with_work_of(self, earlier: Look, look: Look) -> Look:
        """An answer with the work of one before it that no tick took."""
        both = zip(look.seen, earlier.seen, strict=True)
        return look._replace(seen=tuple([_busier(now, before, self.law) for now, before in both]))

    def replaced(self) -> None:
        """The driver is replaced: its counters begin anew."""
        self._counted.clear()

    def unsaid(self, now: Instant) -> None:
        """The reader kept to itself that all is as before: seen, and a tick, when the guard hears of it."""
        earlier, self._kept, self._look = self._kept, self._look, None
        if earlier is not None and self._kept is not None:  # which no tick took: its work counts in the next
            self._kept = self._with_work_of(earlier, self._kept)
        self.sights.looks.pop()

    def announced(self, now: Instant, answer: CloudAnswer) -> None:
        """The cloud reader answered."""
        at = self.at
        if answer.asks is not None:  # else they cannot be read, and what was asked before stays
            self.heard_tags = True
            tags, settings = self.story.world.tags, self.story.ruled["cloud"]["tag_settings"]
            until = asked_by(tags, at, now.wall)
            self.asks_changed = at if self.asks != (until > at) else self.asks_changed
            self.tags_taken = at > self.stalled  # an answer that it comes to late the guard drops, and asks anew
            self.asks = until > at
            self.hatch_since = min(self.hatch_since, self._heard()) if self.asks else NEVER
            if self.asks and until > self.hatch_until + 1.0 and self._unsaved_end is None:
                self._unsaved_end = self.hatch_until
            self.hatch_until = until
            wanted = wanted_by(tags) if settings else {}
            if wanted != self.wanted:
                self._unsaved_tags = self._unsaved_tags or (self.wanted, self.anew, self.carried)
                before, self.wanted, policy = self.wanted, wanted, self.story.ruled["policy"]
                if changed_by(wanted, policy) != changed_by(before, policy):
                    wish = self.may_wish
                    self._ruled_anew()
                    self.may_wish = wish
        self.shown_at = at if answer.notices else self.shown_at
        for name, kind, due_in, _ in answer.notices:
            due = at + (30.0 if due_in is None else due_in)
            if kind != "rebalance" and due <= at + SOON:
                self._announces(name, due, dated=due_in is not None)
        self.taken = [entry for entry in self.taken if at - entry[1] < 60.0]

    def _announces(self, name: str, due: float, *, dated: bool) -> None:
        """The cloud will take the machine: what is announced again is no news, and counts for as long as it is shown."""
        first, last = self._shown.get(name, (self.at, self.at))
        back = self.at - last > GONE
        self._shown[name] = (self.at if back else first, self.at)
        if name in self._noticed and (back or (not dated and self.at - first <= STANDS)):
            self._expects(due)
        if name in self._noticed and (due >= self._noticed[name] - 60.0):
            return
        if self.at <= self.stalled:  # an answer that it comes to late the guard drops, and asks anew
            self._expects(due)
            return
        if name in self._noticed and due < min(self._soonest, *self._noticed.values()) - 60.0:
            self.tidings.owes("notice")  # so much sooner is news
        forgotten = self.noticed_until + 2 * self.law.interval  # by the guard, once it has looked after that
        if due > self.at > forgotten and (self.noticed_until == -NEVER or self.ticks[-1] > forgotten):
            self.tidings.owes("notice")
        self._noticed[name] = due
        self.taken.append((self._heard(), due + HEEDED))
        self._expects(due)
        if self.stage == "warned" and self.reason != "person":
            self.enter("watching")

    def _expects(self, due: float) -> None:
        """Something is announced for then: with what was, until that is forgotten."""
        self._soonest = min(due, self._soonest if self.at <= self.noticed_until else NEVER)
        self.noticed_until = max(self.noticed_until, due + AFTERWARDS)

    def _heard(self) -> float:
        """When the guard certainly heeds what it is told now: at once, unless it stands still."""
        return self.at + 1.0 if self.at > self.stalled else self._heard_after(self.stalled)

    def _heard_after(self, disturbed: float) -> float:
        """When the guard has certainly heard what was said before, and has it saved."""
        return disturbed + 2 * self.law.interval + rules.HEARD

    def served(self, now: Instant, message: str) -> None:
        """A tick is over."""
        if not message.startswith("WATCHDOG"):
            return
        if self.story.loop is not None and self.story.loop.journal.troubles.get("bug"):
            raise Violation(f"a bug: {self.story.loop.journal.troubles['bug']}")
        at, look, kept = self.at, self._look, self._kept
        self._look = self._kept = None
        if look is None and kept is not None:  # its reader says that with its next answer, or never
            kept, self._count_lost = None, True
        self.processes.tick()
        self.steps.tick()
        self.endings.tick()
        self.wishes.tick()
        self._forget_vain_ones()
        if now.synced is False:
            self.doubted = at
        elif now.synced is True:
            self.undated |= {stop: (at, now.wall) for stop, (right, _) in self.undated.items() if right == NEVER}
        if now.synced is not False and self.law.budget < NEVER:
            self.budget_from = self.ran + self.awake() if self.budget_from is None else self.budget_from
            low = self.ran_stored + self.awake()
            self.budget_since = low if self.budget_since is None else self.budget_since
            self._period(now)
        if self.story.world.slept and self.ticks and self.ticks[-1] < self.began:
            self.graced_at = at  # now the guard knows that it woke up
        if look is None:
            self.sights.missed(at)
        else:
            self.sights.taken()
        doubtful = look is None or at - look.at > 4.0 or at <= self.stalled + 1.0
        self.hazy_at = at if doubtful else self.hazy_at
        seen = (None,) * len(self.story.machine.keys) if look is None or doubtful else look.seen
        self._count_lost |= doubtful and look is not None  # the guard may have heard too late what was proved then
        # evidence of the answer that a tick takes ends such a hole; that of another one, which nobody believes, does not
        since, unread, self.unread = at - (self.ticks[-1] if self.ticks else self.guard_at), self.unread, set()
        before = self.ticks[-1] if self.ticks else self.began  # the answer that is taken late is of this tick
        surely = tuple(None if gpu in unread and one and one[2] < since else one for gpu, one in enumerate(seen))
        armed = self.arming.maybe, self.arming.surely
        if self.story.machine.hooked(at - self.law.interval - SETTLED, at):
            self.arming.doubted()  # the guard may take that load for the hook's
        if kept is not None:
            self._taken_late(kept, doubtful=doubtful)
        self.arming.tick(at, look.seen if look is not None else seen, self.law, sure=not doubtful)
        self._armed(armed)
        given = surely if look is None else look.seen
        self.rest.tick(at, self._with_counters(surely), self.law, given, self.sights.there(self.law))
        self._forgive(at, before)
        self.dues.tick(now, self.ticks[-1] if self.ticks else self.guard_at, doubtful=doubtful)
        self.tidings.tick(now)
        self.first_tick = min(self.first_tick, at)
        self.holds.looked()
        self.ticks.append(at)
        if len(self.ticks) > 800:
            del self.ticks[:400]

    def _taken_late(self, kept: Look, *, doubtful: bool) -> None:
        """The answer that the reader had kept to itself, and has told with the one of this tick; ``doubtful``: it came too late, perhaps."""
        self.arming.tick(kept.at, kept.seen, self.law, sure=not doubtful)
        if doubtful:
            self.arming.doubted()  # the guard may know of it, or not
            return
        self.rest.tick(kept.at, kept.seen, self.law, kept.seen, self.sights.there(self.law))
        self.ticks.append(kept.at)

    def _armed(self, before: tuple[bool, bool]) -> None:
        """The machine counts as working, perhaps or surely."""
        if self.arming.maybe > before[0]:
            self.stops.clear()
            self.holds.forgive(sure=False)
        if self.arming.maybe and not before[1]:  # it may arm now as well, and work by that count
            self.holds.forgive(sure=False)
        if self.arming.surely > before[1]:  # a request of this very tick came after that
            self._forget_stops(self.at - 1.0)

    def _forget_stops(self, until: float) -> None:
        """Work was seen, or root says so: earlier stops count no more (I9), once that is on the disk."""
        if gone := [stop for stop in self.tried_stops if stop <= until]:
            self._forgiven_stops = (self.at, gone)
        self.tried_stops = [stop for stop in self.tried_stops if stop > until]

    def _forget_vain_ones(self) -> None:
        """What certainly failed is no stop (I9)."""
        if self._in_vain:
            vain = {at for tried in self.gone.values() for at, attempt in tried if attempt in self._in_vain}
            self.tried_stops = [stop for stop in self.tried_stops if stop not in vain]
            self._in_vain.clear()

    def _period(self, now: Instant) -> None:
        """Another period of the budget begins: what was spent before is no reason any more."""
        if self.period is None:
            self.period = (
                Period(now.wall, self.law.period, self.at) if self.budget_from == self.ran + self.awake() else Period()
            )
        began, length, since = self.period
        if length != self.law.period or self.jumped > since or self.doubted > since:
            self.period = Period()  # nobody knows for sure where it begins
        if self.period.length == NEVER:
            if self.law.period < LONG:
                self.budget_from, self.budget_since = 0.0, NEVER
            elif self.budget_since == NEVER:
                self.budget_since = self.ran_stored + self.awake()
            return
        if (periods := (now.wall - began) // length) >= 1:
            self.period = self.period._replace(began=began + periods * length)
            ran = min(now.wall - self.period.began, self.at - max(self.began, self.story.world.boot_zero))
            self.budget_from = self.ran + self.awake() - ran - self.law.interval
            self.budget_since = self.ran_stored + self.awake() - max(0.0, ran - self.law.interval)

    def _with_counters(self, seen: tuple[Seen | None, ...]) -> tuple[Seen | None, ...]:
        """The same with what counters prove: one that was read in this guard's life reaches back to that, if all was quiet."""
        machine, at = self.story.machine, self.at
        lost, self._count_lost = self._count_lost, False
        if not machine.counters:
            return seen
        if lost:
            self._counted.clear()
        found: list[Seen | None] = []
        for gpu, one in enumerate(seen):
            since = self._counted.get(gpu)
            found.append(one)
            if one is None:
                continue
            self._counted[gpu] = at
            if since is not None and at - since > one[2] and not machine.hooked(since, at):
                truth = machine.history(since, at)
                if all(phase.load_of(gpu) <= IDLE_LOAD and not phase.signs for _, _, phase in truth):
                    found[-1] = (one[0], one[1], at - since)
        return tuple(found)

    def _forgive(self, at: float, before: float) -> None:
        """A minute of work forgives earlier stops and holds; for the guard's own count it must be seen for sure. ``before``: the last tick."""
        if not self.stops and not self.tried_stops and not self.holds.counts:
            return
        law = self.law._replace(together="all", tolerance=0.0)
        if self.sights.worked_before(law, law.judged, before, at + BLINK, beside_hooks=True) > before:
            self.stops.clear()
            self.holds.forgive(sure=False)
        elif self.stage != "warned" and self._sees_a_hook(law):
            self.stops.clear()  # of a countdown that was taken back: to the guard that is anybody's work
            self.holds.forgive(sure=False)
        elif self._shows_work(law, before):
            self.holds.forgive(sure=False)
        if self.rest.loud is not None and at - self.rest.loud >= 60.0 + self.law.interval:
            self.holds.forgive(sure=True)
            self._forget_stops(at - 1.0)

    def _shows_work(self, law: Terms, before: float) -> bool:
        """Whether an answer since then shows work, however long ago: a reader that begins reaches far back."""
        looks = [look for look in self.sights.looks[-5:] if look.at > before]
        return any(one is not None and is_loud(one, law) for look in looks for one in look.seen)

    def _sees_a_hook(self, law: Terms) -> bool:
        """Whether the last answer shows the load of the pre-stop hook."""
        seen = self.sights.looks[-1].seen if self.sights.looks else ()
        hooked = self.story.machine.hooked
        return any(one is not None and is_loud(one, law) and hooked(self.at - one[2], self.at) for one in seen)

    def saved(self, now: Instant, *, done: bool) -> None:
        """The state was saved."""
        self.unsaved = not done
        if done:
            self.saved_at = self.at
            self._unsaved_tags = self._unsaved_end = None

    def stored(self, now: Instant, data: dict[str, Any]) -> None:
        """The commitments are on the disk."""
        if COMMITMENTS not in self.story.world.disk:
            raise Violation("the commitments vanished")
        self.dues.stored(data["data"])
        if -1.0 < now.wall - data["data"]["wall"] < EXACT and self.configured_at < self.began:
            self.holds.stored(data["data"])
            self.extensions.stored(data["data"])
        self.stored_at = self.at
        self.stored_ran = self.ran_stored + self.awake() - 1.0
        self.stored_under = None if self.wanted else self.story.ruled
        late = now.wall - data["data"]["wall"]  # it was decided then, or the date was set meanwhile
        self.stored_of = self.at - late if -1.0 < late < EXACT else -NEVER
        seen = max((tick for tick in self.ticks[-2:] if tick <= self.at - late + BLINK), default=-NEVER)
        self.stored_dated = -1.0 < late < EXACT and max(self.jumped, self.doubted) < seen
        self.stored_ran -= late if 0.0 <= late < 3600.0 else 3600.0
        settled = self.stage in {"watching", "warned"} and not self.arming.maybe and self.at > self.anew + 300.0
        self.stored_quiet = max(0.0, self.unused() - 300.0) if settled and -1.0 < late < 5.0 else 0.0

    def unused(self) -> float:
        """For how long nobody has certainly worked, over boots."""
        unworked = max(0.0, min(self.rest.unworked(self.law, self.at), self.at - self.rest.beside))
        return unworked + (self.carried_sure if self.at - unworked <= self.first_tick else 0.0)

    # -- what the guard says ---------------------------------------------------------------------------------

    def enter(self, stage: str) -> None:
        """The guard is in another stage from now on."""
        if stage != self.stage:
            self.stage, self.stage_at = stage, self.at
        self.perhaps_gone = self.perhaps_gone and stage == "unsure"

    def started(self, now: Instant, program: str, job: dict[str, Any]) -> None:
        """A worker is to be started: what the guard wants to say or to do."""
        self.processes.started(program)
        if program == "notify":
            message = job["message"]
            if message["kind"] != "notes":  # of itself, and of no decision
                self.claims.told(now, message)
                self._tells(now, message["kind"], message["facts"], job)
        elif program == "act":
            self._works(job)
        elif program == "persist":
            self.dues.writes()
            self._writes(json.loads(job["text"]))
        elif program == "beat":
            self._beats()

    def _writes(self, kept: dict[str, Any]) -> None:
        """Commitments go to the disk: the newest ones, which the runtime directory has."""
        newest = self.story.world.runtime.get(COMMITMENTS)
        if newest is not None and not self.story.troubles.unstored and json.loads(newest) != kept:
            self.breaks("I8: commitments are written that are not the newest")

    def _beats(self) -> None:
        """A sign of life for the outside."""
        self.dues.beats()
        if not self.sights.looks or self.at - self.sights.looks[-1].at > self._answers_within:
            self.breaks("a sign of life, and the reader did not answer")

    @property
    def _answers_within(self) -> float:
        """How old a reading may be: the first one of a new reader has more time, should the guard stand still meanwhile."""
        return BLINK if self.at > self.stalled + 1.0 else 30.0 + BLINK

    def _tells(self, now: Instant, kind: str, facts: dict[str, Any], job: dict[str, Any]) -> None:
        self.counts[kind] += 1
        self.story.told(kind)
        self.letters.told(now, kind, facts)
        self.endings.told(kind, facts)
        self.incidents.told(kind, facts)
        if job["channels"] != self.story.ruled["notify"]["local"] and not self._catches_up():
            raise Violation("a message goes to the channels of another configuration")
        if kind == "warning":
            self._warns(now, facts)
        elif kind == "would_act" or (kind == "acting" and facts["action"] == "end_process"):
            again = self.incident == facts["incident"] and self.stage not in {"warned", "watching"}
            if not again and (self.law.live or self.at > self.guard_at + 1.0):  # else it was decided, and is told late
                rules.acts(self, now, facts["action"], facts["incident"], facts["reason"])
        elif kind in TOLD:
            TOLD[kind](self, facts)
        self.tidings.told(kind, facts)
        self.steps.told(kind, facts)
        self._follow(kind, facts)
        if kind in WISH_ENDS:
            self.wish = None
        self.dues.told(kind, facts)

    def _catches_up(self) -> bool:
        """Whether a guard that stood still may not have come to its new configuration yet."""
        return self.configured_at <= self.stalled and self.at < self.stalled + 2.0

    def _follow(self, kind: str, facts: dict[str, Any]) -> None:
        """The stage that a message tells of."""
        if kind in LATCHES:
            self.incident, self.reason = facts.get("incident", self.incident), facts.get("reason", self.reason)
            self.enter(LATCHES[kind])
            self.stage_at = self.at
            self.carried_out = kind == "done"
            refused = facts["incident"] in self.vetoed or self.refused.get(self.law.actions[0]) == "refuse"
            self.latched_by_plan = kind == "cannot" and refused and len(self.law.actions) == 1
        elif kind == "state_lost" and any(self.at - tried[-1][0] < ASKED_FOR for tried in self.gone.values()):
            self.enter("unsure")  # whether that request is still asked about stands in the commitments
        elif kind in ENDS or (kind == "held" and self.stage == "warned"):
            earlier = facts.get("told_again") and facts.get("incident", self.incident) != self.incident
            self.enter(self.stage if earlier else "watching")
        elif kind == "preflight_passed" and self.stage == "done":
            recent = [stop for stop in self.tried_stops if self.at - stop < DAY + 60.0]
            self.enter("watching" if self.latched_by_plan and len(recent) < 2 else "unsure")
        elif kind == "next_action":
            self.enter("warned")

    def _warns(self, now: Instant, facts: dict[str, Any]) -> None:
        incident = facts["incident"]
        if incident not in self.tried:
            due_again(self, facts["reason"])
            self._begins(now, facts["reason"])
            self.skipped[incident] = {action for action, plan in self.refused.items() if plan == "another"}
        self.incident, self.reason = incident, facts["reason"]
        self.tried.setdefault(incident, []).append(self.at)
        rules.warned_again(self, incident, facts)
        self.enter("warned")
        self.stage_at = self.at

    def tries_again(self, incident: str, *, anew: bool) -> list[float]:
        """People are to be warned; ``anew``: of a countdown that begins. Gives the attempts to warn of that."""
        goes_on = self.tries[0] == incident and not anew
        self.tries = (incident, [*self.tries[1], self.at] if goes_on else [self.at])
        return self.tries[1]

    def _begins(self, now: Instant, reason: str) -> None:
        """The reason holds now; or it held when the guard was killed as it had decided, and the next one tells it."""
        if self._catches_up():
            return  # it goes by the rules of before, which are forgotten here
        try:
            rules.begins(self, now, reason)
        except Violation:
            begun = max(self.guard_at, self.stalled)  # or could do anything
            if self.at - begun > 2.0 or not self.guard_at - 2 * self.law.interval < self.killed < self.guard_at:
                raise
            rules.begins(self, now, reason, self.killed)

    def _works(self, job: dict[str, Any]) -> None:
        action = job["action"]
        self.incidents.works(job)
        self.steps.heard(job.get("incident"))
        if job["job"] == "plan":
            self.dues.checks(action)
        elif job["job"] == "confirm":
            self.asked_about.add(job["attempt"])
            self._asked_at = self.at
        elif job["job"] == "hook":
            self.steps.begins(job)
        elif job["job"] == "act":
            rules.prepares(self, job["incident"], action, job["reason"])
            self.prepared[job["incident"], action] += 1
        if self._catches_up():
            return
        ruled = self.steps.ruled(job) if job["job"] == "hook" else self.story.ruled
        if job["mode"] != ruled["policy"]["mode"]:
            raise Violation(f"a worker is started for {job['mode']} under another policy")
        if job["job"] in {"plan", "act"}:
            if action not in self.law.actions:
                raise Violation(f"a worker is started for {action}, which is not configured")
            if job.get("settings", {}) != self.story.ruled["actions"].get(action, {}):
                raise Violation("a worker is started with settings of another configuration")

    def planned(self, now: Instant, job: dict[str, Any], verdict: str) -> None:
        """What a plan says."""
        if verdict == "refuse" and job["job"] == "plan" and not self.ever_refused:
            self.tidings.owes("preflight_refused")
        if verdict == "refuse" and job["job"] == "act":
            self._vetoes(job["incident"])
        elif job["job"] == "act":
            self.ready[job["attempt"]] = self.at
        if job["job"] == "plan":
            if verdict != "refuse" and self._plans.get(job["action"]) == "refuse":
                self.tidings.owes("preflight_passed")
            self._plans[job["action"]] = verdict
        self.refused[job["action"]] = verdict
        elsewhere = all(self.refused.get(action) in {"refuse", "another"} for action in self.law.actions)
        self.ever_refused |= verdict == "refuse" or elsewhere
        self.dues.checked(job["action"])

    def reported(self, now: Instant, job: dict[str, Any], outcome: dict[str, Any]) -> None:
        """A worker said what became of an attempt."""
        over = self.incidents.is_over(job.get("incident", ""))
        # of what a sleep has closed nobody waits for the answer: such a request counts as a stop
        if job["job"] in {"act", "confirm"} and outcome["status"] in {"refused", "failed"} and not over:
            self._in_vain.add(job["attempt"])
        if job["job"] in {"act", "confirm"} and outcome["status"] == "refused":
            self._vetoes(job["incident"])
        if job["job"] == "act" and outcome["status"] == "accepted":
            if not over:
                self.tidings.owes("accepted")
            self.accepted = (self.at, job["attempt"])
        elif job["job"] != "hook" and outcome["status"] == "done" and self.endings.is_believed(job["action"]):
            self.shown_done.add(job["attempt"])
            let_go = job["job"] == "confirm" and self.ruled_at > self._asked_at  # by a reload or a sleep
            if not over and not let_go:  # nor when the world was asked twice, and answers again
                self.tidings.owes("done")

    def _vetoes(self, incident: str) -> None:
        self.vetoed.add(incident)
        self.ever_vetoed.add(incident)

    def message(self, now: Instant, message: dict[str, Any], delivered: bool) -> None:
        """A message was or was not delivered."""
        self.story.note(f"message {message['kind']} {'delivered' if delivered else 'NOT delivered'}")
        self.tidings.delivered(message, done=delivered)
        if message["kind"] == "warning" and delivered:
            self.warned.setdefault(message["facts"]["incident"], []).append(self.at)
        elif message["kind"] == "warning":
            self.unreached = (self.at, message["facts"]["incident"])

    def said(self, now: Instant, line: str) -> None:
        """A line of the journal, for whoever reads the log of a story."""
        self.story.note(line)

    # -- what people ask -------------------------------------------------------------------------------------

    def answered(self, now: Instant, client: int, answer: bytes) -> None:
        """A person got an answer."""
        kind, uid, seconds = self.asked.pop(client, ("", 0, 0.0))
        if kind == "status":
            self.claims.status(json.loads(answer))
        else:
            self._answers(kind, uid, seconds, answer)

    def _answers(self, kind: str, uid: int, seconds: float, answer: bytes) -> None:
        """What became of a wish."""
        done = json.loads(answer).get("done") is True
        self.story.note(f"answer: {answer[:160].decode()}")
        if not done:
            self._denied(kind, uid, seconds)
            return
        if kind == "hold":
            self.holds.granted(uid, seconds)
            self.may_wish = None  # whoever holds the machine takes a stop by hand back
            self.wishes.disturbed()
            if self.stage in {"warned", "gone"}:
                self.enter("watching")
        elif kind == "extend":
            self.extensions.granted(uid, seconds)
            if self.stage == "warned" and self.reason == "deadline":
                self.enter("watching")
        elif kind == "release":
            self.holds.ended(uid)
            self.extensions.released(uid)
            if uid == 0:
                self.endings.let_go()
                self.stops.clear()
                self._forget_stops(self.at)
                if self.stage in {"done", "failed"}:
                    self.enter("watching")
                elif self.stage == "unsure":
                    self.dues.wait()
        elif kind == "stop" and self.law.live:
            self.wish = self.may_wish = self.at
        if kind == "stop":
            self.endings.let_go()
            self.enter("warned")
            self.reason = "person"
        self.wishes.answered(kind, uid, done=True)

    def _denied(self, kind: str, uid: int, seconds: float) -> None:
        """A person heard that nothing was done."""
        if kind == "hold":
            self.holds.refused(uid, seconds)
        elif kind == "extend":
            self.extensions.refused(uid)
        elif kind == "release":
            self.holds.kept(uid)
        self.wishes.answered(kind, uid, done=False)

    def troubled(self, since: float) -> bool:
        """Whether anything went wrong since then."""
        return self.story.troubles.last > since or self.stalled > since or self.guard_at > since

    # -- what the guard does ---------------------------------------------------------------------------------

    def released(self, now: Instant, job: dict[str, Any]) -> None:
        """The request goes out: every rule must hold at this moment."""
        action, incident, reason = job["action"], job["incident"], job["reason"]
        self.story.note(f"GO {action} ({reason}) for {incident}")
        self.counts[f"go {action}"] += 1
        rules.goes(self, now, job)
        if (incident, action) not in self.gone and (incident, action) not in self.incidents.acting:
            self.tidings.owes("acting")
        self.gone.setdefault((incident, action), []).append((self.at, job["attempt"]))
        self.incident, self.reason, self.went = incident, reason, self.at
        self.enter("gone")
        self.stage_at = self.at
        if action in MACHINE and reason != "person":
            self.requests.append((self.at, job["attempt"]))
            self.tried_stops.append(self.at)
            self.dates[self.at] = now.wall
            if now.synced is False:
                self.undated[self.at] = (NEVER, 0.0)
        self.story.released(action)

    def is_out(self) -> bool:
        """Whether a request is out of which nobody knows that it failed for certain."""
        tried = [entry for key, entries in self.gone.items() if key[0] == self.incident for entry in entries]
        last = max(tried, default=(0.0, ""))[1]
        status = self.story.world.results.get(last, {}).get("status")
        return self.stage == "gone" and status not in {"failed", "refused"}

    def acted(self, now: Instant, job: dict[str, Any]) -> None:
        """An action was carried out, for good."""
        self.story.note(f"ACTED {job['action']}")
        self.counts[f"acted {job['action']}"] += 1
        if job["attempt"] in self.acted_ids:
            raise Violation(f"I4: attempt {job['attempt']} was carried out twice")
        self.acted_ids.add(job["attempt"])

    def turned(self, now: Instant, until: float) -> None:
        """The loop waits: a stage that began just now is seen here."""
        self.story.look_around()


def _busier(now: Seen | None, before: Seen | None, law: Terms) -> Seen | None:
    """What an answer says with the work of one before it that no tick took, also of a GPU that it does not read."""
    if before is None:
        return now
    if now is None:
        return (before[0], before[1], 0.0) if is_loud(before, law) else None
    return max(now[0], before[0]), now[1] or before[1], now[2]
