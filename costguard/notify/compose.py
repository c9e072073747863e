"""Titles and bodies of messages, composed from facts. Pure but for the time zone.

The guard sends facts, never text. All are optional: unknown names are ignored, and a missing one
makes the text shorter, never wrong. Durations are seconds, loads 0 to 1, dates seconds since the epoch.

===================  ================================================================================
machine              name of the machine (the worker fills in the host name)
instance             id of the instance
task                 the task that is guarded, and whose it is; ``advice`` of its scheduler (`costguard.tasks.api.Advice`),
                     and ``folder``: that of its guard
incident             id of the incident
mode                 ``live``; anything else is a dry run
action               ``stop``, ``terminate``, ``hibernate``, ``shutdown``, ``reboot``, ``command``, ``end_process``, ``end_task``
reason               ``idle``, ``unused``, ``deadline``, ``unknown``, ``person``
owner                who asked for the stop or the hold
sentence             the engine's sentence: state, cause, next step
gpus                 labels of the GPUs concerned; ``subjects`` of a finding: these, or words
readings             last readings: ``[label, load or null, evidence]``
processes            who holds the GPUs: program, user, container or job; ``more_processes`` beside them, and
                     ``hidden_processes`` that the agent may not look at
threshold, window    load below which, and for how long; ``idle_seconds``: for how long by now, where that is known
stop_below_load      true when the owner lets GPUs with some load count as idle
due_in_seconds       time until the action; ``grace`` stands in for it in a warning
due_wall             its date; else ``wall`` (now) plus the seconds
findings             of the plan: ``[code, text, hint]`` or an object with these keys
why                  why something was cancelled, held up or ended
hold                 the reason given for a hold; ``released`` when ``owner`` ended it
forbidden            why nothing may be done now: an administrator's hold, an escape hatch
takes_back           the level of what people were told before and is not so any more, as a countdown that a hold has ended
hold_seconds         how long the hold lasts, ``hold_until_wall`` its end
holders              who else still holds it; ``hold_left`` hold time that users have left
unknown_gpus         labels of the GPUs that cannot be read
unknown_senses       senses that cannot see, and why: ``[name, words]``; ``unknown_seconds`` for how long
keepers              who or what keeps the machine up, as senses see it: ``[sense, words, what would end it]``
kept_seconds         for how long it would have been stopped but for them
keeps                the same as sentences, in any message: who, since when, and what would end it
lately               sentences about who worked in the last day and does no more
lacking              which names of `gpu_devices` match no GPU, and which there are
sign, weak_seconds   the only sign of work that ``gpu`` shows, and for how long it has been the only one
money                estimated cost so far, in ``currency``
price_per_hour       price of the machine, in ``currency``
price                the cloud's price: ``amount``, ``currency``, ``date``, ``source``, ``region``, ``kind``
detail, proof        outcome of an attempt, and its request id or exit code
start, resume        the command that starts this machine again; the one after a hibernation, where that is another one
receipt              what `costguard stop --verify` takes, one line of JSON
error, hint          what failed, and what to do about it
unreached_tries      tries of a warning that reached nobody, or ``unreached_only`` terminals of this machine
rounds               failed rounds of attempts; ``retry_in_seconds`` until the next one
text, notes          text of a notice, a list of notes
change               what the cloud announces: ``stop``, ``terminate``, ``hibernate``, ``reboot``, ``freeze``; anything else: it
                     reclaims the machine
limit                what the deadline is: ``lifetime``, ``lease``, ``budget``; ``movable``: seconds by which users may move it;
                     ``was_wall``: when it, or the action, was before it was moved
stop_busy            true when the deadline stops work too
done                 in a reminder: ``cannot``, ``unknown``; anything else: failed
acted                true when an action was requested before the machine came back
off_seconds          how long the machine was off, from ``stopped_wall`` to ``started_wall``
saved                estimated cost of that time, had it been on, in ``currency``
===================  ================================================================================
"""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import NamedTuple

from costguard.engine.pre_stop_hook import HOOK_FAILED
from costguard.engine.reasons import REASONS
from costguard.engine.state import PERSON
from costguard.engine.wording import start_after
from costguard.engine.words import clock, clock_ahead, clock_and_second, duration, percent, several, times
from costguard.money import rate
from costguard.notify import words
from costguard.notify.facts import DAY, Facts, number
from costguard.notify.words import listed, money, sentence

WHY_LENGTH = 60
"""A cause of at most so many characters stands in the title; a longer one in the body."""

TITLE_LENGTH = 140
"""Characters of a note in the title; a longer note is cut there and whole in the body."""

WHY = {reason.name: reason.why for reason in REASONS}


class Text(NamedTuple):
    """What people read."""

    title: str
    body: str
    dry_run: bool


Lines = list[str]


