"""What people ask of the machine: to hold it, to release it, to stop it now."""

from collections.abc import Mapping

from costguard.engine import deadline, obstacles
from costguard.engine.attempt import abandon
from costguard.engine.deadline import Situation
from costguard.engine.effects import Answer
from costguard.engine.events import AskExtend, AskHold, AskRelease, AskStop
from costguard.engine.incident import back_to_watching, open_incident
from costguard.engine.plans import REPEATED_STOPS
from costguard.engine.policy import Policy
from costguard.engine.reasons import DEADLINE
from costguard.engine.state import ACTING, CONFIRMING, DONE, FAILED, PERSON, ROOT, WARNING, Core, Hold, user_key
from costguard.engine.turn import Turn, action_of
from costguard.engine.window import NEVER
from costguard.engine.wording import wording_of
from costguard.engine.words import duration

HOLDS_KEPT = 32
"""How many users may hold at once, besides root; each has at most one hold, and none is displaced by another."""

ACCOUNTS_KEPT = 64
"""Users whose hold time is remembered; of more, those who held least count towards the total alone."""

EARLIER_LASTS = "an earlier hold of yours lasts longer"
"""By which whoever asks for less than he has learns that nothing was added."""

_NO_HOLD = "otherwise "  # a prefix that no user's key has: a release, or a moved deadline, must not silence a later hold of the same user

HOLD_TOLD_EVERY_SECONDS, HOLD_IS_NEWS_SECONDS = 60.0, 600.0
"""Seconds between two messages about one user's holds; a hold that moves the end by more than the second number is always told."""

TOLD_AT_ONCE, TOLD_OF_ONE_USER = 20, 6
"""Messages about holds and releases within that time, of all users and of one: each goes to everybody. `status` shows the rest; root's are always sent."""


_LATCHED = {DONE: "the pause until work is seen", FAILED: "the pause after a failure"}
"""What a latched phase is called, for people."""


def hold(turn: Turn, event: AskHold) -> None:
    """A person postpones the stop: bounded, signed, and refused once the request is out."""
    core, policy, key = turn.core, turn.rules.policy, user_key(event.owner, event.uid)
    # a hold that ended unobserved, as in a sleep, does not count
    mine = max([0.0, *(held.until - event.at for held in core.people.holds if held.key == key)])
    wanted = min(event.seconds, policy.hold_max)
    if message := _no_hold(turn, key, wanted, event.uid):
        _answer(turn, event.client, message, done=False)
        return
    if wanted <= mine:
        if core.phase == WARNING:  # a person's stop gives way only to a later hold
            _end_countdown(turn, event.owner)
        _answer(turn, event.client, f"held for {duration(mine)}: {EARLIER_LASTS}", done=True)
        return
    free = hold_left(core, policy, key)
    seconds = wanted if event.uid == ROOT else min(wanted, mine + free)
    if not seconds > mine:
        _answer(turn, event.client, _used_up(core, policy, key), done=False)
        return
    # a hold costs at least a new countdown where it ends one, else one look at the machine
    least_charge = max(policy.grace if core.phase == WARNING else 0.0, policy.interval)
    charge = 0.0 if event.uid == ROOT else min(free, max(seconds - mine, least_charge))
    ended = core.incident.id if core.phase == WARNING and core.incident is not None else ""
    if ended:
        _end_countdown(turn, event.owner)
    before = sum(held.refundable for held in core.people.holds if held.key == key and held.until > event.at)
    refundable = before + max(0.0, charge - least_charge)
    until = event.at + seconds
    granted = Hold(event.owner, event.reason, until, event.wall + seconds, event.uid, refundable)
    _charge(turn, key, charge)
    _grant(turn, granted, seconds, ended=ended)
    cut = "" if seconds == event.seconds else f" (you asked for {duration(event.seconds)}, more than the limit allows)"
    _answer(turn, event.client, f"held for {duration(seconds)}{cut}", done=True)


