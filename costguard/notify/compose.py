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
hold                 the reason given for a hold; ``released`` when ``owner`` ended it
hold_seconds         how long the hold lasts, ``hold_until_wall`` its end
holders              who else holds it still; ``hold_left`` seconds of hold that users have left
unknown_gpus         labels of the GPUs that cannot be read
unknown_seconds      for how long
lacking              which names of `gpu_devices` fit no GPU, and which there are
sign, weak_seconds   the only sign of work that ``gpu`` shows, and for how long it has been the only one
money                estimate of what it has cost so far, in ``currency``
price_per_hour       price of the machine, in ``currency``
price                what the cloud says: ``amount``, ``currency``, ``date``, ``source``, ``region``, ``kind``
detail, proof        what became of an attempt, and its request id or exit code
receipt              what `costguard stop --verify` takes, one line of JSON
error, hint          what failed, and what to do about it
unreached_tries      how often a warning was tried that nobody got
attempts             how many attempts were made; ``retry_in_seconds`` until the next one
text, notes          free words of a notice, a list of notes
change               what the cloud announces: ``reboot``, ``freeze``; anything else: it takes the machine away
done                 in a reminder: ``cannot``, ``unknown``; anything else: failed
acted                true when an action was asked for before the machine came back
off_seconds          how long the machine was off, from ``stopped_wall`` to ``started_wall``
saved                estimate of what it would have cost meanwhile, in ``currency``
===================  ================================================================================
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from costguard.engine.reasons import REASONS
from costguard.engine.state import PERSON
from costguard.notify.facts import DAY, Facts, number
from costguard.notify.price import price
from costguard.notify.words import clock, listed, money, sentence, share, span

WHY = {reason.name: reason.why for reason in REASONS}


class Text(NamedTuple):
    """What people read."""

    title: str
    body: str
    dry_run: bool


Lines = list[str]


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
    if facts.number("hold_left") == 0.0:
        hold = "Only root can postpone it, with `costguard hold 2h`: the holds of users add up to the limit."
    if facts.dry:
        hold = "Nothing will happen: mode is dry-run. In live mode `costguard hold 2h` would postpone it."
    if facts.number("grace") == 0.0:
        hold = "Nobody has the time to postpone it: grace is 0."
        if facts.dry:
            hold = "Nothing will happen: mode is dry-run. In live mode nobody would have the time to postpone it: grace is 0."
    return f"{facts.subject} {verb} {deed.base} {when}".rstrip(), [
        *_cause(facts),
        hold,
        _price(facts),
        *_findings(facts, hints=False),
    ]


def _cancelled(facts: Facts) -> tuple[str, Lines]:
    why = facts.text("why") or facts.text("detail")
    if facts.text("reason") == PERSON:
        title = f"the {facts.deed.noun} of {facts.machine} that {_asker(facts)} asked for is taken back"
        return title, [sentence(why), "Nothing was done. To stop it all the same: `costguard stop`."]
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
    return title, [*_cause(facts), *_findings(facts, hints=False), *_receipt(facts)]


def _accepted(facts: Facts) -> tuple[str, Lines]:
    title = f"accepted: {facts.deed.noun} of {facts.machine}"
    if facts.text("action") in {"command", "end_process"}:
        title = f"accepted: {facts.deed.noun} on {facts.machine}"
    open_end = "Accepted is not confirmed: only from outside can be seen whether the bill ended."
    open_end = open_end if facts.ends_bill else ""
    return title, [*_fate(facts), *_findings(facts, hints=False), open_end, *_receipt(facts)]


def _stopping(facts: Facts) -> tuple[str, Lines]:
    open_end = "Seen stopping is not closed: the next start, or `costguard stop --verify`, says when the bill ended."
    return f"seen stopping: {facts.machine}", [*_fate(facts), open_end if facts.ends_bill else "", *_receipt(facts)]


def _done(facts: Facts) -> tuple[str, Lines]:
    if facts.text("error").startswith("closed"):  # the last grade of proof, with what the cloud shows
        return f"closed: {facts.deed.noun} of {facts.machine}", _fate(facts)
    return f"{facts.subject}: {facts.deed.noun} done", _fate(facts)