def compose(kind: str, given: Mapping[str, object]) -> Text:
    """Compose the text of a message. An unknown kind still shows its sentence and its text."""
    facts = Facts(given)
    dry = facts.dry or kind == "would_act"
    title, lines = _KINDS.get(kind, _other)(facts)
    lines = [*lines, *_footer(facts, stands=kind not in _WITHOUT_SENTENCE)]
    body = _reaching(facts, "\n".join(line for line in lines if line))
    return Text(("DRY RUN: " if dry else "") + title, body, dry)


_COMMAND = re.compile(r"(costguard (?:hold|release|status|history|doctor|notify)\b[^`]*)`")


def _reaching(facts: Facts, text: str) -> str:
    """Add the folder to each command that talks to the guard of a task: without it another guard, or none, would answer."""
    folder = facts.text("folder")
    return _COMMAND.sub(lambda found: f"{found[1]} --state-dir {shlex.quote(folder)}`", text) if folder else text


def _warning(facts: Facts) -> tuple[str, Lines]:
    verb = "would" if facts.dry else "will"
    return f"{facts.subject} {verb} {facts.wording.base} {facts.earliest}".rstrip(), [
        _how_to_postpone(facts),
        f"To hold it without a login: {facts.text('hold_url')}" if facts.text("hold_url") and not facts.dry else "",
        _how_to_move(facts) if facts.number("movable") is not None else "",
        *_cause(facts),
        _STOPS_WORK if facts.true("stop_busy") else "",
        sentence("; ".join(facts.names("lately")[:3])),
        _price(facts),
        *_findings(facts, hints=False),
    ]


def _countdown(facts: Facts) -> tuple[str, Lines]:
    title, lines = _warning(facts)
    if (was := facts.number("was_wall")) is not None:
        return f"{facts.name}: {facts.wording.noun} postponed, now {facts.earliest}", [
            *lines[:1],
            f"A warning said {clock_and_second(was)}. costguard has restarted since, and gives people time to react.",
            *lines[1:],
        ]
    unread = facts.number("unreached_tries") is not None  # nobody has read the warning, so this is no reminder
    return title if unread else f"Reminder: {title}", lines


_STOPS_WORK = "Work does not prevent it: deadline.stop_busy is set."


LIMITS = {"lifetime": "its lifetime ends", "lease": "its lease ends", "budget": "its budget is spent"}


PASSED = {"lifetime": "its lifetime is over", "lease": "its lease has ended", "budget": "its budget is spent"}


def _passed(facts: Facts) -> str:
    return PASSED.get(facts.text("limit"), "the deadline (lifetime, lease or budget) has passed")


def _deadline_ahead(facts: Facts) -> tuple[str, Lines]:
    limit = LIMITS.get(facts.text("limit"), "its deadline passes")
    verb = "would" if facts.dry else "will"
    busy = _STOPS_WORK if facts.true("stop_busy") else "If work is still running then, nothing happens until it ends."
    grace = facts.number("grace")
    then = f", {duration(grace)} before the {facts.wording.noun}" if grace else ""
    return f"{facts.subject} {verb} {facts.wording.base} when {limit} {facts.when}".rstrip(), [
        f"A warning comes then{then}. {busy}",
        _how_to_move(facts),
        _price(facts),
    ]


def _how_to_move(facts: Facts) -> str:
    """Who can move the deadline, and how far."""
    movable = facts.number("movable")
    if movable is not None and movable < 60.0:
        return f"Only root can move the deadline: `sudo costguard hold --past-deadline 2h` on {facts.machine}."
    length = "2h" if movable is None or movable >= 7200.0 else duration(movable).replace(" ", "")
    return f"To move the deadline by {length}: `costguard hold --past-deadline {length}` on {facts.machine}."


def _deadline_extended(facts: Facts) -> tuple[str, Lines]:
    owner, until, reason, now = facts.text("owner"), facts.number("due_wall"), facts.text("hold"), facts.number("wall")
    end = f" to {clock(until, until - DAY if now is None else now)}" if until is not None else ""
    if ended := facts.names("ended"):
        whose = "" if ended == [owner] else f" This ends the extension of {' and '.join(ended)}."
        return f"{facts.name}: deadline moved back{end} by {owner or 'root'}", [
            f"The extension was released.{whose} A warning comes before anything is done.",
            _how_to_move(facts),
            _price(facts),
        ]
    was = facts.number("was_wall")
    start = f" from {clock(was, until if now is None else now)}" if was is not None and until is not None else ""
    return f"{facts.name}: deadline moved{start}{end}{f' by {owner}' if owner else ''}", [
        sentence(f"reason given: {reason}" if reason else ""),
        "Idle time counts as before. Whoever moved the deadline, or root, can undo that: `costguard release`.",
        _price(facts),
    ]


