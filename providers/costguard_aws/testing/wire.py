"""What goes over the wire: HTTP in front of moto, and the XML that moto's answers lack.

Sources: EC2 API reference "Making requests" (errors below ``Response``), Auto Scaling API reference "Common
errors" (below ``ErrorResponse``), and the shapes of `botocore`'s service models.
"""

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from costguard.testing.web import Answer

if TYPE_CHECKING:
    from costguard_aws.testing.api import Nature, SpotPrice

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


XML: Mapping[str, str] = {"Content-Type": "text/xml;charset=UTF-8"}


class Known(NamedTuple):
    """What moto keeps of an instance."""

    state: str
    api_stop: bool
    api_termination: bool
    hibernates: bool


class Member(NamedTuple):
    """What moto keeps of a group's member."""

    group: str
    state: str
    minimum: int
    maximum: int
    desired: int


class Moto:
    """The test server, in this process and without its own socket.

    Instances of earlier tests stay in it: their ids never come again, and to forget them costs a second.
    """

    def __init__(self) -> None:
        self._client = _client()

    def reset(self) -> None:
        """Forget what has a name of its own."""
        import moto.backends

        for backend in moto.backends.get_backend("autoscaling").values():
            backend.reset()

    def ask(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Its answer to a request."""
        kept = {name: value for name, value in headers.items() if name.lower() not in {"content-length", "connection"}}
        answer = self._client.post("/", headers=kept, data=body)
        return Answer(answer.status_code, answer.get_data())

    def instance(self, number: str) -> Known | None:
        """What it keeps of an instance, in whichever region."""
        for region, backend in self._regions("ec2"):
            for found in backend.all_instances():
                if found.id == number:
                    return Known(
                        found._state.name,  # noqa: SLF001 - moto has no other way to it
                        _flag(found.disable_api_stop),
                        _flag(found.disable_api_termination),
                        found.instance_type in _hibernating(region),
                    )
        return None

    def member(self, number: str) -> Member | None:
        """An instance as the member of its group."""
        for _, backend in self._regions("autoscaling"):
            for group in backend.autoscaling_groups.values():
                for one in group.instance_states:
                    if one.instance.id == number:
                        sizes = map(int, (group.min_size, group.max_size, group.desired_capacity))
                        return Member(group.name, one.lifecycle_state, *sizes)
        return None

    def terminate(self, number: str) -> None:
        """End an instance, as its group does with one that is not healthy."""
        for _, backend in self._regions("ec2"):
            if number in {found.id for found in backend.all_instances()}:
                backend.terminate_instances([number])

    @staticmethod
    def _regions(service: str) -> Iterator[tuple[str, Any]]:
        import moto.backends

        for account in moto.backends.get_backend(service).values():
            yield from account.items()


@functools.cache
def _client() -> Any:
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.test import Client

    return Client(DomainDispatcherApplication(create_backend_app))


@functools.cache
def _hibernating(region: str) -> frozenset[str]:
    """The types of a region that can hibernate, from AWS's own data in moto."""
    import moto.backends

    backend = next(iter(moto.backends.get_backend("ec2").values()))[region]
    return frozenset(
        kind["InstanceType"] for kind in backend.describe_instance_types() if kind.get("HibernationSupported")
    )


def is_group(action: str) -> bool:
    """Whether an action belongs to EC2 Auto Scaling."""
    return "AutoScaling" in action or action in {"EnterStandby", "ExitStandby"}


def instances(parameters: Mapping[str, str]) -> list[str]:
    """The instances that a request names."""
    return [value for name, value in parameters.items() if name.startswith("InstanceId")]


def refusal(action: str, status: int, code: str, message: str) -> Answer:
    """An error as the service writes it."""
    error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
    if is_group(action):
        body = f"<ErrorResponse>{error}<RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
    else:
        body = f"<Response><Errors>{error}</Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    return Answer(status, b'<?xml version="1.0" encoding="UTF-8"?>' + body.encode())


def pretend(action: str, numbers: list[str]) -> Answer:
    """The answer to a request that has no effect."""
    state = "<currentState><code>64</code><name>stopping</name></currentState>"
    items = (f"<item><instanceId>{number}</instanceId>{state}</item>" for number in numbers)
    return _listed(action, "instancesSet", items)


def _listed(action: str, name: str, items: Iterable[str]) -> Answer:
    """A list as EC2 answers it; ``name``: the element around its items."""
    request = f"<requestId>{uuid.uuid4()}</requestId>"
    rows = f"<{name}>{''.join(items)}</{name}>"
    return Answer(200, f'<{action}Response xmlns="{_NAMESPACE}">{request}{rows}</{action}Response>'.encode())


def described(text: str, natures: "Mapping[str, Nature]", ending: Callable[[str], bool]) -> str:
    """DescribeInstances with what moto leaves out, and with instances that are still on their way."""
    root = ET.fromstring(text)  # noqa: S314 - moto's own answer
    space = root.tag.partition("}")[0] + "}"
    ET.register_namespace("", space[1:-1])
    for owner in root.iter(f"{space}ipOwnerId"):
        owner.text = "amazon"  # EC2's own unless it was allocated; moto says the opposite of all
    for item in root.iter(f"{space}item"):
        number = item.findtext(f"{space}instanceId")
        name = item.find(f"{space}instanceState/{space}name")
        if number is None or name is None:
            continue
        if number in natures:
            _complete(item, space, number, natures[number])
        if name.text in {"stopped", "terminated"} and ending(number):
            name.text = "stopping" if name.text == "stopped" else "shutting-down"
    return ET.tostring(root, encoding="unicode")


def _complete(item: ET.Element, space: str, number: str, nature: "Nature") -> None:
    texts = {
        "instanceLifecycle": "spot" if nature.spot else "capacity-block" if nature.block else "",
        "spotInstanceRequestId": f"sir-{number[2:10]}" if nature.spot else "",
        "capacityReservationId": nature.reservation,
        "capacityBlockId": nature.block,
        "rootDeviceType": nature.root_device,
        "hibernationOptions/configured": "true" if nature.hibernation else "",
        "placement/tenancy": nature.tenancy,
        "operator/managed": "true" if nature.operator else "",
        "operator/principal": nature.operator,
    }
    for path, value in texts.items():
        if value:
            _put(item, space, path).text = value


def _put(item: ET.Element, space: str, path: str) -> ET.Element:
    """The element at a path, made where it is missing."""
    for name in path.split("/"):
        found = item.find(f"{space}{name}")
        item = found if found is not None else ET.SubElement(item, f"{space}{name}")
    return item


def spot_requests(parameters: Mapping[str, str], natures: "Mapping[str, Nature]") -> Answer:
    """DescribeSpotInstanceRequests: moto loses the request of an instance."""
    wanted = {value for name, value in parameters.items() if name.startswith("SpotInstanceRequestId")}
    items = []
    for number, nature in natures.items():
        request = f"sir-{number[2:10]}"
        if nature.spot and (not wanted or request in wanted):
            group = f"<launchGroup>{nature.launch_group}</launchGroup>" if nature.launch_group else ""
            items.append(
                f"<item><spotInstanceRequestId>{request}</spotInstanceRequestId><type>{nature.spot}</type>"
                f"<state>{nature.spot_state}</state><instanceId>{number}</instanceId>{group}</item>"
            )
    return _listed("DescribeSpotInstanceRequests", "spotInstanceRequestSet", items)


def spot_prices(parameters: Mapping[str, str], rows: "Iterable[SpotPrice]") -> Answer:
    """DescribeSpotPriceHistory: what was in effect at the start or came later, in no order; moto makes its own up."""
    kinds = {value for name, value in parameters.items() if name.startswith("InstanceType")}
    products = {value for name, value in parameters.items() if name.startswith("ProductDescription")}
    asked = [row for row in rows if row.type in kinds and row.zone == parameters.get("AvailabilityZone")]
    asked = [row for row in asked if row.product in products]
    start = parameters.get("StartTime", "")
    effective = max((row.at for row in asked if row.at <= start), default="")
    items = (
        f"<item><instanceType>{row.type}</instanceType><productDescription>{row.product}</productDescription>"
        f"<spotPrice>{row.price}</spotPrice><timestamp>{row.at}</timestamp><availabilityZone>{row.zone}</availabilityZone></item>"
        for row in asked
        if row.at >= effective
    )
    return _listed("DescribeSpotPriceHistory", "spotPriceHistorySet", items)


def _flag(value: object) -> bool:
    """Moto keeps what a request said: a word or a truth value."""
    return str(value).lower() == "true"