def extend(turn: Turn, event: AskExtend) -> None:
    """A person moves the deadline, and nothing else: an idle machine is stopped all the same."""
    core, key = turn.core, user_key(event.owner, event.uid)
    situation = _situation_now(turn, event)
    limit, due = deadline.first(situation).at, deadline.deadline_at(situation)
    wanted = max(due, event.at) + event.seconds
    until = wanted if event.uid == ROOT else min(wanted, limit + turn.rules.policy.extend_max)
    stopped = _acted(core) and wording_of(action_of(core.incident, turn.rules)).ends_bill
    if core.phase in {ACTING, CONFIRMING} or stopped:
        message = _too_late(turn)  # this action ends the machine; after any other, the machine and its deadline go on
    elif limit == NEVER:
        message = f"refused: {deadline.why_none(turn.rules, synced=turn.synced)}; `costguard hold 2h` keeps it up"
    elif until <= max(due, event.at):
        most = turn.rules.policy.extend_max
        message = f"refused: users may move the deadline by {duration(most)} in total, and have done so; root can move it further"
    else:
        extension = Hold(event.owner, event.reason, until, event.wall + until - event.at, event.uid)
        _extend(turn, event.at, extension, key, due)
        allowed = duration(turn.rules.policy.extend_max)
        cut = f" (you asked for {duration(event.seconds)}; users may move it by {allowed} in total, root by more)"
        words = f"the deadline is now in {duration(until - event.at)}{cut if until < wanted else ''}"
        _answer(turn, event.client, words, done=True)
        return
    _answer(turn, event.client, message, done=False)


def _situation_now(turn: Turn, event: AskExtend) -> Situation:
    """The situation at the moment of the request: the engine's time is that of the last look, and the machine may have slept since."""
    state, wall = turn.state, turn.wall - (event.at - turn.at)
    if event.suspended is not None:
        state = state._replace(core=state.core._replace(clocks=state.core.clocks._replace(suspended=event.suspended)))
    return turn.situation._replace(state=state, wall=wall)


def _extend(turn: Turn, at: float, extension: Hold, key: str, before: float) -> None:
    """``before``: when the deadline was."""
    incident = turn.core.incident
    if turn.core.phase == WARNING and incident is not None and incident.reason == DEADLINE.name:
        back_to_watching(turn, f"{extension.owner} extended the deadline")
    mine = next((one for one in turn.deadline.extensions if one.key == key and one.until > at), None)
    extension = extension._replace(reason=extension.reason or (mine.reason if mine is not None else ""))
    others = [one for one in turn.deadline.extensions if one.key != key and one.until > at]
    turn.deadline = turn.deadline._replace(extensions=(*others[1 - HOLDS_KEPT :], extension))
    facts: dict[str, object] = {"owner": extension.owner, "hold": extension.reason, "due_wall": extension.wall}
    facts |= {"was_wall": extension.wall - (extension.until - before)} if before > at else {}
    facts |= {"takes_back": "warning"}  # people got that date in `deadline_ahead`
    _tell(turn, at, "deadline_extended", _NO_HOLD + key, facts, always=extension.uid == ROOT)


def _take_back(turn: Turn, event: AskRelease) -> tuple[Hold, ...]:
    """End the user's own extension of the deadline, or all, and tell people the new deadline. Returns those that ended."""
    key, standing = user_key(event.owner, event.uid), turn.deadline.extensions
    ended = tuple(one for one in standing if event.everything or one.key == key)
    before = deadline.deadline_at(turn.situation)
    turn.deadline = turn.deadline._replace(extensions=tuple(one for one in standing if one not in ended))
    due = deadline.deadline_at(turn.situation)
    if due < before and before > event.at:  # else it had passed already
        movable = deadline.movable_seconds(turn.situation, event.at)
        due_wall = turn.looked_wall + due - turn.at
        facts: dict[str, object] = {"owner": event.owner, "due_wall": due_wall, "movable": movable}
        facts |= {"ended": [one.owner for one in ended], "takes_back": "warning"}
        _tell(turn, event.at, "deadline_extended", _NO_HOLD + key, facts, always=event.everything)
    return tuple(one for one in ended if one.until > event.at)


def _acted(core: Core) -> bool:
    """Whether the action was carried out, and no work was seen since."""
    return core.phase == DONE and core.ending.done == "acted"


def _too_late(turn: Turn) -> str:
    wording = wording_of(action_of(turn.core.incident, turn.rules))
    if turn.core.phase == DONE:
        since = duration(turn.at - turn.core.ending.since)
        return f"too late: {wording.ended or f'the {wording.word} was carried out'} {since} ago; watching resumes when work is seen"
    return f"too late: {wording.begun or f'the {wording.word} has already been requested'}"