def _summary(facts: Facts) -> tuple[str, Lines]:
    """The title alone says what the machine did, and what that cost or saved."""
    if facts.text("error"):
        return f"{facts.name}: no summary", [sentence(facts.text("error"))]
    lasted = [(name, facts.number(name) or 0.0) for name in ("works", "quiet", "unknown", "off")]
    spoken = {"works": "worked", "quiet": "idle", "unknown": "unreadable", "off": "stopped"}
    hours = ", ".join(f"{spoken[name]} {duration(seconds)}" for name, seconds in lasted if seconds >= 60.0)
    since, until = facts.number("since"), facts.number("until")
    period = _period(since, until, facts.number("made")) if since is not None and until is not None else ""
    return f"{facts.name}: {hours or 'nothing recorded'}{_summed_up(facts)}{period}", [
        *_counted(facts),
        *[f"- not done: {sentence(text)}" for text in facts.names("troubles")],
        *_nearly(facts),
        _held_by(facts),
        sentence(f"now {facts.wording.none}: {facts.text('forbidden')}" if facts.text("forbidden") else ""),
        _price(facts),
        "The whole record: `costguard history`.",
    ]


def _period(since: float, until: float, made: float | None) -> str:
    """The period of the summary; its end only where that is not the moment of the message."""
    begin = clock(since, since - DAY)
    if made is None or made - until < 60.0:
        return f" (since {begin})"
    return f" ({begin} to {clock(until, since)})"


def _summed_up(facts: Facts) -> str:
    """Money, after the hours: what was saved, else what idle hours cost; nothing where no price is known."""
    currency, saved, would = facts.text("currency"), facts.number("saved"), facts.number("would_save")
    idle = facts.number("idle_cost") if facts.guarded.billed else None
    if facts.dry and would:
        return f"; live mode would have saved {money(would, currency)}"
    if saved:
        return f"; saved {money(saved, currency)}"
    return f"; its idle hours cost {money(idle, currency)}" if idle else ""


def _counted(facts: Facts) -> Lines:
    def count(name: str) -> int:
        return round(facts.number(name) or 0.0)

    off, idle = facts.number("would_off") or 0.0, facts.number("idle_cost")
    again = f", and it stayed up for {duration(off)} after that" if off >= 60.0 else ""
    before = (
        f"It stayed up for {duration(off)} after a stop that live mode would have made earlier." if off >= 60.0 else ""
    )
    estimated = facts.number("would_save") if facts.dry else facts.number("saved")
    counted = _limited(facts.number("saving_limit") or 0.0, facts.number("uncounted") or 0.0) if estimated else ""
    return [
        f"Live mode would have {facts.guarded.past} it {times(count('would'))}{again}." if count("would") else before,
        counted,
        f"{facts.guarded.past.capitalize()} {times(count('stops'))}." if count("stops") else "",
        f"Warned {times(count('warnings'))}." if count("warnings") and not facts.dry else "",
        f"GPUs unreadable for a long time: {several(count('alarms'), 'alarm')}." if count("alarms") else "",
        f"A job seemed to hang: reported {times(count('hung'))}." if count("hung") else "",
        f"People or programs kept it up without GPU work: reported {times(count('kept_up'))}."
        if count("kept_up")
        else "",
        # the title says so where nothing was saved
        f"Its idle hours cost {money(idle, facts.text('currency'))} (an estimate)."
        if idle and facts.guarded.billed and estimated
        else "",
    ]


def _limited(counted: float, uncounted: float) -> str:
    """Why the money is less than the hours at the price; nothing where all of them count."""
    if not counted or uncounted < 60.0:
        return ""
    return f"At most {duration(counted)} of each stop counts as saved (saving_limit)."


def _nearly(facts: Facts) -> Lines:
    rows = [row for row in facts.rows("nearly") if isinstance(row, list | tuple) and len(row) == 2]
    found = [(when, str(row[1])) for row in rows if (when := number(row[0])) is not None]
    return [f"- warned at {clock(when, when - 2 * DAY)}; {ended}." for when, ended in found]


def _held_by(facts: Facts) -> str:
    rows = [row for row in facts.rows("holders") if isinstance(row, list | tuple) and len(row) == 2]
    found = [f"{row[0]} ({times(round(often))})" for row in rows if (often := number(row[1])) is not None]
    return f"Held by {listed(found)}." if found else ""


def _armed(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name} has begun to work", ["From now on idle time counts."]


def _how_to_postpone(facts: Facts) -> str:
    """How to postpone the action: first in the body, because a phone shows little more."""
    if facts.number("grace") == 0.0:
        no_time = "there would be" if facts.dry else "there is"
        hold = f"{no_time} no time to postpone it: grace is 0."
    elif facts.dry:
        hold = "`costguard hold 2h` would postpone it."
    elif facts.number("hold_left") == 0.0:
        hold = "only root can postpone it, with `costguard hold 2h`: users' hold time is used up."
    else:
        hold = f"to postpone it: `costguard hold 2h` on {facts.machine}{_from_elsewhere(facts)}."
    return f"Nothing will happen: mode is dry-run. In live mode {hold}" if facts.dry else sentence(hold)


