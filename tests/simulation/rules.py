"""What must not happen: each rule is looked up in the raw answers and in the truth, at the moment of the deed."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from costguard.host.ports import Instant
from tests.simulation.facts import BLINK, SETTLED
from tests.simulation.terms import CLOUD, MACHINE, NEVER
from tests.simulation.tidings import AHEAD

if TYPE_CHECKING:
    from tests.simulation.judge import Judge

DAY = 86400.0
ATTEMPTS = 3
"""Deliveries of a warning that are tried before nobody can be reached."""

ANEW = 400.0
"""Seconds: a warning that comes so soon after the last one is another try of that."""

TRIES = 4
PAUSES = (15.0, 30.0, 60.0)
"""A request of which certainly nothing was accepted is decided again after these pauses, before the next action."""

READY = 60.0
"""Seconds from what the plan of a worker says to its release: GPUs settle after the hook."""

ANSWERS = 30.0
"""Seconds for which a guard that came back in a countdown can be asked before it acts; in all they add up to no more than the warning gave."""

HEARD = 60.0
HUNG = 1500.0
"""Seconds that what is still being carried out may take, before it counts as a failure."""

LEAD = 60.0
"""A worker waits for its release when looks are no further apart than this."""

CONFIGURED = 900.0
"""Seconds after which the guard has come to tell of a deadline that it was given late."""

LONG_COUNTDOWN, REMINDERS = 1200.0, 2
"""Seconds from which on people are reminded of a countdown, and how often."""

UNWRITTEN = 120.0
"""Seconds since the last save of a guard that sees nothing new, and a look more: what its kill may lose."""

REST = 300.0
"""Seconds of quiet before a deadline that has passed goes by it."""


def begins(judge: "Judge", now: Instant, reason: str, decided: float | None = None) -> None:
    """People are warned: the reason holds, or did when that was decided, and nothing stands in the way."""
    law, at = judge.law, judge.at if decided is None else decided
    _free(judge, at)
    if law.machine and at < judge.began + law.boot_grace - law.grace - 1.0:
        judge.breaks("I9: people are warned too early after boot or resume")
    _holds_good(judge, now, reason, at)


def _holds_good(judge: "Judge", now: Instant, reason: str, at: float) -> None:
    if reason == "idle":
        _idle(judge, at)
    elif reason == "unused":
        _unused(judge, at)
    elif reason == "deadline":
        _deadline(judge, now, at)
    elif reason != "person":
        judge.breaks(f"{reason}: nobody asked for that")


def _free(judge: "Judge", at: float) -> None:
    """No hold, no veto, no announcement."""
    law = judge.law
    if law.forbidden:
        judge.breaks("it acts against the administrator")
    if judge.story.world.hatch:
        judge.breaks("I9: it acts against the kernel parameter")
    if at < judge.holds.latest:
        judge.breaks(f"I8: it acts during a hold that lasts {judge.holds.latest - at:.0f} s more")
    if judge.hatch_since <= at < judge.hatch_until - 1.0:
        judge.breaks(f"I9: it acts against a tag that it knows of since {at - judge.hatch_since:.0f} s")
    if any(sure <= at < due for sure, due in judge.taken):
        judge.breaks("it acts although the cloud is about to take the machine")


def _idle(judge: "Judge", at: float) -> None:
    law = judge.law
    if law.arm_for is not None and not judge.arming.maybe:
        judge.breaks("idle after work, and it never worked")
    start, slack = at - law.window, law.interval + 1.0
    if start < judge.anew - slack:
        judge.breaks(f"I1: {at - judge.anew:.0f} s after everything began anew, less than a window")
    awake = max(start, judge.began)  # nobody works on a machine that is off
    clear = judge.sights.clear_from(law, at, awake, first=slack)
    if clear > awake + 1e-3:
        judge.breaks(f"I1: known and quiet for {at - clear:.0f} s of a window of {law.window:.0f} s")


def _unused(judge: "Judge", at: float) -> None:
    law = judge.law._replace(together="all")
    if law.unused is None:
        judge.breaks("unused is off")
        return
    if judge.arming.surely:
        judge.breaks("unused, and it was armed")
    start = max(at - law.unused, judge.anew)
    clear = judge.sights.clear_from(law, at, start)
    whole = clear <= judge.anew + law.interval + 30.0
    quiet = at - clear + (judge.carried if whole else 0.0)
    if quiet < law.unused - 2 * law.interval - 1.0:
        judge.breaks(f"I1: unused for {quiet:.0f} s of {law.unused:.0f} s")


def _deadline(judge: "Judge", now: Instant, at: float) -> None:
    law = judge.law
    if at < judge.extensions.surely - 1.0:
        judge.breaks(f"I8: a deadline that somebody moved comes {judge.extensions.surely - at:.0f} s too early")
    dated = now.wall >= law.lease - 1.0 and now.synced is not False
    ran = judge.ran + judge.awake()
    # without a date no budget can begin: until then all that this machine has cost counts
    spent = ran - (judge.budget_from or 0.0)
    if ran < law.lifetime - law.interval and spent < law.budget - law.interval and not dated:
        judge.breaks("a deadline that has not passed")
    if decided_now(judge, at):
        _foretold(judge)
    if law.stop_busy:
        return
    rest = min(REST, law.window) if judge.stage != "warned" else 0.0
    for gpu in law.judged:
        _rested(judge, gpu, at, rest)


def decided_now(judge: "Judge", at: float) -> bool:
    """Whether a warning begins with this look, and nothing has disturbed the guard for long."""
    slack, awake = 2 * judge.law.interval, at - max(judge.began, judge.graced_at)
    begun = max(judge.ruled_at, judge.guard_at, judge.stage_at, judge.stalled)
    calm = at == judge.at and judge.stage == "watching"
    return calm and awake > AHEAD + slack and at - begun > CONFIGURED + slack


def _foretold(judge: "Judge") -> None:
    """A deadline is told ahead."""
    law, at = judge.law, judge.at
    moved = judge.extensions.latest > -NEVER
    over = judge.ran + judge.awake() - law.lifetime
    now = 0.0 <= over < 3 * law.interval and law.budget == law.lease == NEVER
    if now and not moved and not judge.tidings.told_ahead():
        judge.breaks(f"a deadline comes, and nobody was told in the {AHEAD:.0f} s before ({at - judge.ruled_at:.0f} s)")


def _rested(judge: "Judge", gpu: int, at: float, rest: float) -> None:
    """When it was seen last, a GPU did not work; or that is a whole window ago."""
    law, sights = judge.law._replace(together="all", tolerance=0.0), judge.sights
    if at - judge.anew < 2 * law.interval:
        return
    seen = next((look.at for look in reversed(sights.looks) if look.seen[gpu] is not None), None)
    if seen is None:
        waited = at - judge.story.world.boot_zero
        fresh = bool(sights.looks) and gpu in sights.there(law) and not judge.story.world.slept
        if fresh and waited < law.window - 2 * law.interval:
            judge.breaks(f"a deadline goes by a GPU that was not read in {waited:.0f} s")
        return
    unwritten = (
        UNWRITTEN + law.interval if seen < judge.guard_at else 0.0
    )  # the GPU may be lost before the next guard reads it
    if (
        at - seen < law.window - 1.0 - unwritten
        and sights.worked_before(law, (gpu,), seen - 1.0, seen + 6.0) > seen - 1.0
    ):
        judge.breaks("a deadline stops work")
    last = min(at - rest, judge.ticks[-1] if judge.ticks else at)
    hooked = judge.story.machine.hooked(last - SETTLED, at)  # the guard may take what it sees now for the hook's
    certain = judge.hazy_at < at - rest and not hooked
    readable = certain and sights.looks[-1].at > at - BLINK and sights.known_from(gpu, law, at, at - rest) <= at - rest
    if readable and at - rest + 2 * law.interval < at:
        loud = sights.worked_before(law, (gpu,), at - rest + 2 * law.interval, at)
        if loud > at - rest + 2 * law.interval:
            judge.breaks("a deadline takes a pause for the end of the work")


def warned_again(judge: "Judge", incident: str, facts: dict[str, Any]) -> None:
    """A warning that nobody gets is tried some times; then its countdown begins, and people are warned anew only long after it."""
    before, tries = judge.tries, judge.tries_again(incident, anew="attempts" not in facts)
    if incident in judge.warned or any(key[0] == incident for key in judge.gone):
        return
    stale = judge.law.grace + max(60.0, judge.law.grace)  # after that the countdown of the last try is too old
    soon = len(tries) == 1 and before[0] == incident and judge.at - before[1][-1] < min(ANEW, stale)
    began = before[1][0] if soon else tries[0]
    if (soon or len(tries) > ATTEMPTS) and max(judge.guard_at, judge.stalled, judge.ruled_at) < began:
        judge.breaks(f"a warning that nobody gets is tried {len(judge.tried[incident])} times")


def acts(judge: "Judge", now: Instant, action: str, incident: str, reason: str, attempt: str = "") -> None:
    """Something is done, or would be: the reason still holds, and people were warned; ``attempt``: by a worker."""
    law, at = judge.law, judge.at
    if reason == "person":
        _wished(judge, at)
        return
    if at <= judge.stalled:  # what came meanwhile reaches the guard now
        _saw_it(judge, at, incident)
        return
    _free(judge, at)
    _holds_good(judge, now, reason, at)
    _warned(judge, at, incident, attempt)
    if law.machine and at < judge.began + law.boot_grace - 1e-3:
        judge.breaks(f"I9: {action} {at - judge.began:.0f} s after boot or resume")


def _counts_from(judge: "Judge", at: float, incident: str) -> float | None:
    """When the countdown began that is over: with a warning that was delivered, or the last try; after a hole people are warned anew."""
    latest, anew = at - judge.law.grace + 1e-3, judge.endings.disproved.get(incident, -NEVER)
    delivered = [told for told in judge.warned.get(incident, ()) if anew < told <= latest]
    tries = judge.tries[1] if judge.tries[0] == incident else []
    exhausted = tries[-1:] if len(tries) >= ATTEMPTS and tries[-1] <= latest else []
    return max([*delivered, *exhausted], default=None)


def _saw_it(judge: "Judge", at: float, incident: str) -> None:
    """I7: a countdown in which the guard was away begins anew."""
    warned, interval = _counts_from(judge, at, incident), judge.law.interval
    ticks = [warned or at, *(tick for tick in judge.ticks if warned is not None and tick > warned), at]
    hole = max(b - a for a, b in pairwise(ticks))
    if hole > max(60.0, 1.5 * interval) + interval + 6.0:  # the last tick before a crash is not seen here
        judge.breaks(f"I7: it acts on a warning although it saw nothing for {hole:.0f} s of the countdown")


def _warned(judge: "Judge", at: float, incident: str, attempt: str) -> None:
    grace, interval = judge.law.grace, judge.law.interval
    warned = _counts_from(judge, at, incident)
    if warned is None:
        judge.breaks(f"I2: it acts without a warning {grace:.0f} s before")
        return
    due = max(warned + grace, judge.graced_at + judge.law.boot_grace, _answered(judge, at, incident))
    kept = max(due + max(60.0, grace), judge.ready.get(attempt, due))  # a worker that was begun in time is waited for
    if at - max(kept, judge.stalled) > 2 * interval + READY:
        judge.breaks(f"I2: it acts {at - due:.0f} s after the end of a countdown of {grace:.0f} s")
    if warned < judge.ruled_at:
        judge.breaks("a warning of another policy, or of before the machine slept")
    _saw_it(judge, at, incident)


def _answered(judge: "Judge", at: float, incident: str) -> float:
    """Until when a guard that came back in this countdown had to be there to be asked; unless it came back so often that this is used up."""
    grace, told = judge.law.grace, judge.warned.get(incident, [NEVER])
    answers = min(ANSWERS, grace)
    back = [began for began in judge.guards if began > told[0]]
    if not back or any(key[0] == incident for key in judge.gone):
        return -NEVER
    if at < back[-1] + answers - 1e-3 and len(back) * answers <= grace and not judge.unsaved:
        judge.breaks(f"it acts {at - back[-1]:.0f} s after it came back in a countdown: nobody had time to ask")
    return back[-1] + answers


def _wished(judge: "Judge", at: float) -> None:
    """A person's stop heeds neither work nor holds, and does not outlive a guard that was away."""
    if judge.law.forbidden:
        judge.breaks("a person's stop acts against the administrator")
    if judge.law.live and judge.may_wish is None:
        judge.breaks("a stop by hand that nobody asked for, or that was taken back")
    if judge.may_wish is None:
        return
    ticks = [judge.may_wish, *(tick for tick in judge.ticks if tick > judge.may_wish), at]
    hole = max(b - a for a, b in pairwise(ticks))
    if hole > max(60.0, 1.5 * judge.law.interval) + judge.law.interval + 6.0:
        judge.breaks(f"a stop by hand acts although nobody watched for {hole:.0f} s since it was asked for")