def _no_hold(turn: Turn, key: str, seconds: float, uid: int | None) -> str:
    """Why there can be no hold at all, in words; empty when there can."""
    core = turn.core
    if core.phase in {ACTING, CONFIRMING} or _acted(core):
        return _too_late(turn)
    if not seconds > 0:  # also refuses NaN
        return "refused: a hold needs a time above 0"
    others = [held for held in core.people.holds if held.uid != ROOT]
    if uid != ROOT and len(others) >= HOLDS_KEPT and all(held.key != key for held in others):
        last = duration(max(held.until for held in others) - turn.at)
        return f"refused: {HOLDS_KEPT} users already hold it, for at least {last}; root can hold it longer"
    return ""


def hold_left(core: Core, policy: Policy, key: str = "") -> float:
    """Seconds of hold that are left since work was last seen: for this user, or for all together."""
    whole = max(0.0, policy.hold_total - core.people.charged)
    return max(0.0, min(whole, policy.hold_share - dict(core.people.accounts).get(key, 0.0))) if key else whole


def _used_up(core: Core, policy: Policy, key: str) -> str:
    whole = hold_left(core, policy) == hold_left(core, policy, key)  # else the user's own share is the tighter limit
    whose, limit = ("all users'", policy.hold_total) if whole else ("your", policy.hold_share)
    return (
        f"refused: {whose} holds since work was last seen have used up the limit of {duration(limit)}; "
        "root can hold it longer"
    )


def _charge(turn: Turn, key: str, seconds: float) -> None:
    """Add seconds to the total and to one user's account; negative seconds are given back."""
    people, accounts = turn.people, dict(turn.people.accounts)
    accounts[key] = max(0.0, accounts.get(key, 0.0) + seconds)
    spent = sorted(((who, held) for who, held in accounts.items() if held > 0.0), key=lambda entry: entry[1])
    turn.people = people._replace(charged=max(0.0, people.charged + seconds), accounts=tuple(spent[-ACCOUNTS_KEPT:]))


def forgive(turn: Turn) -> None:
    """Work was seen: of earlier holds only the time still ahead counts."""
    accounts: dict[str, float] = {}
    for held in turn.people.holds:
        if held.uid != ROOT:
            accounts[held.key] = accounts.get(held.key, 0.0) + max(0.0, held.until - turn.at)
    turn.people = turn.people._replace(charged=sum(accounts.values()), accounts=tuple(accounts.items()))


def _end_countdown(turn: Turn, owner: str) -> None:
    """A hold ends a countdown and has a message of its own; a person's own stop is cancelled with one."""
    incident = turn.core.incident
    if incident is not None and incident.by_person:
        back_to_watching(turn, f"{owner} holds it")
        return
    abandon(turn)
    turn.watch()


def _grant(turn: Turn, granted: Hold, seconds: float, *, ended: str) -> None:
    """Keep the hold, and tell people, unless they were told of this user's just now; ``ended``: the incident whose countdown it ended."""
    holds, at = turn.people.holds, granted.until - seconds
    turn.people = turn.people._replace(holds=(*(hold for hold in holds if hold.key != granted.key), granted))
    before = next((hold.until for hold in holds if hold.key == granted.key), turn.at)
    if ended or granted.key not in dict(_told_lately(turn, at)) or granted.until - before > HOLD_IS_NEWS_SECONDS:
        owner, until = granted.owner, granted.wall
        facts: dict[str, object] = {
            "owner": owner,
            "hold": granted.reason,
            "hold_seconds": seconds,
            "hold_until_wall": until,
            "holders": [hold.owner for hold in holds if hold.key != granted.key],
        }
        facts |= {"takes_back": "warning", "overtakes": ended} if ended else {}
        _tell(turn, at, "held", granted.key, facts, always=bool(ended) or granted.uid == ROOT)


def _told_lately(turn: Turn, now: float) -> tuple[tuple[str, float], ...]:
    """Whose holds were told shortly before ``now``, the moment of the request: the last look may be long ago."""
    return tuple((key, at) for key, at in turn.people.told if now - at < HOLD_TOLD_EVERY_SECONDS)


