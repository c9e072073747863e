"""One account of EC2 with the throttling that the real service has, and the plug-in's own session with it.

Sources: EC2 developer guide "Request throttling for the Amazon EC2 API" (request tokens by category and resource tokens,
for each account and region; each API has a bucket of its own, which a dry run uses too), EC2 API reference "Error codes".
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from costguard.cloud.retry import LateError
from costguard_aws import errors
from costguard_aws.session import WHOLE_SECONDS, Session

DESCRIBING = (100.0, 20.0)
UNFILTERED = (50.0, 10.0)
CHANGING = (50.0, 5.0)
LIMITS = {
    "DescribeInstances": UNFILTERED,
    "DescribeInstanceAttribute": DESCRIBING,
    "DescribeInstanceTypes": DESCRIBING,
    "DescribeAutoScalingInstances": DESCRIBING,
    "StopInstances": CHANGING,
}
"""Tokens of a full bucket, and how many come back each second."""


class Account:
    """All machines of one account in one region. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = {name: (most, clock()) for name, (most, _) in LIMITS.items()}
        self.asked: list[tuple[float, str, bool]] = []  # when, what, and whether it was answered
        self.stopped: dict[str, float] = {}
        self.stops: Counter[str] = Counter()  # requests that EC2 took, by machine

    def ask(self, name: str, **parameters: Any) -> dict[str, Any]:
        """One call. Raises the SDK's own error."""
        now = self._clock()
        taken = self._take(name, now)
        self.asked.append((now, name, taken))
        if not taken:
            raise refusal("RequestLimitExceeded", "Request limit exceeded.", 503, name)
        return self._answer(name, parameters, now)

    def _take(self, name: str, now: float) -> bool:
        most, rate = LIMITS[name]
        left, before = self._left[name]
        left = min(most, left + (now - before) * rate)
        self._left[name] = (left - 1 if left >= 1 else left, now)
        return left >= 1

    def _answer(self, name: str, parameters: dict[str, Any], now: float) -> dict[str, Any]:
        if name == "DescribeInstanceAttribute":
            value: object = "stop" if parameters["Attribute"] == "instanceInitiatedShutdownBehavior" else False
            return {parameters["Attribute"][0].upper() + parameters["Attribute"][1:]: {"Value": value}}
        if name == "DescribeInstanceTypes":
            return {"InstanceTypes": [{"HibernationSupported": False, "InstanceStorageSupported": False}]}
        if name == "DescribeAutoScalingInstances":
            return {"AutoScalingInstances": []}
        (me,) = parameters["InstanceIds"]
        if name == "DescribeInstances":
            state = "running" if me not in self.stopped else "stopped" if now > self.stopped[me] + 20 else "stopping"
            launched = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
            found = {"InstanceId": me, "State": {"Name": state}, "LaunchTime": launched, "InstanceType": "g5g.xlarge"}
            return {"Reservations": [{"OwnerId": "123456789012", "Instances": [found]}]}
        if parameters.get("DryRun"):
            raise refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412, name)
        self.stops[me] += 1
        self.stopped.setdefault(me, now)
        return {
            "StoppingInstances": [{"InstanceId": me, "CurrentState": {"Name": "stopping"}}],
            "ResponseMetadata": {"RequestId": f"request-{me}-{self.stops[me]}"},
        }

    def busiest(self, *names: str, since: float = 0.0) -> int:
        """The largest number of calls in any whole second, of these or of all."""
        found = Counter(int(at) for at, name, _ in self.asked if at >= since and (not names or name in names))
        return max(found.values(), default=0)

    def throttled(self, since: float = 0.0) -> int:
        """How many calls were refused for the rate."""
        return sum(1 for at, _, taken in self.asked if at >= since and not taken)


def refusal(code: str, words: str, status: int, name: str) -> ClientError:
    """As the SDK raises it."""
    answer = {"Error": {"Code": code, "Message": words}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, name)


class FleetSession(Session):
    """The plug-in's session, with its repeating and its translation of errors; only the wire is shorter."""

    def __init__(self, account: Account, like: Session) -> None:
        vars(self).update(vars(like))  # logged in already: that costs no call of these services
        self.account = account

    def send(self, service: str, operation: str, within: float = WHOLE_SECONDS, **parameters: Any) -> dict[str, Any]:
        """Answered at once, and in the thread that asks: a limit in real seconds would hit whoever the computer left waiting."""
        doing = f"{service}:{operation}"
        try:
            if within <= 0.0:
                raise LateError("no time was left for it")  # noqa: TRY301 - as `bounded` does
            return self.account.ask(operation, **parameters)
        except (ClientError, LateError) as error:
            raise errors.translate(error, doing) from error