def _cannot(facts: Facts) -> tuple[str, Lines]:
    if facts.dry:
        tail = "; the bill would go on" if facts.ends_bill else ""
        return f"{facts.subject} could not {facts.deed.base}{tail}", _refusal(facts)
    tail = "; the bill goes on" if facts.ends_bill else ""
    return f"{facts.subject} cannot {facts.deed.base}{tail}", _refusal(facts)


def _refusal(facts: Facts) -> Lines:
    findings = _findings(facts, hints=True)
    check = "" if findings or facts.text("hint") else "What stands in the way: `costguard status`."
    return [*(findings or _fate(facts)), *_cause(facts), check, _price(facts)]


def _preflight_refused(facts: Facts) -> tuple[str, Lines]:
    tail = "; the bill would go on" if facts.ends_bill else ""
    return f"{facts.subject} could not {facts.deed.base} if it came to that{tail}", _refusal(facts)


def _preflight_passed(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.subject} can {facts.deed.base} again if it comes to that", []


def _failed(facts: Facts) -> tuple[str, Lines]:
    attempts, retry = facts.number("attempts"), facts.number("retry_in_seconds")
    count = f" ({attempts:.0f} attempts so far)" if attempts and attempts > 1 else ""
    again = f"The next attempt is in {span(retry)}." if retry is not None else "Somebody has to look at it."
    if facts.text("reason") == PERSON:
        again = (
            f"It is given up: {_asker(facts)} asked for it, and nothing is tried again. To try again: `costguard stop`."
        )
    tail = "; the bill goes on" if facts.ends_bill else ""
    title = f"{facts.subject}: {facts.deed.noun} failed{count}{tail}"
    return title, [*_fate(facts), again, *_findings(facts, hints=True), _price(facts)]


def _next_action(facts: Facts) -> tuple[str, Lines]:
    title = f"the action before failed; next on {facts.machine}: {facts.deed.noun}"
    return title, [*_fate(facts), *_findings(facts, hints=False), _price(facts)]


def _outcome_unknown(facts: Facts) -> tuple[str, Lines]:
    advice = "It is not repeated. Look in the cloud's console whether the machine is still billed."
    title = f"{facts.subject}: nobody can tell what became of the {facts.deed.noun}"
    return title, [*_fate(facts), advice, *_receipt(facts), _price(facts)]


def _asking(facts: Facts) -> tuple[str, Lines]:
    advice = "costguard asks what became of it, and repeats nothing until that is known."
    title = f"{facts.subject}: nobody can tell yet what became of the {facts.deed.noun}"
    return title, [*_fate(facts), advice, *_receipt(facts)]


def _reminder(facts: Facts) -> tuple[str, Lines]:
    cost = facts.number("money")
    state = {
        "unknown": f"nobody can tell what became of the {facts.deed.noun}",
        "cannot": f"the {facts.deed.noun} is still not possible",
    }.get(facts.text("done"), f"the {facts.deed.noun} has still not been done")
    return f"{facts.machine}: {state}", [
        *_fate(facts),
        "" if cost is None else f"That has cost {money(cost, facts.text('currency'))} so far.",
        "Somebody has to look at it: `costguard status`.",
        *_findings(facts, hints=True),
        _price(facts),
    ]


def _deadline_passed(facts: Facts) -> tuple[str, Lines]:
    return f"the deadline of {facts.machine} has passed, and it is still in use", [
        "It is not stopped while work is seen. With `deadline.stop_busy = true` it would be.",
        _price(facts),
    ]


def _came_back(facts: Facts) -> tuple[str, Lines]:
    done = "What was asked for is closed as: stopped and came back."
    if not facts.true("acted"):
        done = "What was announced is dropped; a new one would be announced again."
        if facts.text("reason") == PERSON:
            done = f"The {facts.deed.noun} that {_asker(facts)} asked for is taken back. To stop it all the same: `costguard stop`."
    return f"{facts.machine} was suspended and came back", [done]


