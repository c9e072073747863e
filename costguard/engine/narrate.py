"""The one sentence of a tick: state, cause, next step."""

from collections.abc import Sequence

from costguard.engine import deadline, obstacles
from costguard.engine.deadline import Situation
from costguard.engine.idleness import weak_sign_alone
from costguard.engine.pre_stop_hook import hook_works
from costguard.engine.reasons import DEADLINE, OWN_REASONS, Reason, earliest, reason_of, veto_words
from costguard.engine.rules import Rules
from costguard.engine.standstill import unmatched_names
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, OPEN, WARNING, Incident, State
from costguard.engine.turn import action_of, label
from costguard.engine.window import NEVER, Track
from costguard.engine.wording import WATCHES, ActionWording, wording_of
from costguard.engine.words import clock, clock_ahead, duration, percent, several

QUIET_THRESHOLD_LIMIT = 0.05
"""The highest threshold below which a GPU is called quiet."""

STARTING = "STARTING"
"""The one state that is over by time alone."""

ON_DONE = {
    "acted": "{ended}",
    "would": "DRY RUN: {word} would have been carried out",
    "cannot": "{word} cannot be carried out",
    "unknown": "the outcome of {word} is unknown; it is not retried",
}
"""How an incident ended, by its code; see `was_done`."""


def was_done(done: str, action: str) -> str:
    """How an incident ended whose last action is this."""
    wording = wording_of(action)
    return ON_DONE[done].format(word=wording.word, ended=wording.ended or f"{wording.word} was carried out")


def status_word(state: State, rules: Rules) -> str:
    """What people call the state: the phases, and STARTING, IDLE, ARMED and HELD, derived from facts."""
    core = state.core
    if core.phase != "WATCHING":
        return core.phase
    if core.people.holds or core.notice.due is not None or obstacles.forbidden(core, rules):
        return "HELD"
    if not state.gpus or obstacles.in_boot_grace(state, rules):
        return STARTING
    armed = core.signals.armed_at is not None or rules.policy.arm_duration is None
    return "ARMED" if armed else "IDLE"