def _from_elsewhere(facts: Facts) -> str:
    """How to do the same from a machine where the task does not run."""
    reach = facts.advice("reach")
    return f", or from elsewhere `{reach.format('costguard hold 2h')}`" if "{}" in reach else ""


def _cancelled(facts: Facts) -> tuple[str, Lines]:
    why = sentence(facts.text("why") or facts.text("detail"))
    if facts.text("reason") == PERSON:
        return f"{facts.name}: the {facts.wording.noun} requested by {_requester(facts)} is cancelled", [
            why, f"{_not_done(facts)} To stop it anyway: `costguard stop`.",
        ]  # fmt: skip
    if facts.dry and facts.true("announced_live"):
        return f"{facts.name}: {facts.wording.noun} cancelled: dry run from now on", [
            why,
            "Nothing is done while mode is dry-run; messages say what would happen.",
        ]
    cause = (facts.text("why") or facts.text("detail")).rstrip(".")
    first = cause if len(cause) <= WHY_LENGTH else cause.partition("; ")[0]
    told = first if len(first) <= WHY_LENGTH and "\n" not in first else ""
    return f"{facts.name}: {facts.wording.noun} cancelled{f': {told}' if told else ''}", [
        "" if told == cause else why,
        f"{_not_done(facts)} {_warned_first(facts)}",
    ]


def _would_act(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.subject} would {facts.wording.base} now", [
        'Nothing was done: mode is dry-run. To let costguard act, set `mode = "live"`.',
        *_cause(facts),
        _would_save(facts),
        *_findings(facts, hints=False),
    ]


def _would_save(facts: Facts) -> str:
    """What live mode would save; for an action that does not end the bill, the price alone."""
    known = rate(facts.number("price_per_hour"), facts.text("currency"), facts.mapping("price"))
    if known is None or not facts.ends_bill:
        return _price(facts)
    return f"Until somebody needs the machine again, live mode would save (an estimate): {known.hourly}."


def _acting(facts: Facts) -> tuple[str, Lines]:
    title = (
        f"{facts.subject} would {facts.wording.base} now" if facts.dry else f"{facts.subject} {facts.wording.doing} now"
    )
    return title, [*_cause(facts), *_findings(facts, hints=False), *_receipt(facts)]


def _accepted(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name}: {facts.wording.noun} accepted", [
        *_outcome(facts),
        *_findings(facts, hints=False, code=HOOK_FAILED),
        _told_by(facts, facts.wording.accepted_then),
        *_receipt(facts),
    ]


def _stopping(facts: Facts) -> tuple[str, Lines]:
    return facts.wording.begins.format(facts.name), [
        *_outcome(facts),
        _told_by(facts, facts.wording.begun_then),
        *_receipt(facts),
    ]


def _done(facts: Facts) -> tuple[str, Lines]:
    closed = facts.text("error").startswith("closed")  # the last grade of proof, with what the cloud shows
    billed = "" if facts.ends_bill or not facts.guarded.billed else "; the machine is billed for as long as it is up"
    done = f"{facts.wording.noun} confirmed" if closed else facts.wording.done or f"{facts.wording.noun} done"
    return f"{facts.name}: {done}{billed}", [
        *_outcome(facts),
        *_findings(facts, hints=False, code=HOOK_FAILED),
        *_start_again(facts),
    ]


def _cannot(facts: Facts) -> tuple[str, Lines]:
    if facts.dry:
        tail = "; the bill would go on" if facts.ends_bill else ""
        return f"{facts.subject} could not {facts.wording.base} in live mode{tail}", _refusal(facts)
    tail = "; the bill goes on" if facts.ends_bill else ""
    return f"{facts.subject} cannot {facts.wording.base}{tail}", _refusal(facts)


def _refusal(facts: Facts) -> Lines:
    findings = _findings(facts, hints=True)
    told = findings or _outcome(facts)
    return [*told, *_cause(facts), "" if any(told) else "To see why: `costguard status`.", _price(facts)]


def _preflight_refused(facts: Facts) -> tuple[str, Lines]:
    tail = "; the bill would go on" if facts.ends_bill else ""
    return f"{facts.name}: {facts.wording.noun} would be refused{tail}", _refusal(facts)


def _preflight_passed(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name}: {facts.wording.noun} is possible again", []


def _failed(facts: Facts) -> tuple[str, Lines]:
    rounds, retry = facts.number("rounds"), facts.number("retry_in_seconds")
    count = f" ({several(round(rounds), 'attempt')})" if rounds and rounds > 1 else ""
    again = f"Next attempt in {duration(retry)}." if retry is not None else ""
    if facts.text("reason") == PERSON:
        again = (
            f"Given up: costguard does not retry a stop that {_requester(facts)} requested. To retry: `costguard stop`."
        )
    tail = "; the bill goes on" if facts.ends_bill else ""
    title = f"{facts.name}: {facts.wording.noun} failed{count}{tail}"
    return title, [*_outcome(facts), again, *_findings(facts, hints=True), _price(facts)]


