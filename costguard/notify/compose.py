"""Titles and bodies of messages, from facts. Pure but for the time zone.

The guard sends facts, never text. All are optional: unknown keys are ignored, and a missing one
makes the text shorter, never wrong.

===================  ================================================================================
machine              name of the machine (the worker fills in the host name)
instance             id of the instance
incident             id of the incident
mode                 ``live``; anything else given is a dry run
action               ``stop``, ``terminate``, ``hibernate``, ``shutdown``, ``reboot``, ``command``, ``end_process``
reason               ``idle``, ``unused``, ``deadline``, ``unknown``, ``person``
owner                who asked for the stop or the hold
sentence             the engine's sentence: state, cause, next step
gpus                 labels of the GPUs concerned
readings             last readings: ``[label, load 0 to 1 or null, words]``
threshold, window    load (0 to 1) below which, seconds for which
stop_below_load      true when the owner lets GPUs with some load count as idle
due_in_seconds       seconds until the action; ``grace`` stands in for it in a warning
due_wall             its date, seconds since the epoch; else ``wall`` (now) plus the seconds
findings             of the plan: ``[code, text, hint]`` or an object with these keys
why                  why something was cancelled, held up or ended
hold                 the reason given for a hold
hold_seconds         how long the hold lasts, ``hold_until_wall`` its end
unknown_gpus         labels of the GPUs that cannot be read
unknown_seconds      for how long
money                estimate of what it has cost so far, in ``currency``
price_per_hour       price of the machine, in ``currency``
detail, proof        what became of an attempt, and its request id or exit code
error, hint          what failed, and what to do about it
attempts             how many attempts were made; ``retry_in_seconds`` until the next one
text, notes          free words of a notice, a list of notes
===================  ================================================================================
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from costguard.notify.words import clock, listed, money, sentence, share, span

DAY = 86400.0

LARGEST = 1e11
"""No duration, date or amount of money is larger; what is, counts as missing."""


class Text(NamedTuple):
    """What people read."""

    title: str
    body: str
    dry_run: bool


class Deed(NamedTuple):
    """How to speak of an action: whom it happens to, *to be done*, *is being done*, the noun."""

    subject: str
    base: str
    doing: str
    noun: str


DEEDS = {
    "stop": Deed("{}", "be stopped", "is being stopped", "stop"),
    "terminate": Deed("{}", "be terminated (deleted)", "is being terminated (deleted)", "termination"),
    "hibernate": Deed("{}", "be hibernated", "is being hibernated", "hibernation"),
    "shutdown": Deed("{}", "be shut down", "is being shut down", "shutdown"),
    "reboot": Deed("{}", "be rebooted", "is being rebooted", "reboot"),
    "command": Deed("the configured command on {}", "be run", "is being run", "command"),
    "end_process": Deed("costguard on {}", "end with exit code 0", "is ending with exit code 0", "end of costguard"),
}
_ANY = Deed("{}", "be acted on", "is being acted on", "action")


class Facts:
    """Facts of a message, read with care: a value of another kind counts as missing."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """Words, or nothing."""
        value = self._given.get(name)
        return value.strip() if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A number, or None."""
        return _number(self._given.get(name))

    def true(self, name: str) -> bool:
        """Whether it was said to be so."""
        return self._given.get(name) is True

    def rows(self, name: str) -> list[object]:
        """A list, or nothing."""
        value = self._given.get(name)
        return list(value) if isinstance(value, list | tuple) else []

    def names(self, name: str) -> list[str]:
        """A list of words; other members are left out."""
        return [row for row in self.rows(name) if isinstance(row, str)]

    @property
    def dry(self) -> bool:
        """Whether the message belongs to a dry run."""
        return self.text("mode") not in {"", "live"}

    @property
    def machine(self) -> str:
        """What to call the machine."""
        return self.text("machine") or self.text("instance") or "this machine"

    @property
    def ends_bill(self) -> bool:
        """Whether the action is meant to end the bill of the machine."""
        return self.text("action") in {"stop", "terminate", "hibernate", "shutdown"}

    @property
    def deed(self) -> Deed:
        """How to speak of the action."""
        return DEEDS.get(self.text("action"), _ANY)

    @property
    def subject(self) -> str:
        """Whom it happens to."""
        return self.deed.subject.format(self.machine)

    @property
    def when(self) -> str:
        """When it is due, as far as known: *at 15:40 UTC (in 10 min)*."""
        seconds, wall, now = self.number("due_in_seconds"), self.number("due_wall"), self.number("wall")
        if seconds is None:
            seconds = self.number("grace")
        if wall is None and now and seconds is not None:
            wall = now + seconds
        away = "" if seconds is None else f"in {span(seconds)}"
        if wall is None:
            return away
        at = "at " + clock(wall, with_date=seconds is None or seconds > DAY / 2)
        return f"{at} ({away})" if away else at


Lines = list[str]