def _tell(turn: Turn, at: float, kind: str, key: str, facts: Mapping[str, object], *, always: bool) -> None:
    """Tell what a user did at that moment, unless users did too much of it lately."""
    told = _told_lately(turn, at)
    whose = key.removeprefix(_NO_HOLD)
    theirs = sum(who.removeprefix(_NO_HOLD) == whose for who, _ in told)
    if always or (len(told) < TOLD_AT_ONCE and theirs < TOLD_OF_ONE_USER):
        turn.tell(kind, "info", **facts)
        told = (*told, (key, at))[-HOLDS_KEPT:]
    turn.people = turn.people._replace(told=told)


def release(turn: Turn, event: AskRelease) -> None:
    """A user ends their own hold; root ends every hold, a latched phase, and the limit on repeated stops."""
    core, key = turn.core, user_key(event.owner, event.uid)
    latched = _latches(core)
    ended = tuple(held for held in core.people.holds if event.everything or held.key == key)
    others = tuple(held for held in core.people.holds if held not in ended)
    for held in ended:
        if held.uid != ROOT:
            _charge(turn, held.key, -min(held.refundable, max(0.0, held.until - event.at)))
    turn.people = turn.people._replace(holds=others)
    if event.everything:
        turn.ledger = turn.ledger._replace(stops=())
        if core.phase in {DONE, FAILED}:
            turn.watch()
    if ended:
        facts = {"owner": event.owner, "hold": "released", "holders": [held.owner for held in others]}
        facts |= {"ended": [held.owner for held in ended]}
        _tell(turn, event.at, "hold_ended", _NO_HOLD + key, facts, always=event.everything)
    did = [_whose(ended)] if ended else []
    if taken_back := _take_back(turn, event):
        did.append(f"the extension of the deadline by {', '.join(one.owner for one in taken_back)}")
    stays = [_whose(others)] if others else []
    (did if event.everything else stays).extend(latched)
    _answer(turn, event.client, _released(did, stays), done=bool(did) or not stays)


def _latches(core: Core) -> list[str]:
    """What work or root ends, and no other user."""
    latches = []
    if core.phase in {DONE, FAILED}:
        latches.append(_LATCHED[core.phase])
    if len(core.ledger.stops) >= REPEATED_STOPS:
        latches.append("the limit on repeated stops")
    return latches


def _whose(holds: tuple[Hold, ...]) -> str:
    return f"the hold{'s' if len(holds) > 1 else ''} of {', '.join(held.owner for held in holds)}"


def _released(did: list[str], stays: list[str]) -> str:
    """What ended, and what did not, with who can end it."""
    who = f"only {'its owner, ' if 'hold' in ' '.join(stays) else ''}root and the agent's own user can end that"
    kept = f"; not ended: {' and '.join(stays)} ({who})" if stays else ""
    if not did:
        return f"refused: you have no hold here{kept}" if stays else "nothing was held"
    return f"released: {' and '.join(did)}{kept}"


def stop(turn: Turn, event: AskStop) -> None:
    """A person's own command: no warning, no window; only the administrator's hold refuses it.

    Whoever asked was shown the work and the holds. Holds stay: they stand against the machine's own reasons.
    """
    core = turn.core
    if message := obstacles.forbidden(core, turn.rules):
        _answer(turn, event.client, f"refused: {message}", done=False)
    elif core.phase in {ACTING, CONFIRMING}:
        _answer(turn, event.client, "already under way", done=False)
    elif core.fresh_start in {"boot", "lost"}:  # the first tick closes what was open before
        _answer(turn, event.client, "refused: the guard has just started; ask again in a few seconds", done=False)
    elif core.phase == WARNING and core.incident is not None and core.incident.by_person:
        _answer(turn, event.client, f"already under way: {core.incident.owner} asked for it", done=True)
    else:
        abandon(turn)
        open_incident(turn, PERSON, event.owner)
        _answer(turn, event.client, f"{action_of(turn.core.incident, turn.rules)} begins", done=True)


def _answer(turn: Turn, client: int | None, message: str, *, done: bool) -> None:
    if client is not None:
        turn.effects.append(Answer(client, done, message))