def _next_action(facts: Facts) -> tuple[str, Lines]:
    title = f"{facts.name}: the previous action failed; {facts.wording.noun} is next"
    return title, [*_outcome(facts), *_findings(facts, hints=False), _price(facts)]


def _outcome_unknown(facts: Facts) -> tuple[str, Lines]:
    advice = f"costguard does not retry it. {_told_by(facts, facts.wording.in_doubt)}"
    title = f"{facts.name}: outcome of the {facts.wording.noun} unknown"
    return title, [*_outcome(facts), advice, *_receipt(facts), _price(facts)]


def _asking(facts: Facts) -> tuple[str, Lines]:
    advice = "costguard is checking, and retries nothing until it knows."
    title = f"{facts.name}: outcome of the {facts.wording.noun} not known yet"
    return title, [*_outcome(facts), advice, *_receipt(facts)]


def _reminder(facts: Facts) -> tuple[str, Lines]:
    state = {
        "unknown": f"outcome of the {facts.wording.noun} still unknown",
        "cannot": f"{facts.wording.noun} still not possible",
    }.get(facts.text("done"), f"{facts.wording.noun} still not done")
    findings, bill = _findings(facts, hints=True), "; the bill goes on" if facts.ends_bill else ""
    refused = facts.text("done") == "cannot" and bool(findings)  # then the findings say the same as the outcome
    return f"{facts.name}: {state}{'' if facts.text('done') == 'unknown' else bill}", [
        *([] if refused else _outcome(facts)),
        _cost_so_far(facts),
        "Somebody must act: `costguard status` shows what is wrong.",
        *findings,
        _price(facts),
    ]


def _deadline_passed(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name}: {_passed(facts).removeprefix('its ')}, but work goes on", [
        "A deadline does not stop work. To have it stop work too: set `deadline.stop_busy = true`.",
        _price(facts),
    ]


def _came_back(facts: Facts) -> tuple[str, Lines]:
    if facts.true("acted"):
        done = "The action is done: the machine went off and came back."
    elif facts.text("reason") == PERSON:
        done = f"The {facts.wording.noun} requested by {_requester(facts)} is cancelled. To stop it anyway: `costguard stop`."
    else:
        done = f"The pending warning is cancelled. {_warned_first(facts)}"
    return f"{facts.machine} was suspended and is back", [done]


def _closed(facts: Facts) -> tuple[str, Lines]:
    off, proof, saved = facts.number("off_seconds"), facts.text("proof"), facts.number("saved")
    stopped, started = facts.number("stopped_wall"), facts.number("started_wall")
    known = off is not None and off > 0
    away = ""
    if known and stopped is not None and started is not None:
        away = f"It was off, or starting, from {clock(stopped, 0.0)} to {clock(started, 0.0)}."
    price = facts.number("price_per_hour")
    counted = saved / price * 3600.0 if saved and price else 0.0
    limited = _limited(counted, (off or 0.0) - counted)
    unset = off is None and stopped is not None and started is None
    why_none = (
        "It is unknown how long it was off and what that saved: nothing has set its clock since." if unset else ""
    )
    lines = [away, why_none, limited, "" if saved is None else _price(facts), f"Proof: {proof}." if proof else ""]
    after = f" after {duration(off)}" if known and off is not None else ""
    worth = "" if saved is None else f", and saved {money(saved, facts.text('currency'))}"
    return f"{facts.machine} has started again{after}; the {facts.wording.noun} is confirmed{worth}", lines


def _state_lost(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name}: costguard lost its state for this boot", [
        f"It starts over: {facts.guarded.begins_anew}.",
        "Holds and deadlines are stored separately: check yours with `costguard status`. The agent's log says what was lost.",
    ]


def _unguarded(facts: Facts) -> tuple[str, Lines]:
    again = (
        f"The {facts.wording.noun} requested by {_requester(facts)} is cancelled then."
        if facts.text("reason") == PERSON
        else "A new countdown begins then, with its warning."
    )
    bill = "; the bill goes on" if facts.ends_bill else ""
    return f"{facts.name}: {facts.wording.left or f'costguard has ended, so {facts.wording.none}'}{bill}", [
        f"{facts.guarded.guard_again} {again}",
        _price(facts),
    ]


def _requester(facts: Facts) -> str:
    return facts.text("owner") or "somebody"