def _number(value: object) -> float | None:
    """A number that can be printed: finite, and within the calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < LARGEST:
        return None
    return float(value)


def compose(kind: str, given: Mapping[str, object]) -> Text:
    """Make the text of a message. An unknown kind still gives its sentence and its words."""
    facts = Facts(given)
    dry = facts.dry or kind == "would_act"
    title, lines = _KINDS.get(kind, _other)(facts)
    lines = [*lines, *_footer(facts)]
    return Text(("DRY RUN: " if dry else "") + title, "\n".join(line for line in lines if line), dry)


def _warning(facts: Facts) -> tuple[str, Lines]:
    deed, when = facts.deed, facts.when
    verb = "would" if facts.dry else "will"
    hold = "To postpone it: `costguard hold 2h` on this machine."
    if facts.dry:
        hold = "Nothing will happen: mode is dry-run. In live mode `costguard hold 2h` would postpone it."
    return f"{facts.subject} {verb} {deed.base} {when}".rstrip(), [
        *_cause(facts),
        hold,
        _price(facts),
        *_findings(facts, hints=False),
    ]


def _cancelled(facts: Facts) -> tuple[str, Lines]:
    why = facts.text("why") or facts.text("detail")
    title = f"the announced {facts.deed.noun} is cancelled on {facts.machine}"
    return title, [sentence(why), "Nothing was done. A new one would be announced again."]


def _would_act(facts: Facts) -> tuple[str, Lines]:
    closing = 'Nothing was done: mode is dry-run. To let costguard act: `mode = "live"` in the configuration.'
    return f"{facts.subject} would {facts.deed.base} now", [
        *_cause(facts),
        closing,
        _price(facts),
        *_findings(facts, hints=False),
    ]


def _acting(facts: Facts) -> tuple[str, Lines]:
    title = f"{facts.subject} would {facts.deed.base} now" if facts.dry else f"{facts.subject} {facts.deed.doing} now"
    return title, [*_cause(facts), *_findings(facts, hints=False)]


def _accepted(facts: Facts) -> tuple[str, Lines]:
    title = f"accepted: {facts.deed.noun} of {facts.machine}"
    if facts.text("action") in {"command", "end_process"}:
        title = f"accepted: {facts.deed.noun} on {facts.machine}"
    open_end = "Accepted is not confirmed: only from outside can be seen whether the bill ended."
    return title, [*_fate(facts), *_findings(facts, hints=False), open_end if facts.ends_bill else ""]


def _done(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.subject}: {facts.deed.noun} done", _fate(facts)


def _cannot(facts: Facts) -> tuple[str, Lines]:
    if facts.dry:
        tail = "; the bill would go on" if facts.ends_bill else ""
        return f"{facts.subject} could not {facts.deed.base}{tail}", _refusal(facts)
    tail = "; the bill goes on" if facts.ends_bill else ""
    return f"{facts.subject} cannot {facts.deed.base}{tail}", _refusal(facts)


def _refusal(facts: Facts) -> Lines:
    check = "" if facts.rows("findings") or facts.text("hint") else "What stands in the way: `costguard status`."
    return [*_fate(facts), *_findings(facts, hints=True), *_cause(facts), check, _price(facts)]


def _failed(facts: Facts) -> tuple[str, Lines]:
    attempts, retry = facts.number("attempts"), facts.number("retry_in_seconds")
    count = f" ({attempts:.0f} attempts so far)" if attempts and attempts > 1 else ""
    again = f"The next attempt is in {span(retry)}." if retry is not None else "Somebody has to look at it."
    tail = "; the bill goes on" if facts.ends_bill else ""
    title = f"{facts.subject}: {facts.deed.noun} failed{count}{tail}"
    return title, [*_fate(facts), again, *_findings(facts, hints=True), _price(facts)]


def _unknown_alarm(facts: Facts) -> tuple[str, Lines]:
    seconds, cost = facts.number("unknown_seconds"), facts.number("money")
    since = f" for {span(seconds)}" if seconds is not None else ""
    which = listed(facts.names("unknown_gpus"))
    return f"GPUs of {facts.machine} cannot be read{since}; nothing is stopped meanwhile", [
        sentence(f"unreadable: {which}" if which else ""),
        "What cannot be seen does not count as idle, so the machine stays up and is billed.",
        "" if cost is None else f"That has cost {money(cost, facts.text('currency'))} so far.",
        "Look at `costguard status` and `nvidia-smi`; stop the machine by hand if nobody needs it.",
    ]


def _unknown_recovered(facts: Facts) -> tuple[str, Lines]:
    seconds = facts.number("unknown_seconds")
    after = f" after {span(seconds)}" if seconds is not None else ""
    return f"GPUs of {facts.machine} can be read again{after}", ["The rules apply again."]


def _held(facts: Facts) -> tuple[str, Lines]:
    owner, reason, seconds = facts.text("owner"), facts.text("hold"), facts.number("hold_seconds")
    by = f" by {owner}" if owner else ""
    until = facts.number("hold_until_wall")
    end = f" until {clock(until, with_date=(seconds or DAY) > DAY / 2)}" if until is not None else ""
    length = f" for {span(seconds)}" if seconds is not None and not end else ""
    return f"{facts.machine} is held{by}{end or length}", [
        sentence(f"reason given: {reason}" if reason else ""),
        "Nothing is stopped until the hold ends. To end it now: `costguard release`.",
        _price(facts),
    ]


def _hold_ended(facts: Facts) -> tuple[str, Lines]:
    owner, reason = facts.text("owner"), facts.text("hold")
    of = f" of {owner}" if owner else ""
    why = f"It was held because: {reason}" if reason else ""
    return f"the hold{of} on {facts.machine} has ended", [
        sentence(why),
        "The rules apply again; a stop would be announced first. To hold again: `costguard hold 2h`.",
    ]


def _notice(facts: Facts) -> tuple[str, Lines]:
    when = f" {facts.when}" if facts.number("due_in_seconds") is not None else ""
    closing = "This is the cloud's decision; a hold does not postpone it. Save your work."
    return f"the cloud takes {facts.machine} away{when}", [sentence(facts.text("text")), closing]


def _notes(facts: Facts) -> tuple[str, Lines]:
    notes = [note for note in (facts.text("text"), *facts.names("notes")) if note]
    return f"something to know about costguard on {facts.machine}", [f"- {note}" for note in notes]


def _other(facts: Facts) -> tuple[str, Lines]:
    return f"costguard on {facts.machine}", [facts.text("text"), *_fate(facts)]


_KINDS: dict[str, Callable[[Facts], tuple[str, Lines]]] = {
    "warning": _warning,
    "cancelled": _cancelled,
    "would_act": _would_act,
    "acting": _acting,
    "accepted": _accepted,
    "done": _done,
    "cannot": _cannot,
    "failed": _failed,
    "unknown_alarm": _unknown_alarm,
    "unknown_recovered": _unknown_recovered,
    "held": _held,
    "hold_ended": _hold_ended,
    "notice": _notice,
    "notes": _notes,
}


def _cause(facts: Facts) -> Lines:
    """Why: the reason, the last readings, and the switch that makes load count as idle."""
    lowered = ""
    if facts.true("stop_below_load"):
        threshold = facts.number("threshold")
        limit = f" below {share(threshold)}" if threshold is not None else ""
        lowered = f"stop_below_load is set: GPUs with load{limit} count as idle although they may be working."
    return [sentence(_reason(facts)), sentence(_readings(facts)), lowered]


def _reason(facts: Facts) -> str:
    reason, owner = facts.text("reason"), facts.text("owner")
    gpus = listed(facts.names("gpus")) or "the GPUs"
    threshold, window = facts.number("threshold"), facts.number("window")
    during = f" for {span(window)}" if window is not None else ""
    below = f" below {share(threshold)}" if threshold is not None else " too low"
    return {
        "idle": f"why: idle after work; load{below}{during} on {gpus}",
        "unused": f"why: no work since boot{during} on {gpus}",
        "deadline": "why: the deadline (lifetime, lease or budget) has come",
        "unknown": "why: the GPUs could not be read for too long, while nobody seemed to use the machine",
        "person": f"why: {owner or 'somebody'} asked for it",
    }.get(reason, "")


def _readings(facts: Facts) -> str:
    shown = []
    for row in facts.rows("readings"):
        if not isinstance(row, list | tuple) or not row or not isinstance(row[0], str):
            continue
        load = _number(row[1]) if len(row) > 1 else None
        words = row[2] if len(row) > 2 and isinstance(row[2], str) else ""
        value = "unknown" if load is None else share(load)
        shown.append(f"{row[0]} {value}" + (f" ({words})" if words else ""))
    return f"last readings: {listed(shown)}" if shown else ""


def _findings(facts: Facts, *, hints: bool) -> Lines:
    """What the plan says about bill, work and disks; hints where somebody has to do something."""
    lines = []
    for row in facts.rows("findings"):
        parts = [row.get(key) for key in ("code", "text", "hint")] if isinstance(row, Mapping) else row
        if not isinstance(parts, list | tuple) or len(parts) < 2 or not parts[1]:
            continue
        hint = parts[2] if hints and len(parts) > 2 and parts[2] else ""
        lines.append(f"- {sentence(str(parts[1]))}" + (f" What to do: {sentence(str(hint))}" if hint else ""))
    return lines


def _fate(facts: Facts) -> Lines:
    """What became of it, its proof, and what to do."""
    proof, hint = facts.text("proof"), facts.text("hint")
    said = [sentence(facts.text(name)) for name in ("error", "detail", "why")]
    return [*dict.fromkeys(said), f"Proof: {proof}." if proof else "", sentence(f"what to do: {hint}" if hint else "")]


def _price(facts: Facts) -> str:
    price = facts.number("price_per_hour")
    return "" if price is None else f"The machine costs {money(price, facts.text('currency'))} an hour."


def _footer(facts: Facts) -> Lines:
    """How it stands, and the names under which it can be found again."""
    instance, incident = facts.text("instance"), facts.text("incident")
    names = [f"instance {instance}" if instance else "", f"incident {incident}" if incident else ""]
    return [sentence(facts.text("sentence")), sentence(", ".join(name for name in names if name))]