def _closed(facts: Facts) -> tuple[str, Lines]:
    off, proof, saved = facts.number("off_seconds"), facts.text("proof"), facts.number("saved")
    stopped, started = facts.number("stopped_wall"), facts.number("started_wall")
    away = f"It was off, or starting, for {span(off)}" if off is not None and off > 0 else ""
    if away and stopped is not None and started is not None:
        away += f": last seen {clock(stopped, with_date=True)}, started {clock(started, with_date=True)}"
    estimate = "" if saved is None else f"Not spent meanwhile: {money(saved, facts.text('currency'))} (an estimate)."
    lines = [sentence(away), estimate, _price(facts) if estimate else "", f"Proof: {proof}." if proof else ""]
    return f"closed: {facts.machine} has started again", lines


def _state_lost(facts: Facts) -> tuple[str, Lines]:
    return f"costguard on {facts.machine} lost what it remembered of this start of the machine", [
        "It watches from the beginning: work has to be seen, or the time of an unused machine to pass, before it stops anything.",
        "Holds and deadlines are kept apart from that. See with `costguard status` that yours still stand; its log says what was lost.",
    ]


def _asker(facts: Facts) -> str:
    return facts.text("owner") or "somebody"


def _unknown_alarm(facts: Facts) -> tuple[str, Lines]:
    seconds, cost = facts.number("unknown_seconds"), facts.number("money")
    since = f" for {span(seconds)}" if seconds is not None else ""
    which, lacking = listed(facts.names("unknown_gpus")), facts.text("lacking")
    title = f"GPUs of {facts.machine} cannot be read{since}; nothing is stopped meanwhile"
    if lacking and not which:
        title = f"the configuration names a GPU that {facts.machine} does not have; nothing is stopped meanwhile"
    return title, [
        sentence(f"unreadable: {which}" if which else ""),
        sentence(_unreadable(facts)),
        sentence(f"{lacking}: correct `gpu_devices`" if lacking else ""),
        "What cannot be seen does not count as idle, so the machine stays up and is billed.",
        "" if cost is None else f"That has cost {money(cost, facts.text('currency'))} so far.",
        "Look at `costguard status` and `nvidia-smi`; stop the machine by hand if nobody needs it.",
    ]


def _weak_sign(facts: Facts) -> tuple[str, Lines]:
    seconds, cost, sign = facts.number("weak_seconds"), facts.number("money"), facts.text("sign")
    during = f" for {span(seconds)}" if seconds is not None else ""
    return f"one weak sign alone keeps {facts.machine} up{during}", [
        sentence(f"{facts.text('gpu') or 'a GPU'}: {sign}" if sign else ""),
        "Nothing else shows work, and no GPU has load. That may be work that is hard to see, so the machine stays up and is billed.",
        "" if cost is None else f"That has cost {money(cost, facts.text('currency'))} so far.",
        "If nobody works there: `costguard stop`, and see with `nvidia-smi` what holds the GPU.",
    ]


def _unreadable(facts: Facts) -> str:
    """What the readers say about the GPUs that cannot be read, each reason once."""
    rows = [row for row in facts.rows("readings") if isinstance(row, list | tuple) and len(row) > 2 and row[1] is None]
    why = list(dict.fromkeys(row[2] for row in rows if isinstance(row[2], str) and row[2]))
    return f"why: {'; '.join(why[:3])}" if why else ""


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
        "Nothing is stopped until the hold ends. Its owner or root ends it with `costguard release`.",
        _price(facts),
    ]


_AFTER_HOLD = "The rules apply again; a stop would be announced first. To hold again: `costguard hold 2h`."


def _hold_ended(facts: Facts) -> tuple[str, Lines]:
    owner, reason = facts.text("owner"), facts.text("hold")
    if reason == "released":
        others = facts.names("holders")
        left = f"It is still held by {listed(others)}." if others else _AFTER_HOLD
        return f"the hold on {facts.machine} was released" + (f" by {owner}" if owner else ""), [left]
    of = f" of {owner}" if owner else ""
    why = f"It was held because: {reason}" if reason else ""
    return f"the hold{of} on {facts.machine} has ended", [sentence(why), _AFTER_HOLD]