def _unknown_alarm(facts: Facts) -> tuple[str, Lines]:
    seconds = facts.number("unknown_seconds")
    since = f" for {duration(seconds)}" if seconds is not None else ""
    which, lacking = words.gpus(facts.names("unknown_gpus")), facts.text("lacking")
    senses = [
        f"{row[0]} {row[1]}" for row in facts.rows("unknown_senses") if isinstance(row, list | tuple) and len(row) > 1
    ]
    what = f"GPUs unreadable{since}" if which or not lacking else "gpu_devices names a GPU that does not exist"
    if senses and not which and not lacking:
        return _unknown_senses(facts, senses, since)
    now = ""
    if not which and not lacking:
        what = f"GPUs that could not be read have held up the {facts.wording.noun}{since}"
        now = "Every GPU can be read now. Time in which one could not does not count as idle."
    return f"{facts.name}: {what}; {facts.wording.none} meanwhile", [
        now,
        sentence(f"unreadable: {which}" if which else ""),
        sentence(_unreadable(facts)),
        sentence(f"{lacking}: correct `gpu_devices`" if lacking else ""),
        f"A GPU that cannot be read never counts as idle, so {facts.guarded.stays}." if not now else "",
        _cost_so_far(facts),
        f"Check `costguard status` and `nvidia-smi`. {_unneeded(facts)}",
    ]


def _unknown_senses(facts: Facts, senses: Lines, since: str) -> tuple[str, Lines]:
    return f"{facts.name}: unknown{since} whether anybody is working; {facts.wording.none} meanwhile", [
        *[sentence(words) for words in senses],
        f"A required sense that cannot see blocks {facts.guarded.any_end}, so {facts.guarded.stays}.",
        _cost_so_far(facts),
        f"Check `costguard doctor`. {_unneeded(facts)} To go without that sense: `[senses.NAME] required = false`.",
    ]


def _kept_up(facts: Facts) -> tuple[str, Lines]:
    seconds = facts.number("kept_seconds")
    during = f" for {duration(seconds)}" if seconds is not None else ""
    rows = [row for row in facts.rows("keepers") if isinstance(row, list | tuple) and len(row) > 2]
    first = f": {rows[0][1]}" if rows else ""
    told = [f"{row[1]}; counts until {row[2]}" if row[2] else str(row[1]) for row in rows]
    return f"{facts.guarded.kept.format(facts.name)} without GPU work{during}{first}", [
        *[f"- {words}." for words in facts.names("keeps") or told],
        facts.guarded.but_for,
        _cost_so_far(facts),
        f"{_unneeded(facts)} To limit how long that may last: `senses.at_most`.",
    ]


def _weak_sign(facts: Facts) -> tuple[str, Lines]:
    seconds, sign = facts.number("weak_seconds"), facts.text("sign")
    during = f" for {duration(seconds)}" if seconds is not None else ""
    return f"{facts.guarded.stays_on.format(facts.name)}: only a weak sign of work{during}", [
        sentence(f"{facts.text('gpu') or 'a GPU'}: {sign}" if sign else ""),
        f"No GPU has load and nothing else shows work. The sign may be hidden work, so {facts.guarded.stays}.",
        _processes(facts),
        _cost_so_far(facts),
        f"{_unneeded(facts)} `nvidia-smi` shows what holds the GPU.",
    ]


def _unreadable(facts: Facts) -> str:
    """The readers' reasons why GPUs cannot be read, each once."""
    rows = [row for row in facts.rows("readings") if isinstance(row, list | tuple) and len(row) > 2 and row[1] is None]
    why = list(dict.fromkeys(row[2] for row in rows if isinstance(row[2], str) and row[2]))
    return f"why: {'; '.join(why[:3])}" if why else ""


def _unknown_recovered(facts: Facts) -> tuple[str, Lines]:
    seconds = facts.number("unknown_seconds")
    after = f" after {duration(seconds)}" if seconds is not None else ""
    return f"{facts.name}: everything can be read again{after}", ["The rules apply again."]


def _held(facts: Facts) -> tuple[str, Lines]:
    owner, reason, seconds = facts.text("owner"), facts.text("hold"), facts.number("hold_seconds")
    by = f" by {owner}" if owner else ""
    until = facts.number("hold_until_wall")
    end = f" until {clock_ahead(until, until - (seconds or DAY))}" if until is not None else ""
    length = f" for {duration(seconds)}" if seconds is not None and not end else ""
    others = facts.names("holders")
    last = (
        "the last of these holds ends. Whoever holds it, or root, can end a hold early"
        if others
        else "the hold ends. Whoever holds it, or root, can end that early"
    )
    ends = f"; the {facts.wording.noun} is cancelled" if facts.text("takes_back") and not facts.dry else ""
    return f"{facts.name} is held{by}{end or length}{ends}", [
        sentence(f"reason given: {reason}" if reason else ""),
        f"It is also held by {listed(others)}." if others else "",
        f"{sentence(f'in live mode {facts.wording.none}' if facts.dry else facts.wording.none).removesuffix('.')} until {last}: `costguard release`.",
        _price(facts),
    ]


def _not_done(facts: Facts) -> str:
    """The announced action does not happen for now."""
    return sentence(f"for now {facts.wording.none}")


def _warned_first(facts: Facts) -> str:
    return f"A new warning comes before {facts.wording.before or facts.guarded.any_end}."


def _unneeded(facts: Facts) -> str:
    """What to do when nobody needs what is guarded."""
    return facts.guarded.unneeded.format(stop=facts.wording.now, end=facts.advice("end") or "its scheduler")


