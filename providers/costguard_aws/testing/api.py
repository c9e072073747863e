"""EC2 and EC2 Auto Scaling on loopback: moto, with the refusals that the real services have and moto lacks.

Added: one-time Spot requests cannot be stopped; persistent ones can; hibernation needs an instance launched
for it and a type that can; a stopped member of a group is terminated, unless it is in standby, which it enters some
time after the answer; stop protection holds back stop and termination, with EC2's own words; a terminated
instance stays so; a group refuses to shrink below its minimum; a denied right is ``UnauthorizedOperation`` 403
(also for a dry run); a stop takes a while; request ids are unique. And the troubles of `Fault`.
"""

import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

from costguard.testing.web import CUT, Answer, Server
from costguard.testing.web import Request as WebRequest
from costguard_aws.testing import secret_store, wire
from costguard_aws.testing.secret_store import Kept

Kind = Literal[
    "throttle", "internal", "internal_after", "cut_before", "cut_after", "ignore", "silent", "expired", "skewed",
    "page", "page_after", "blocked", "bare", "drip", "huge_after",
]  # fmt: skip
"""``*_after``: the request has its effect all the same; ``ignore``: accepted, and nothing happens.

``drip`` answers with one byte a second, after the effect. ``page`` is a status 200 with the page of something that stands in between, ``blocked`` the same with 403,
``bare`` a 407 without any. ``huge_after`` is a right answer with more blanks at its end than any answer has.
"""

_PAGE = b"<html><body>Please log in to this network.</body></html>"
_HUGE = 9 * 2**20  # bytes
_LOOKING = ("Describe", "Get")
_STOPPED, _GONE = ("stopped", 80), ("terminated", 48)
_SPOT_STOP = (
    "You can't stop the Spot Instance '{id}' because it is associated with a one-time Spot Instance request. "
    "You can only stop Spot Instances associated with persistent Spot Instance requests."
)
_PROTECTED = "The instance '{id}' may not be {done}. Modify its '{flag}' instance attribute and try again."
_MINIMUM = (
    "Currently, desiredSize equals minSize ({size}). Terminating instance without replacement will violate group's "
    "min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size."
)
_STANDBY = (
    "AutoScalingGroup {group} has min-size={minimum}, max-size={maximum}, and desired-size={desired}. To place into "
    "standby 1 instance, please update the AutoScalingGroup sizes appropriately."
)
_REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "throttle": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "internal": (500, "InternalError", "An internal error has occurred"),
    "internal_after": (500, "InternalError", "An internal error has occurred"),
    "expired": (400, "ExpiredToken", "The security token included in the request is expired"),
    "skewed": (400, "RequestExpired", "Request has expired."),
}


class Request(NamedTuple):
    """One call: its name, its parameters, and what its client called itself."""

    action: str
    parameters: Mapping[str, str]
    agent: str
    answered: int

    @property
    def dry(self) -> bool:
        """Whether it asked for the right alone."""
        return self.parameters.get("DryRun") == "true"


class Fault(NamedTuple):
    """A trouble for the next ``times`` calls of one action (``*``: of any)."""

    kind: Kind
    action: str
    times: int


class Nature(NamedTuple):
    """What moto does not know of an instance."""

    spot: str = ""
    spot_state: str = "active"
    launch_group: str = ""
    hibernation: bool = False
    block: str = ""
    reservation: str = ""
    operator: str = ""
    tenancy: str = ""
    root_device: str = ""


class SpotPrice(NamedTuple):
    """What a type costs in a zone from a moment on (``2031-01-31T18:00:00Z``)."""

    type: str
    zone: str
    price: str
    at: str
    product: str = "Linux/UNIX"