def _notice(facts: Facts) -> tuple[str, Lines]:
    when = facts.when if facts.number("due_in_seconds") is not None else "soon"
    does, advice = {
        "reboot": (f"reboots {facts.machine}", "Save your work: what runs ends."),
        "freeze": (f"pauses {facts.machine}", "The machine goes on afterwards."),
    }.get(facts.text("change"), (f"takes {facts.machine} away", "Save your work."))
    closing = f"This is the cloud's decision; a hold does not postpone it. {advice}"
    return f"the cloud {does} {when}", [sentence(facts.text("text") or facts.text("why")), closing]


def _finding(facts: Facts) -> tuple[str, Lines]:
    what = {
        "ghost": "shows use that nothing makes",
        "suspect_hung": "may run a job that hangs",
        "announced": "announces something",
        "unchecked": "cannot be checked; nobody knows whether it could be carried out",
        "checked": "can be checked again",
        "tag_denied": "cannot be written by the machine itself, so nobody outside sees what they would say",
        "tag_allowed": "can be written by the machine itself",
    }.get(facts.text("code"), "behaves strangely")
    return f"{facts.text('gpu') or 'a GPU'} of {facts.machine} {what}", [
        sentence(facts.text("text")),
        "Its use counts as idle; beyond that this is only told."
        if facts.text("code") == "ghost"
        else "This is only told: costguard does nothing because of it.",
    ]


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
    "weak_sign": _weak_sign,
    "held": _held,
    "hold_ended": _hold_ended,
    "notice": _notice,
    "notes": _notes,
    "finding": _finding,
    "preflight_refused": _preflight_refused,
    "preflight_passed": _preflight_passed,
    "next_action": _next_action,
    "asking": _asking,
    "stopping": _stopping,
    "outcome_unknown": _outcome_unknown,
    "reminder": _reminder,
    "deadline_passed": _deadline_passed,
    "came_back": _came_back,
    "closed": _closed,
    "state_lost": _state_lost,
}


def _cause(facts: Facts) -> Lines:
    """Why: the reason, the last readings, and the switch that makes load count as idle."""
    lowered = ""
    if facts.true("stop_below_load"):
        threshold = facts.number("threshold")
        limit = f" below {share(threshold)}" if threshold is not None else ""
        lowered = f"stop_below_load is set: GPUs with load{limit} count as idle although they may be working."
    tries = facts.number("unreached_tries")
    nobody = (
        ""
        if tries is None
        else f"Nobody could be reached by the warning, which was tried {'once' if tries == 1 else f'{tries:.0f} times'}."
    )
    return [sentence(_reason(facts)), sentence(_readings(facts)), lowered, nobody]


def _reason(facts: Facts) -> str:
    reason, owner = facts.text("reason"), facts.text("owner")
    gpus = listed(facts.names("gpus")) or "the GPUs"
    threshold, window = facts.number("threshold"), facts.number("window")
    during = f" for {span(window)}" if window is not None else ""
    below = f" below {share(threshold)}" if threshold is not None else " too low"
    why = WHY.get(reason)
    return "" if why is None else "why: " + why.format(below=below, during=during, gpus=gpus, owner=owner or "somebody")


def _readings(facts: Facts) -> str:
    shown = []
    for row in facts.rows("readings"):
        if not isinstance(row, list | tuple) or not row or not isinstance(row[0], str):
            continue
        load = number(row[1]) if len(row) > 1 else None
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


def _receipt(facts: Facts) -> Lines:
    """What outlives this machine: with it, its cloud can be asked from anywhere."""
    receipt = facts.text("receipt")
    how = "To ask the cloud from another machine whether the bill has ended: `costguard stop --verify RECEIPT`."
    return [f"Receipt: {receipt}", how] if receipt and not facts.dry else []


def _price(facts: Facts) -> str:
    return price(facts.number("price_per_hour"), facts.text("currency"), facts.inner("price"))


def _footer(facts: Facts) -> Lines:
    """How it stands, and the names under which it can be found again."""
    instance, incident = facts.text("instance"), facts.text("incident")
    names = [f"instance {instance}" if instance else "", f"incident {incident}" if incident else ""]
    return [sentence(facts.text("sentence")), sentence(", ".join(name for name in names if name))]