def _told_by(facts: Facts, words: str) -> str:
    """Fill in the scheduler's command that shows what the message cannot know."""
    return words.format(show=facts.advice("show") or "its scheduler")


def _hold_ended(facts: Facts) -> tuple[str, Lines]:
    owner, reason, others = facts.text("owner"), facts.text("hold"), facts.names("holders")
    left = (
        f"It is still held by {listed(others)}."
        if others
        else (f"The rules apply again. {_warned_first(facts)} To hold again: `costguard hold 2h`.")
    )
    if reason == "released":
        ended = [name for name in facts.names("ended") if name != owner]
        of = f" of {listed(ended)}" if ended else ""
        return f"{facts.name}: hold{of} released" + (f" by {owner}" if owner else ""), [left]
    of = f" by {owner}" if owner else ""
    return f"{facts.name}: hold{of} has ended", [sentence(f"reason given: {reason}" if reason else ""), left]


def _notice(facts: Facts) -> tuple[str, Lines]:
    when = facts.when if facts.number("due_in_seconds") is not None else "soon"
    verb, advice = {
        "reboot": ("reboot", "Save your work: running programs end."),
        "freeze": ("pause", "The machine continues afterwards."),
        "stop": ("stop", "Save your work."),
        "terminate": ("delete", "Save your work: local data is lost."),
        "hibernate": (
            "hibernate",
            "Save your work: the programs continue when it is started again, but only if hibernation succeeds.",
        ),
    }.get(facts.text("change"), ("reclaim", "Save your work."))
    closing = f"{advice} The cloud decides this; a hold does not postpone it."
    return f"{facts.machine}: the cloud will {verb} it {when}", [
        closing, sentence(facts.text("text") or facts.text("why")),
    ]  # fmt: skip


def _finding(facts: Facts) -> tuple[str, Lines]:
    subject, code = words.gpus(facts.names("subjects")) or "a GPU", facts.text("code")
    several_gpus = len(facts.names("subjects")) > 1
    what = {
        "ghost": f"{subject} {'report' if several_gpus else 'reports'} load with no process behind it",
        "suspect_hung": f"{subject} may be running a hung job",
        "announced": f"{subject} announces an event",
        "unchecked": f"{subject} cannot be checked; it may fail when needed",
        "checked": f"{subject} can be checked again",
        "tag_denied": f"{subject} cannot be written; nobody outside sees the machine's state",
        "tag_allowed": f"{subject} can be written again",
    }.get(code, f"{subject} behaves unexpectedly")
    effect = {
        "ghost": "This load counts as idle. costguard takes no other action.",
        "suspect_hung": f"This load counts as work, so {facts.guarded.stays}. Look at the job. {_unneeded(facts)}",
        "unchecked": "Nobody knows whether it would work. To see what is wrong: `costguard doctor`.",
    }.get(code, "For information only: costguard takes no action.")
    return f"{facts.name}: {what}", [
        sentence(facts.text("text")),
        effect,
        _price(facts) if code == "suspect_hung" else "",
    ]


def _notes(facts: Facts) -> tuple[str, Lines]:
    notes = [note for note in (facts.text("text"), *facts.names("notes")) if note]
    if not notes:
        return f"{facts.name}: a note without words", []
    first = notes[0] if len(notes[0]) <= TITLE_LENGTH else notes[0][:TITLE_LENGTH].rsplit(" ", 1)[0] + " …"
    return f"{facts.name}: {first}", [f"- {note}" for note in notes if len(notes) > 1 or note != first]


def _other(facts: Facts) -> tuple[str, Lines]:
    return f"{facts.name}: message from costguard", [facts.text("text"), *_outcome(facts)]


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
    "kept_up": _kept_up,
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
    "unguarded": _unguarded,
    "countdown": _countdown,
    "deadline_ahead": _deadline_ahead,
    "deadline_extended": _deadline_extended,
    "armed": _armed,
    "summary": _summary,
}


def _cause(facts: Facts) -> Lines:
    """Why the action is due: the reason, the last readings, the processes, and how often a warning reached nobody."""
    lowered = ""
    if facts.true("stop_below_load"):
        threshold = facts.number("threshold")
        limit = f"below {percent(threshold)} " if threshold is not None else ""
        lowered = f"stop_below_load is set: load {limit}counts as idle, even if it is work."
    tries = facts.number("unreached_tries")
    only = facts.text("unreached_only")  # these terminals showed the warning
    whom = f"only {only}" if only else "nobody"
    unreached = "" if tries is None else f"The warning reached {whom} in {several(round(tries), 'try', 'tries')}."
    return [sentence(_reason(facts)), sentence(_readings(facts)), _processes(facts), lowered, unreached]