class Api:
    """The services. ``denied`` are actions without a right; ``slow`` is how many looks still see ``stopping``.

    ``entering`` is how many looks still see a member on its way into standby. ``secrets`` are those of Secrets Manager, by name
    and by ARN.
    """

    server: Server
    """While it runs."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.slow = self.entering = 1
        self.log: list[Request] = []
        self.url = ""
        self.natures: dict[str, Nature] = {}
        self.spot_prices: list[SpotPrice] = []
        self.secrets: dict[str, Kept] = {}
        self._faults: list[Fault] = []
        self._looks: dict[str, int] = {}
        self._enter = 0
        self._lock = threading.Lock()
        self._moto = wire.Moto()
        self._released = threading.Event()

    def fail(self, kind: Kind, action: str = "*", times: int = 1) -> None:
        """Add a trouble of an action, of all (``*``), or of every dry run (``DryRun``)."""
        self._faults.append(Fault(kind, action, times))

    def heal(self) -> None:
        """Take all troubles back."""
        self._faults.clear()

    def calls(self, *actions: str, dry: bool = False) -> list[Request]:
        """The calls of these actions (none named: all that are no questions)."""
        return [
            request
            for request in self.log
            if request.dry is dry
            and (request.action in actions if actions else not request.action.startswith(_LOOKING))
        ]

    def state(self, number: str) -> str:
        """What an instance really is, whatever a look still sees."""
        known = self._moto.instance(number)
        return known.state if known else ""

    @contextmanager
    def running(self) -> Iterator["Api"]:
        """The services on a free port of loopback; the address for both is then in ``url``."""
        self._moto.reset()
        with Server(self._served) as self.server:
            self.url = self.server.url
            try:
                yield self
            finally:
                self._released.set()

    def _served(self, request: WebRequest) -> Answer:
        found = self.answer(request.headers, request.body)
        return CUT if found is None else found._replace(headers={**wire.XML, **found.headers})

    def answer(self, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """What becomes of one request; None: the connection is cut."""
        stored = headers.get("x-amz-target") == secret_store.TARGET
        parameters = {} if stored else dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = "GetSecretValue" if stored else parameters.get("Action", "")
        with self._lock:  # as the real services, one change of an instance at a time
            fault = self._fault(action, parameters)
            answer = self._outcome(action, parameters, fault, headers, body)
            status = answer.status if answer else 0
            self.log.append(Request(action, parameters, headers.get("user-agent", ""), status))
        if fault == "silent":
            self._released.wait(30)
            return None
        return answer

    def _fault(self, action: str, parameters: Mapping[str, str]) -> str:
        hit = {"DryRun"} if parameters.get("DryRun") == "true" else {"*", action}
        for place, fault in enumerate(self._faults):
            if fault.action in hit and fault.times > 0:
                self._faults[place] = fault._replace(times=fault.times - 1)
                return fault.kind
        return ""

    def _outcome(
        self, action: str, parameters: Mapping[str, str], fault: str, headers: Mapping[str, str], body: bytes
    ) -> Answer | None:
        if fault in {"cut_before", "silent"}:
            return None
        if fault in {"page", "blocked"}:
            return Answer(200 if fault == "page" else 403, _PAGE)
        if fault == "bare":
            return Answer(407, b"")
        if action == "GetSecretValue":
            return secret_store.answer(self.secrets, headers, body, fault)._replace(drips=float(fault == "drip"))
        if fault in _REFUSALS and fault != "internal_after":
            return wire.refusal(action, *_REFUSALS[fault])
        refused = self._denied(action) or self._refused(action, parameters)
        if refused:
            return wire.refusal(action, *refused)
        if fault == "ignore":
            return wire.pretend(action, wire.instances(parameters))
        answer = self._finish(action, parameters, self._moto.ask(headers, body))
        if fault == "internal_after":
            return wire.refusal(action, *_REFUSALS[fault])
        if fault == "page_after":
            return Answer(200, _PAGE)
        if fault == "huge_after":
            return answer._replace(body=answer.body + b" " * _HUGE)
        return None if fault == "cut_after" else answer._replace(drips=float(fault == "drip"))

    def _denied(self, action: str) -> tuple[int, str, str] | None:
        if action not in self.denied:
            return None
        if wire.is_group(action):
            return 403, "AccessDenied", f"User is not authorized to perform: autoscaling:{action}"
        text = f"You are not authorized to perform this operation. User is not authorized to perform: ec2:{action} "
        return 403, "UnauthorizedOperation", text + "Encoded authorization failure message: gXK5secret"

    def _refused(self, action: str, parameters: Mapping[str, str]) -> tuple[int, str, str] | None:
        """The refusals of the real services; a dry run sees none of them."""
        if parameters.get("DryRun") == "true":
            return None
        if action == "TerminateInstanceInAutoScalingGroup":
            member = self._moto.member(parameters.get("InstanceId", ""))
            small = member is not None and member.desired <= member.minimum
            return (400, "ValidationError", _MINIMUM.format(size=member.minimum)) if member and small else None
        if action == "EnterStandby":
            return self._refused_standby(parameters)
        if action == "CreateTags":
            return _refused_tags(parameters)
        if action not in {"StopInstances", "TerminateInstances"}:
            return None
        for number in wire.instances(parameters):
            found = self._refused_for(action, number, hibernate=parameters.get("Hibernate") == "true")
            if found:
                return found
        return None

    def _refused_standby(self, parameters: Mapping[str, str]) -> tuple[int, str, str] | None:
        (number,) = wire.instances(parameters)
        member = self._moto.member(number)
        if member is None or member.group != parameters.get("AutoScalingGroupName"):
            return 400, "ValidationError", f"The instance {number} is not part of Auto Scaling group."
        if member.state != "InService":
            return 400, "ValidationError", f"The instance {number} is not in InService."
        if parameters.get("ShouldDecrementDesiredCapacity") == "true" and member.desired <= member.minimum:
            return 400, "ValidationError", _STANDBY.format(**member._asdict())
        return None

    def _refused_for(self, action: str, number: str, *, hibernate: bool) -> tuple[int, str, str] | None:
        nature = self.natures.get(number, Nature())
        known = self._moto.instance(number)
        if known is None:
            return None  # moto says NotFound itself
        stop = action == "StopInstances"
        for flag, holds in (
            ("disableApiStop", known.api_stop),
            ("disableApiTermination", known.api_termination and not stop),
        ):
            if holds:
                done = "stopped" if stop else "terminated"
                return 400, "OperationNotPermitted", _PROTECTED.format(id=number, done=done, flag=flag)
        if not stop:
            return None
        if known.state in {"terminated", "shutting-down"}:
            return (
                400,
                "IncorrectInstanceState",
                f"The instance '{number}' is not in a state from which it can be stopped.",
            )
        if nature.spot == "one-time":
            return 400, "UnsupportedOperation", _SPOT_STOP.format(id=number)
        if nature.root_device == "instance-store":
            return (
                400,
                "UnsupportedOperation",
                f"The instance '{number}' does not have an 'ebs' root device type and cannot be stopped.",
            )
        if hibernate and not (nature.hibernation and known.hibernates):
            return 400, "UnsupportedHibernationConfiguration", f"The instance '{number}' is not hibernation enabled."
        return None

    def _finish(self, action: str, parameters: Mapping[str, str], answer: Answer) -> Answer:
        """What moto leaves out of an answer that it has given."""
        text = re.sub(
            r"<(requestId|RequestID|RequestId)>[^<]*<",
            lambda found: f"<{found[1]}>{uuid.uuid4()}<",
            answer.body.decode(),
        )
        if answer.status == 200 and action in {"StopInstances", "TerminateInstances"}:
            for number in wire.instances(parameters):
                self._looks[number] = self.slow
                member = self._moto.member(number)
                if action == "StopInstances" and member and member.state != "Standby":
                    self._moto.terminate(number)  # its health check fails
        if answer.status == 200 and action == "EnterStandby":
            self._enter = self.entering
        if action == "DescribeAutoScalingInstances" and self._enter > 0:
            self._enter -= 1
            text = text.replace("<LifecycleState>Standby<", "<LifecycleState>EnteringStandby<")
        if answer.status == 200 and action == "DescribeInstances":
            text = wire.described(text, self.natures, self._ending)
        if action == "DescribeSpotPriceHistory":
            return wire.spot_prices(parameters, self.spot_prices)
        if action == "DescribeSpotInstanceRequests":
            return wire.spot_requests(parameters, self.natures)
        return Answer(answer.status, text.encode())

    def _ending(self, number: str) -> bool:
        """Whether a look at this instance still sees it on its way."""
        left = self._looks.get(number, 0)
        self._looks[number] = max(0, left - 1)
        return left > 0


def _refused_tags(parameters: Mapping[str, str]) -> tuple[int, str, str] | None:
    """Values that are too long or have other characters; the words are not EC2's own. Moto takes anything."""
    values = [value for name, value in parameters.items() if re.fullmatch(r"Tag\.\d+\.Value", name)]
    wrong = [value for value in values if not re.fullmatch(r"[\w +=._:/@-]{0,256}", value)]
    return (400, "InvalidParameterValue", f"Value ( {wrong[0]} ) for parameter Value is invalid.") if wrong else None


def client(api: Api, service: str, region: str) -> Any:
    """The SDK's own client for the services, to set up a test."""
    import boto3

    keys = {f"aws_{name}": "setup" for name in ("access_key_id", "secret_access_key")}
    return boto3.client(service, region_name=region, endpoint_url=api.url, **keys)