def goes(judge: "Judge", now: Instant, job: dict[str, Any]) -> None:
    """A waiting worker is released."""
    at, action, incident = judge.at, job["action"], job["incident"]
    if not judge.law.live or job["mode"] != "live":
        judge.breaks("a dry run released a worker")
    if incident in judge.vetoed:
        judge.breaks("a refusal is a veto, and the next action of the list went out")
    _once(judge, action, incident, at)
    _freshly(judge, incident, action, job["reason"])
    _in_turn(judge, incident, action)
    _reminded(judge, incident, job["reason"])
    acts(judge, now, action, incident, job["reason"], job["attempt"])
    again = any(key[0] == incident for key in judge.gone)
    recent = [stop for stop in judge.stops if at - stop < DAY and judge.jumped < judge.undated.get(stop, (stop,))[0]]
    if action in MACHINE and job["reason"] != "person" and not again and len(recent) >= 2:
        judge.breaks("I9: a third stop within a day and no work in between")


def _freshly(judge: "Judge", incident: str, action: str, reason: str) -> None:
    """I3: the last look is a blink ago; and a worker that was ready is not waited for."""
    at, law = judge.at, judge.law
    looks = judge.sights.looks
    if reason in {"idle", "unused"} and looks and at - looks[-1].at > BLINK:
        judge.breaks(f"I3: it acts on a reading of {at - looks[-1].at:.0f} s ago")
    told = judge.warned.get(incident, ())
    if reason == "person" or len(told) != 1 or law.interval > LEAD or (incident, action) in judge.gone:
        return
    due = max(told[0] + law.grace, judge.graced_at + law.boot_grace)
    calm = not judge.troubled(told[0] - 300.0) and judge.rest.unworked(law, at) > at - told[0] + law.interval
    if calm and len(judge.tried[incident]) == 1 and at - due > law.interval + BLINK:
        judge.breaks(f"I3: the worker was not waiting when the countdown ended {at - due:.0f} s ago")