def _processes(facts: Facts) -> str:
    """Who holds the GPUs, as far as the agent may see."""
    names, more, hidden = facts.names("processes"), facts.number("more_processes"), facts.number("hidden_processes")
    if hidden is None:
        return ""
    rest = " Processes of other users cannot be seen." if hidden else ""
    if not names:
        return "" if hidden else "No process holds a GPU."
    return f"On the GPUs: {listed([*names, *([f'{round(more)} more'] if more else [])])}.{rest}"


def _reason(facts: Facts) -> str:
    reason = facts.text("reason")
    gpus = words.gpus(facts.names("gpus")) or "the GPUs"
    threshold, window = facts.number("threshold"), facts.number("window")
    idle = facts.number("idle_seconds") if reason == "idle" else None
    during = f" for {duration(max(window, idle or 0.0))}" if window is not None else ""
    below = f" below {percent(threshold)}" if threshold is not None else " too low"
    why = WHY.get(reason)
    return (
        ""
        if why is None
        else "why: " + why.format(below=below, during=during, gpus=gpus, owner=_requester(facts), limit=_passed(facts))
    )


def _readings(facts: Facts) -> str:
    """The last readings; GPUs that show the same together."""
    alike: dict[str, list[str]] = {}
    for row in facts.rows("readings"):
        if not isinstance(row, list | tuple) or not row or not isinstance(row[0], str):
            continue
        load = number(row[1]) if len(row) > 1 else None
        evidence = row[2] if len(row) > 2 and isinstance(row[2], str) else ""
        value = "unknown" if load is None else percent(load)
        alike.setdefault(value + (f" ({evidence})" if evidence else ""), []).append(row[0])
    return (
        f"last readings: {listed([f'{words.gpus(names)} {shown}' for shown, names in alike.items()])}" if alike else ""
    )


def _findings(facts: Facts, *, hints: bool, code: str = "") -> Lines:
    """The findings of the plan, one a line; ``hints``: with what to do about each; ``code``: only those with this code."""
    lines = []
    for row in facts.rows("findings"):
        parts = [row.get(key) for key in ("code", "text", "hint")] if isinstance(row, Mapping) else row
        if not isinstance(parts, list | tuple) or len(parts) < 2 or not parts[1] or (code and parts[0] != code):
            continue
        hint = parts[2] if hints and len(parts) > 2 and parts[2] else ""
        lines.append(f"- {sentence(str(parts[1]))}" + (f" What to do: {sentence(str(hint))}" if hint else ""))
    return lines


def _outcome(facts: Facts) -> Lines:
    """The outcome of the action, its proof, and what to do."""
    proof, hint = facts.text("proof"), facts.text("hint")
    details = [sentence(facts.text(name)) for name in ("error", "detail", "why")]
    return [
        *dict.fromkeys(details),
        f"Proof: {proof}." if proof else "",
        sentence(f"what to do: {hint}" if hint else ""),
    ]


def _receipt(facts: Facts) -> Lines:
    """How to start the machine again, and the receipt with which any machine can ask the cloud about it."""
    return [*_start_again(facts), *_how_to_verify(facts)]


def _start_again(facts: Facts) -> Lines:
    start = start_after(facts.text("action"), facts.text)
    back = (f"`{start}`" if start else "") if facts.guarded.billed else facts.advice("again")
    return [f"To start it again: {back}."] if back and not facts.dry else []


def _how_to_verify(facts: Facts) -> Lines:
    receipt = facts.text("receipt")
    how = "To check from another machine whether the bill has ended: `costguard stop --verify RECEIPT`."
    if not receipt or facts.dry:
        return []
    return [
        f"Receipt: {receipt}",
        how if facts.guarded.billed else "",  # a task's end is shown by its scheduler
    ]


def _cost_so_far(facts: Facts) -> str:
    cost = facts.number("money")
    return "" if cost is None or not facts.guarded.billed else f"Cost so far: {money(cost, facts.text('currency'))}."


def _price(facts: Facts) -> str:
    known = rate(facts.number("price_per_hour"), facts.text("currency"), facts.mapping("price"))
    return f"Price (estimate): {known.hourly}." if known and facts.guarded.billed else ""


_WITHOUT_SENTENCE = frozenset(("warning", "countdown", "unguarded", "acting", "held", "would_act"))
"""Kinds without the agent's sentence: it would be out of date when people read it, or repeat what they say."""


def _footer(facts: Facts, *, stands: bool) -> Lines:
    """The agent's sentence, where it still ``stands``, and the names under which people find the incident again."""
    instance, incident = facts.text("instance"), facts.text("incident")
    kind, _, name = instance.rpartition(":")
    thing = {"dmi": "machine", "machine": "machine"}.get(kind)  # outside any cloud; the message has its host name
    shown = f"{thing} {name}" if thing else "" if kind == "host" else f"instance {instance}"
    names = [shown if instance and facts.guarded.billed else "", f"incident {incident}" if incident else ""]
    return [sentence(facts.text("sentence")) if stands else "", sentence(", ".join(name for name in names if name))]