class Sentence:
    """Rendered only when somebody looks: ``str()`` gives the line, ``key`` what makes it another one."""

    __slots__ = ("_rules", "_state", "_wall")

    def __init__(self, state: State, rules: Rules, wall: float) -> None:
        self._state = state
        self._rules = rules
        self._wall = wall

    @property
    def word(self) -> str:
        """The state in one word, as `status_word` gives it."""
        return status_word(self._state, self._rules)

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for two sentences that differ in numbers only; a new key is worth a log line."""
        core = self._state.core
        return (self.word, core.ending.done, self._cause()[0], *(hold.owner for hold in core.people.holds))

    def __str__(self) -> str:
        return f"{self.word}: {self._cause()[1]}; {self._next()}."

    def _at(self, boot: float) -> str:
        """A moment of the boot clock as the local time of day, with its date when that is not near."""
        return clock(self._wall + boot - self._state.at, self._wall)

    def _cause(self) -> tuple[str, str]:
        """What is seen, as (code, words)."""
        state, core = self._state, self._state.core
        if not state.gpus:
            return "none", "no GPU has been read yet"
        if core.selection.unmatched:
            return "lacking " + " ".join(core.selection.unmatched), unmatched_names(core, state.gpus)
        # what the action does not go by blocks nothing, and is not named
        judged = [(state.gpus[i], state.tracks[i]) for i in core.selection.judged]
        return self._unread(judged) or self._works(judged) or self._vetoed() or ("quiet", self._quiet(judged))

    def _unread(self, judged: Sequence[tuple[str, Track]]) -> tuple[str, str] | None:
        unknown = [label(self._state.core, key) for key, track in judged if track.unknown_since is not None]
        if not unknown:
            return None
        return "unknown " + " ".join(unknown), f"{_some(unknown)} cannot be read{self._despite()}"

    def _works(self, judged: Sequence[tuple[str, Track]]) -> tuple[str, str] | None:
        core, rules = self._state.core, self._rules
        mean = core.signals.mean
        if rules.judges_mean and mean is not None and mean.unknown_since is None:
            return self._mean(mean)
        busy = [label(core, key) for key, track in judged if track.busy]
        if busy and weak_sign_alone(core) is not None:
            shows = "shows" if len(busy) == 1 else "show"
            return "weak " + " ".join(busy), f"{_some(busy)} {shows} only a weak sign of work, and no load"
        if busy and (not rules.judges_any or len(busy) == len(judged)):
            return "works " + " ".join(busy), f"{_some(busy)} {'is' if len(busy) == 1 else 'are'} busy"
        return None

    def _vetoed(self) -> tuple[str, str] | None:
        vetoes = [veto for veto in obstacles.heeded(self._state, self._rules) if not veto.hatch]  # told as HELD
        if not vetoes:
            return None
        more = f" (and {len(vetoes) - 1} more)" if vetoes[0].sense and len(vetoes) > 1 else ""
        return f"veto {vetoes[0].source} {vetoes[0].reason}", veto_words(vetoes[0]) + more

    def _mean(self, mean: Track) -> tuple[str, str]:
        limit = percent(self._rules.quiet_threshold)
        if mean.busy:
            return "works mean", f"the mean of the GPUs is not below {limit}"
        return "quiet", f"the mean of the GPUs is below {limit} for {duration(self._state.at - mean.since)}"

    def _quiet(self, judged: Sequence[tuple[str, Track]]) -> str:
        """Which GPUs are quiet, and for how long all of them have been."""
        state, quiet = self._state, [(key, track) for key, track in judged if not track.busy]
        since = max((track.since for _key, track in quiet), default=state.at)
        everything = len(quiet) == len(state.gpus)
        which = _all(len(quiet)) if everything else _some([label(state.core, key) for key, _track in quiet])
        aside = " (the pre-stop hook aside)" if hook_works(state.core, state.at) else ""
        return f"{which} {below(self._rules)} for {duration(state.at - since)}{aside}"

    def _despite(self) -> str:
        """For how long a GPU has been unknown; and that this keeps the machine up, unless a date is what it goes by."""
        incident, since = self._state.core.incident, self._state.core.signals.unknown_since
        dated = incident is not None and reason_of(incident).by_date and self._state.core.phase in OPEN
        lasted = "" if since is None else f" for {duration(self._state.at - since)}"
        return f"{lasted}, and {'the deadline has passed' if dated else 'unknown is never idle'}"

    def _next(self) -> str:
        """What would happen when, and who can change it."""
        core, rules = self._state.core, self._rules
        wording = wording_of(action_of(core.incident, rules))
        action, detail = wording.word, _brief(core.incident.detail if core.incident else "")
        if core.phase == WARNING:
            return self._countdown(action)
        if core.phase == ACTING:
            return f"{action} was requested and is under way"
        if core.phase == CONFIRMING:
            return f"{action} was requested; {'checking the outcome' if detail else 'waiting for confirmation'}"
        if core.phase == FAILED:
            bill = "THE BILL GOES ON; " if wording.ends_bill else ""
            return f"{action} FAILED{_in_brackets(detail)}; {bill}{self._after_failure()}"
        if core.phase == DONE:
            done = was_done(core.ending.done, action_of(core.incident, rules))
            after = wording.after if core.ending.done == "acted" and not detail else WATCHES
            return f"{done}{_in_brackets(detail)}; {after}"
        if obstacle := obstacles.obstacle(core, rules):
            held = core.people.holds and core.notice.due is None and not obstacles.forbidden(core, rules)
            end = self._wall + max([hold.until for hold in core.people.holds], default=0.0) - self._state.at
            return obstacle + (f" until {clock_ahead(end, self._wall)}" if held else "")
        return self._outlook(wording)

    def _kept_until(self, situation: Situation) -> str:
        """What would end it, where what senses see is all that keeps the machine up; else empty."""
        state, rules = self._state, self._rules
        vetoes = obstacles.heeded(state, rules)
        due = any(r.heeds_vetoes and r.applies(rules.policy) and r.at(situation) <= state.at for r in OWN_REASONS)
        if not vetoes or not due:
            return ""
        ends = f"{vetoes[0].source} can be seen" if vetoes[0].unknown else vetoes[0].lets_go
        dated = earliest(DEADLINE, situation) if DEADLINE.applies(rules.policy) else NEVER
        date = f"{self._at(dated)} ({DEADLINE.outlook(rules.policy)})" if dated != NEVER else ""
        until = " or ".join(filter(None, (ends, date)))
        return f"kept up until {until}" if until else "kept up"

    def _after_failure(self) -> str:
        core = self._state.core
        person = core.incident is not None and core.incident.by_person
        then = "given up: run `costguard stop` again" if person else f"next try at {self._at(core.ending.retry_at)}"
        return then + (f" (held by {core.people.holds[-1].owner})" if core.people.holds else "")

    def _countdown(self, action: str) -> str:
        core, rules = self._state.core, self._rules
        incident = core.incident
        would = action if rules.policy.mode == "live" else f"DRY RUN: {action} would come"
        if incident is None or incident.warned is None:
            return f"{being_warned(incident, rules)}; {would} {_later(rules, 'after that')}"
        if incident.by_person:
            soon = (
                f"{action} failed{_in_brackets(_brief(incident.detail))} and will be retried"
                if incident.attempt.failures
                else f"{would} as soon as it is ready"
            )
            return f"{incident.owner} asked for it: {soon}; `costguard hold 2h` cancels it"
        due = obstacles.due_at(core, rules)
        left = due - self._state.at
        stops_work = reason_of(incident).by_date and rules.policy.stop_busy
        if left <= 0 and incident.attempt.failures:
            unless = "" if stops_work else " unless work is seen"
            return f"{action} failed{_in_brackets(_brief(incident.detail))} and will be retried{unless}"
        unseen = [veto.source for veto in obstacles.heeded(self._state, rules) if veto.unknown]
        sight = awaited(reason_of(incident), unseen, dark=core.signals.unknown_since is not None)
        when = countdown_end(left, f"in {duration(left)}, at {self._at(due)}", sight)
        nobody = (
            f"; {unreached(incident.announcement.attempts, incident.announcement.reached)}"
            if incident.announcement.exhausted
            else ""
        )
        if hook_works(core, self._state.at):
            over = incident.hook_ended is not None
            saves = (
                "the pre-stop hook has finished, and the GPUs are settling"
                if over
                else "the pre-stop hook is saving work"
            )
            nobody += f"; {saves}: its own use of the GPUs does not end the countdown"
        if not rules.policy.grace:
            return f"{would} {when}{nobody}"  # nobody is given the time for anything
        work = "" if stops_work else f"{_end(rules, 'work returns')} or "
        holder = "somebody" if core.people.charged < rules.policy.hold_total else "root"
        return f"{would} {when}, unless {work}{holder} runs `costguard hold 2h`{nobody}"

    def _outlook(self, wording: ActionWording) -> str:
        state, rules, core = self._state, self._rules, self._state.core
        policy, action = rules.policy, wording.word
        situation = Situation(state, rules, self._wall, core.clocks.synced)
        times = [(earliest(reason, situation), reason) for reason in OWN_REASONS if reason.applies(policy)]
        would = "" if policy.mode == "live" else "DRY RUN: "
        for at, reason in times:
            # it waits for the end of the work
            if at == NEVER and reason.at(situation) <= state.at and not reason.heeds_vetoes:
                words = f"{reason.outlook(policy)} has passed; {would}warning once no work was seen for"
                return f"{words} {duration(deadline.work_over_seconds(rules))}, {action} {_later(rules, 'later')}"
        if kept := self._kept_until(situation):
            return f"{kept}, then {would}warning and {action} {_later(rules, 'later')}"
        at, reason = min(times, key=lambda one: one[0])  # of several at once, the one that takes precedence
        at = max(at, obstacles.may_warn_at(core, rules))
        if at == NEVER:
            if weak_sign_alone(core) is not None:
                return f"it may be hidden work, so {wording.no}; {action} needs {duration(policy.kill_duration)} without it"
            if any(t.busy and t.unknown_since is None for t in state.tracks):
                return f"work is never stopped; {action} needs {duration(policy.kill_duration)} below {percent(rules.quiet_threshold)}"
            if core.selection.unmatched:
                return f"{wording.no} until every name in gpu_devices matches a GPU"
            if (
                core.signals.unknown_since is not None
                or core.signals.armed_at is not None
                or policy.arm_duration is None
            ):
                return f"{wording.no} until every GPU can be read"
            share = percent(policy.arm_threshold)
            return (
                f"waiting for load above {share} for {duration(policy.arm_duration or 0.0)}; until then {wording.none}"
            )
        later, end = _later(rules, "later"), _end(rules, "work is seen")
        soon, why = f"at {self._at(at)}" if at > state.at else "now", reason.outlook(policy)
        if reason.heeds_vetoes and obstacles.heeded(state, rules):  # nobody knows how long they last
            soon, why = f"{soon} at the earliest", f"{why}, and nothing else keeps it up"
        unless = "" if reason.by_date and policy.stop_busy else f", unless {end}"
        return f"{would}warning {soon} ({why}), {action} {later}{unless}"


def being_warned(incident: Incident | None, rules: Rules) -> str:
    """How far the warning of a countdown has come that waits for it."""
    if incident is None or (incident.announcement.attempts <= 1 and incident.announcement.effect):
        return "the warning is being sent"
    return f"the warning has reached nobody yet (try {incident.announcement.attempts} of {rules.policy.warn_attempts})"


DETAIL_CHARACTERS = 200
"""Of what an action said, in a sentence; all of it stands in the message and in the story."""


def _in_brackets(words: str) -> str:
    """What may be said of something beside it; nothing where nobody knows more."""
    return f" ({words})" if words else ""


def _brief(detail: str) -> str:
    """The beginning and the end of a long text: what was done, and what came of it."""
    if len(detail) <= DETAIL_CHARACTERS:
        return detail
    half = DETAIL_CHARACTERS // 2
    return f"{detail[:half].rstrip()} … {detail[-half:].lstrip()}"


def awaited(reason: Reason, unseen: Sequence[str], *, dark: bool) -> str:
    """What must be seen before this reason may act: GPUs, where some are ``dark``, and what these senses cannot see; else empty."""
    gpus = ["every GPU can be read"] if dark and reason.needs_quiet else []
    senses = [f"{_some(list(dict.fromkeys(unseen)))} can be seen"] if unseen and reason.heeds_vetoes else []
    return " and ".join(gpus + senses)


def countdown_end(left: float, when: str, sight: str) -> str:
    """When the action of a countdown comes that has so many seconds left; ``sight`` is what `awaited` says."""
    if left > 0:
        return f"{when}, if {sight} by then" if sight else when
    return f"once {sight}" if sight else "as soon as it is ready"


def unreached(tries: int, only: str = "") -> str:
    """What follows where nobody got the warning, or ``only`` who sits at a terminal of a machine that has channels beyond it."""
    who = f"only {only} took the warning" if only else "the warning reached nobody"
    return f"{who} in {several(tries, 'try', 'tries')}; the countdown goes on anyway"


def below(rules: Rules) -> str:
    """``quiet`` where that word means what it promises (almost no load, and no sign of work); else the load itself."""
    return (
        "quiet"
        if rules.heeds_signs and rules.quiet_threshold <= QUIET_THRESHOLD_LIMIT
        else f"below {percent(rules.quiet_threshold)}"
    )


def _later(rules: Rules, words: str) -> str:
    """``10m later``; without a warning time ``at once``."""
    return f"{duration(rules.policy.grace)} {words}" if rules.policy.grace else "at once"


def _end(rules: Rules, words: str) -> str:
    """What would end a countdown; ``words`` where the work of any one GPU does."""
    mean = f"the mean of the GPUs reaches {percent(rules.quiet_threshold)}"
    return {"mean": mean, "any": "every GPU is busy"}.get(rules.policy.judges, words)


def _all(count: int) -> str:
    """``the GPU``, ``both GPUs``, ``all 8 GPUs``."""
    return {1: "the GPU", 2: "both GPUs"}.get(count, f"all {count} GPUs")


def _some(names: list[str]) -> str:
    """``GPU 0``, ``GPU 0 and GPU 1``, ``GPU 0, GPU 1 and 6 more``."""
    short = [name.partition(" (")[0] for name in names]
    if len(short) <= 2:
        return " and ".join(short)
    return f"{short[0]}, {short[1]} and {len(short) - 2} more"