def _once(judge: "Judge", action: str, incident: str, at: float) -> None:
    """I4: an incident acts once; only what certainly failed is tried again, after a pause."""
    results = judge.story.world.results
    for (before, done), releases in judge.gone.items():
        if before != incident:
            continue
        for released, attempt in releases:
            result = results.get(attempt, {"status": "never started"})
            if result["status"] == "started" and not (result["running"] and at - released > HUNG):
                judge.breaks(f"I4: {action} although nobody knows what became of {done}")
            if done == action and (action not in CLOUD or result["status"] == "accepted"):
                judge.breaks(f"I4: {action} twice in {incident}, and the first time it was {result}")
    same = judge.gone.get((incident, action), [])
    if same and at - same[-1][0] < PAUSES[min(len(same), len(PAUSES)) - 1]:
        judge.breaks(f"{action} is tried again after {at - same[-1][0]:.0f} s")
    if not same:
        _not_too_soon(judge, incident, action)


def _not_too_soon(judge: "Judge", incident: str, action: str) -> None:
    """The next action of the list, or giving up, comes after the tries of the one before."""
    results = judge.story.world.results
    for (before, done), releases in judge.gone.items():
        failed = [results.get(attempt, {}).get("status") == "failed" for _, attempt in releases]
        asked = any(attempt in judge.asked_about for _, attempt in releases)
        if before != incident or done == action or done not in CLOUD or asked or not all(failed):
            continue
        if judge.refused.get(done) == "another":
            continue  # its plan says now that something else must be done
        if judge.prepared[incident, done] < TRIES and releases[0][0] > max(judge.guard_at, judge.anew):
            judge.breaks(f"{done} failed for certain and was tried {judge.prepared[incident, done]} times only")


