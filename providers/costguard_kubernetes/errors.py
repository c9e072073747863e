"""What the API server says when it refuses or fails, and the way to it, as a SchedulerError: the one place where that is read.

Source: Kubernetes' API conventions (status codes, `Status`), and the page on API-initiated eviction.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from costguard.cloud.api import Sent, Trouble
from costguard.cloud.errors import line
from costguard.cloud.plain import retry_after
from costguard.masking import mask
from costguard.tasks.api import SchedulerError
from costguard_kubernetes.kinds import at

BUDGET = "DisruptionBudget"
"""The code of an eviction that a disruption budget does not allow."""
CHANGED = "Conflict"
"""The code of a request about an object that has changed since it was looked at."""
EXISTS = "AlreadyExists"
"""The code of a request to make what is there."""
UNSERVED = "NotServed"
"""The code of a kind of object, or a version of it, that the server does not have: nothing follows for the object itself."""

RIGHTS = "`costguard permissions kubernetes` prints the Role that its service account needs"
ACCOUNT = "mount the service account (automountServiceAccountToken, or a projected volume and task.kubernetes.service_account)"
WAY = "check that the pod can reach the API server (NetworkPolicy, KUBERNETES_SERVICE_HOST), and that this is the cluster's own CA"
SERVED = "see whether the definition of that kind is still installed: `kubectl api-resources`"
BUDGETS = "`kubectl get pdb` shows the budget; whoever owns it may change it"

_TOO_MANY_BUDGETS = "more than one poddisruptionbudget"
_VIOLATES = "violate the pod's disruption budget"
_RECKONED = "still being processed"
"""Of a budget that was made or changed a moment ago: what it allows is known soon."""

_NO_PATH = b"404 page not found"
_NOT_FOUND, _TOO_MANY = 404, 429
"""Of these the API server has answers in a line of text, too, before it has looked at what was asked for."""


class Said(NamedTuple):
    """An answer that is no success. ``status``: the body as a `Status`; None where it is none, so that somebody else answers.

    ``text``: the body itself.
    """

    code: int
    status: Mapping[str, Any] | None
    pause: object = None
    text: bytes = b""

    @property
    def message(self) -> str:
        """Its own words, on one line."""
        return mask(line(at(self.status, "message") or at(self.status, "reason") or f"status {self.code}"))

    @property
    def reason(self) -> str:
        """Its own code, such as ``NotFound``."""
        return str(at(self.status, "reason") or "")

    @property
    def causes(self) -> set[str]:
        """More codes, of what stands in the way."""
        return {str(at(one, "reason")) for one in self._listed}

    @property
    def reckoned(self) -> bool:
        """Whether a disruption budget says no only because it is being reckoned."""
        return any(_RECKONED in str(at(one, "message")) for one in self._listed)

    @property
    def unserved(self) -> bool:
        """Whether it is the kind or its version that is not there: an object that is missing is named."""
        if self.code != _NOT_FOUND:
            return False
        return self.text.strip() == _NO_PATH if self.status is None else not at(self.status, "details", "name")

    @property
    def _listed(self) -> list[Any]:
        listed = at(self.status, "details", "causes")
        return listed if isinstance(listed, list) else []

    @property
    def seconds(self) -> float:
        """How long the server wants to be left alone."""
        return max(retry_after(self.pause), retry_after(at(self.status, "details", "retryAfterSeconds")))


def explain(said: Said, doing: str, effect: bool) -> SchedulerError:
    """The error of an answer; a mere question leaves no doubt."""
    doubt: Sent = "perhaps" if effect and said.code >= 500 else "no"
    if said.unserved:
        text = f"{doing}: the API server has no such kind of object, or not in this version"
        return SchedulerError("internal", text, code=UNSERVED, hint=SERVED, retry_after=None)
    if said.status is None and said.code == _TOO_MANY:
        text = f"{doing}: the API server, or what stands before it, has too many requests"
        return SchedulerError("throttled", text, code="TooManyRequests", retry_after=said.seconds)
    if said.status is None:
        text = f"{doing}: status {said.code}, and not from the API server: a proxy or another service answers"
        sent: Sent = doubt if doubt == "perhaps" or not effect else "hardly"
        return SchedulerError("unreachable", text, code="foreign_answer", hint=WAY, sent=sent)
    text = f"{doing}: {said.message}"
    lower = said.message.lower()
    if BUDGET in said.causes and said.reckoned:
        return SchedulerError("throttled", text, code=said.reason, hint=BUDGETS, retry_after=max(said.seconds, 1.0))
    if BUDGET in said.causes or _VIOLATES in lower:
        return SchedulerError("refused", text, code=BUDGET, hint=BUDGETS)
    if _TOO_MANY_BUDGETS in lower:
        return SchedulerError("refused", text, code=BUDGET, hint=BUDGETS)
    trouble, hint = _KNOWN.get(said.code, ("internal" if said.code >= 500 else "refused", ""))
    if said.code == 403 and "cannot" not in lower:
        trouble, hint = "refused", "the message names who refused: a policy or a quota of the cluster"
    return SchedulerError(
        trouble, text, code=said.reason or str(said.code), hint=hint, sent=doubt, retry_after=said.seconds
    )


_KNOWN: Mapping[int, tuple[Trouble, str]] = {
    401: ("credentials", f"the token was not accepted: {ACCOUNT}"),
    403: ("denied", RIGHTS),
    404: ("gone", ""),
    408: ("unreachable", ""),
    409: ("internal", ""),
    410: ("internal", ""),
    429: ("throttled", ""),
}
"""By status: what it means, and what to do. Of 409 and 410 a fresh look is the cure."""


def unreachable(doing: str, why: object) -> SchedulerError:
    """The request never left."""
    text = f"{doing}: the API server cannot be reached ({mask(line(why))})"
    return SchedulerError("unreachable", text, code="no_connection", hint=WAY)


def no_answer(doing: str, why: object, effect: bool) -> SchedulerError:
    """It left, and no whole answer came."""
    text = f"{doing}: the request was sent, and no whole answer came ({mask(line(why))})"
    return SchedulerError("unreachable", text, code="no_answer", hint=WAY, sent="silent" if effect else "no")


def garbage(doing: str, effect: bool) -> SchedulerError:
    """A success that is not the API's."""
    text = f"{doing}: the answer is not the API server's"
    return SchedulerError("internal", text, code="garbage", hint=WAY, sent="silent" if effect else "no")


def no_account(why: object) -> SchedulerError:
    """The files of the service account cannot be used."""
    return SchedulerError("credentials", f"the service account cannot be used: {why}", code="no_token", hint=ACCOUNT)
