"""Send, look, decide: the request that ends a machine, and what became of it. Written once, for every cloud.

A request is sent until it is accepted, refused, or out of time. What may have been heard is looked at before it is sent
again, and at the end: a machine that is seen to end was accepted, whatever the answers said. `CloudError.sent` has the
doubt that a failed try leaves, and the gravest one of all tries counts: after *silent* nobody says *failed*.
"""

import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from costguard.cloud.api import DOUBTS, CloudError, Sent
from costguard.cloud.retry import LEAST_TRY_SECONDS, until
from costguard.plans import Plan, Result

LOOK_SECONDS, LEAST_LOOK_SECONDS = 5.0, 0.5
"""Seconds for one look at the machine; the last look gets at least the second number, even beyond the deadline."""

_FOR_A_LOOK = 0.2  # the greatest share of the time that is kept for the last look

Repeat = Literal["same", "seen", "never"]
"""When a request that may have been heard is sent again. ``same``: whenever it may help, for the cloud carries an id out
once. ``seen``: only after a look at a machine that still runs. ``never``: a second one would have a second effect."""


class Look(NamedTuple):
    """What one look at the machine showed: a clause for people, and whether it is on its way to its end.

    ``proof`` stands for a request id where a machine ends that has none.
    """

    words: str
    ends: bool
    proof: str = ""


class EndRequest(NamedTuple):
    """What ends this machine.

    ``send`` makes one try within so many seconds, and raises CloudError. ``look`` answers within so many seconds, None when
    nobody can look. ``id`` is what the cloud's audit log has of each try; ``settles`` is how many seconds a machine
    that heard a request may need to show it. With ``young`` a denied right is waited for. ``thing``: what ends, for people.
    """

    cloud: str
    send: Callable[[float], Result]
    look: Callable[[float], Look | None]
    id: str = ""
    repeat: Repeat = "seen"
    settles: float = 0.0
    young: bool = False
    thing: str = "machine"


def unsent(decided: Plan, seen: Look | None) -> Result | None:
    """The result without a request: the plan refuses, or the machine is ending already. None: the request may be sent."""
    if not decided.may_act or seen is None:
        codes = ", ".join(finding.code for finding in decided.findings)
        why = f"{decided.findings[0].text} ({codes})" if codes else "the machine's state could not be read"
        return Result("refused", f"nothing was sent: {why}")
    if any(finding.code == "ends_already" for finding in decided.findings):  # that it does end is for `confirm` to say
        return Result("accepted", f"seen stopping: {seen.words}, so nothing was sent", seen.proof)
    return None


def unchanged(recorded: Result | None, shows: str) -> Result:
    """The result when the cloud shows no effect: what was recorded, with what the cloud shows."""
    if recorded is None:
        return Result("unknown", f"no record of this attempt; {shows}")
    return recorded._replace(detail=f"{recorded.detail}; {shows}")


def send(request: EndRequest, last: float) -> Result:
    """Send it, and say what became of it by the moment ``last`` of the monotonic clock: ``accepted``, ``refused``, ``failed`` or ``unknown``.

    Raises nothing of its own; only a CloudError of ``send`` and ``look`` is understood.
    """
    attempt = _Attempt(request, last)
    try:
        return until(attempt.end, attempt.once, attempt.again)
    except CloudError as error:
        return attempt.settled(error)


class _Attempt:
    """The tries of one request, and what is known after them.

    ``_doubt`` is the gravest one of the tries so far, ``_seen`` the last look, ``_fresh`` whether that was after the last try.
    """

    def __init__(self, request: EndRequest, last: float) -> None:
        left = last - time.monotonic()
        self.end = last - min(LOOK_SECONDS, left * _FOR_A_LOOK)
        self._request, self._last = request, last
        self._doubt: Sent = "no"
        self._seen: Look | None = None
        self._fresh = self._given_up = False
        self._error: CloudError | None = None

    def once(self, left: float) -> Result:
        """Look, where a try before may have been heard; then send. Raises CloudError."""
        if self._error is not None and self._doubt != "no":
            self._look()
            if self._seen is not None and self._seen.ends:
                return self._heard(self._error, self._seen)
            blind = self._seen is None and self._doubt == "silent" and self._request.repeat != "same"
            left = self.end - time.monotonic()
            self._given_up = blind or left < LEAST_TRY_SECONDS
            if self._given_up:
                raise self._error
        try:
            return self._request.send(left)
        except CloudError as error:
            self._error, self._fresh = error, False
            self._doubt = max(self._doubt, error.sent, key=DOUBTS.index)
            if error.sent == "silent" and self._request.settles:
                self._look()  # it may end before it has settled, and this machine with it
                if self._seen is not None and self._seen.ends:
                    return self._heard(error, self._seen)
            raise

    def again(self, error: CloudError) -> float | None:
        """Seconds to wait at least before another try; None: there is none."""
        if self._given_up or (error.in_doubt and self._request.repeat == "never"):
            return None
        if error.trouble == "denied" and self._request.young:
            return 0.0
        if error.sent == "silent":
            return max(error.retry_after or 0.0, self._request.settles)
        return error.retry_after

    def settled(self, error: CloudError) -> Result:
        """No try was accepted: the last look, and what that makes of the last error."""
        if self._doubt != "no" and not self._fresh:
            self._look()
        seen, doubt = self._seen, self._doubt
        if seen is not None and seen.ends:
            return self._heard(error, seen)
        hint = f"; {error.hint}" if error.hint else ""
        blind = doubt == "silent" and seen is None  # a machine that is being deleted loses its rights with it
        if not error.technical and not blind:
            return Result("refused", f"{error.told}{hint}")
        undecided = doubt == "perhaps" and (seen is None or self._request.repeat == "never")
        if doubt == "silent" or undecided:
            return Result("unknown", self._undecided(error) + hint)
        shows = f"; {seen.words}" if seen is not None else ""
        return Result("failed", f"nothing was accepted: {error.told}{shows}{hint}")

    def _undecided(self, error: CloudError) -> str:
        seen, number = self._seen, f" (request {self._request.id})" if self._request.id else ""
        shows = seen.words if seen is not None else f"the {self._request.thing}'s state could not be read"
        earlier = "" if error.in_doubt else "; an earlier request had no answer"
        return f"{error.told}{earlier}; unknown whether {self._request.cloud} accepted it{number}: {shows}"

    def _heard(self, error: CloudError, seen: Look) -> Result:
        """No answer said that it was accepted, but the machine shows it. The proof is the request's own id, which the audit log has."""
        if not error.technical:  # somebody else, or an earlier try, has ended it
            text = f"seen stopping: {seen.words} ({error.told})"
        else:
            answer = "the answer was lost" if self._doubt == "silent" else "the answer was an error"
            text = f"accepted: {answer} ({error.told}), but the {self._request.thing} is seen stopping: {seen.words}"
        return Result("accepted", text, self._request.id or seen.proof)

    def _look(self) -> None:
        now = time.monotonic()
        self._seen = self._request.look(max(LEAST_LOOK_SECONDS, min(LOOK_SECONDS, self._last - now)))
        self._fresh = True