def _reminded(judge: "Judge", incident: str, reason: str) -> None:
    """A long countdown is told again at its half and in its last minute."""
    told = judge.warned.get(incident, ())
    if reason == "person" or len(told) != 1 or judge.law.grace < LONG_COUNTDOWN or judge.troubled(told[0] - ANEW):
        return
    again = any(key[0] == incident for key in judge.gone)
    times = REMINDERS if judge.law.interval <= LEAD else 1  # no look may fall into the last minute
    if not again and judge.tidings.reminded(told[0]) < times:
        judge.breaks(f"people heard {judge.tidings.reminded(told[0])} times of a countdown of {judge.law.grace:.0f} s")


def _in_turn(judge: "Judge", incident: str, action: str) -> None:
    """Down the list nothing is left out that could be tried."""
    if action not in judge.law.actions:
        return
    for before in judge.law.actions[: judge.law.actions.index(action)]:
        elsewhere = judge.refused.get(before) == "another" or before in judge.skipped.get(incident, ())
        passed_over = not judge.prepared[incident, before] and not elsewhere
        if passed_over and judge.ruled_at < judge.stage_at - 1.0 and not judge.troubled(judge.stage_at - ANEW):
            judge.breaks(f"{action} goes out, and {before} was not tried")


def prepares(judge: "Judge", incident: str, action: str, reason: str) -> None:
    """Work is saved in the last minute of a countdown; what certainly failed is decided again after a pause that grows."""
    told, tried = judge.warned.get(incident, ()), judge.tried.get(incident, ())
    if reason != "person" and len(tried) < ATTEMPTS and judge.at > judge.stalled:
        if not told:
            judge.breaks(f"a worker is made ready for {action}, and nobody was warned")
        elif judge.at < told[0] + judge.law.grace - LEAD - 1.0:
            judge.breaks(f"a worker is made ready {told[0] + judge.law.grace - judge.at:.0f} s before it is time")
    same = judge.gone.get((incident, action), [])
    results = judge.story.world.results
    if not same or any(results.get(attempt, {}).get("status") != "failed" for _, attempt in same):
        return
    pause, failed_at = PAUSES[min(len(same), len(PAUSES)) - 1], results[same[-1][1]]["ended"]
    if judge.at - failed_at < pause - 1e-6 and judge.guard_at < same[-1][0]:
        judge.breaks(f"{action} is decided again {judge.at - failed_at:.0f} s after it failed")


def failed(judge: "Judge", facts: dict[str, Any]) -> None:
    """It is given up, and the time of the next try is promised."""
    if judge.stage == "gone":
        _not_too_soon(judge, facts["incident"], "")
    result = last_result(judge, facts["incident"])
    if result.get("status") == "done":
        judge.breaks("it is said to have failed, and it was done")
    if result.get("status") == "started" and result["running"] and judge.at - judge.went < HUNG and result_known(judge):
        judge.breaks(f"it is said to have failed {judge.at - judge.went:.0f} s after its request, and it is under way")
    if result.get("status") == "started" and not result["running"] and result_known(judge):
        judge.breaks("it is said to have failed, and nobody knows what became of it")


def given_up(judge: "Judge", facts: dict[str, Any]) -> None:
    """Nobody knows what became of it: not where whoever asks can see that nothing happened."""
    status = last_result(judge, facts["incident"]).get("status")
    if status in {"accepted", "failed", "refused"} and result_known(judge):
        judge.breaks(f"nobody knows what became of it, they say, and it was {status}")


def last_result(judge: "Judge", incident: str) -> dict[str, Any]:
    """What truly became of the last request of an incident."""
    tried = [one for key, entries in judge.gone.items() if key[0] == incident for one in entries]
    result: dict[str, Any] = judge.story.world.results.get(max(tried, default=(0.0, ""))[1], {})
    return result


def result_known(judge: "Judge") -> bool:
    """Whether nothing kept the guard from being told what became of its last request."""
    troubles, went = judge.story.troubles, judge.went
    asked = troubles.failed_last("confirm", "spawn:act", "send", "kill")
    return asked < went - 1.0 and max(judge.guard_at, judge.stalled, judge.ruled_at) < went


def gives_up(judge: "Judge", facts: dict[str, Any]) -> None:
    """Not possible: a plan was refused, or it would be the third stop in a day."""
    at = judge.at
    recent = [stop for stop in judge.tried_stops if at - stop < DAY + 60.0]
    doubt = max(judge.jumped, judge.doubted) > at - 3 * DAY and judge.tried_stops
    elsewhere = all(judge.refused.get(action) in {"refuse", "another"} for action in judge.law.actions)
    refused = (
        "refuse" in judge.refused.values()
        or elsewhere
        or (judge.ever_refused and at - judge.guard_at <= judge.law.interval)
    )
    refused = refused or facts["incident"] in judge.ever_vetoed
    if len(recent) < 2 and not refused and not doubt and judge.may_wish is None:
        judge.breaks("it says that it cannot, and no plan was refused")


def alarms(judge: "Judge", facts: dict[str, Any]) -> None:
    """People hear that GPUs cannot be read: then one could not be, lately, or nobody was there to read it."""
    del facts
    law = judge.law
    since = judge.dues.alarmed_since - (law.window + law.alarm + (law.unused or 0.0)) - 2 * law.interval
    last = max((tick for tick in judge.ticks if tick <= since), default=since)  # a hole may reach back over that
    ticks = [last, *(tick for tick in judge.ticks if tick > since), judge.at]
    if law.lacking or max(judge.hazy_at, judge.unwritten_at) > since or len(ticks) > len(judge.ticks):
        return
    if max(b - a for a, b in pairwise(ticks)) > 1.5 * law.interval:
        return
    recent = (look for look in judge.sights.looks if look.at > since)
    if all(look.seen[gpu] is not None for look in recent for gpu in law.judged):
        judge.breaks("I6: an alarm for GPUs that were read all the time")
