"""Everything a plan needs, gathered in about a second: the only questions before acting, none with an effect.

What could not be read is None, and `Facts.unknown` says why; a default never stands for knowledge.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from costguard.cloud.age import uptime
from costguard.cloud.api import CloudError, Identity, Price, Site, Verb
from costguard_aws import described, disks, metadata
from costguard_aws.described import Group, Instance, SpotRequest
from costguard_aws.session import Session

T = TypeVar("T")

GROUP_TAG = "aws:autoscaling:groupName"
BUDGET_SECONDS = 25.0
"""Seconds for all questions of one plan: it must name what did not answer before its worker is given up."""

_PRICE_SECONDS = 4.0
_THREADS = 4
_STOP, _TERMINATION = "disableApiStop", "disableApiTermination"
_SHUTDOWN = "instanceInitiatedShutdownBehavior"


class Unknown(NamedTuple):
    """A fact that could not be read: which right it needs, what came instead, and whether that may pass by itself."""

    permission: str
    message: str
    technical: bool = False


class Facts(NamedTuple):
    """What is known of this machine. None, where the type allows it, means unknown.

    ``permitted`` is the answer of a dry run of the verb. ``in_group`` is True, False or None; ``group`` has
    the details where they could be read. ``store`` is what the kernel shows of local disks, ``has_store``
    what the instance type promises. ``uptime`` is in seconds.
    """

    verb: Verb
    identity: Identity
    instance: Instance | None
    permitted: bool | None
    api_stop_disabled: bool | None = False
    api_termination_disabled: bool | None = False
    shutdown_behavior: str | None = "stop"
    type_hibernates: bool | None = False
    has_store: bool | None = False
    spot: SpotRequest | None = None
    spot_price: Price | None = None
    in_group: bool | None = False
    group: Group | None = None
    store: disks.Store | None = disks.Store((), ())
    uptime: float | None = None
    unknown: Mapping[str, Unknown] = {}


class _Looks:
    """Questions that run side by side; a denied one leaves a note instead of an answer."""

    def __init__(self, session: Session, pool: ThreadPoolExecutor, me: str) -> None:
        self.me = me
        self._session = session
        self._pool = pool
        self.end = time.monotonic() + BUDGET_SECONDS
        self.unknown: dict[str, Unknown] = {}

    def ask(
        self, service: str, operation: str, within: float = BUDGET_SECONDS, **parameters: Any
    ) -> "Future[dict[str, Any]]":
        """Start a question. ``within`` is seconds for one on which no veto rests; all have the budget's end in common."""
        end = min(self.end, time.monotonic() + within)
        return self._pool.submit(self._session.look, service, operation, end, **parameters)

    def read(self, name: str, asked: "Future[dict[str, Any]]", read: Callable[[dict[str, Any]], T]) -> T | None:
        """Its answer; None when there is none."""
        try:
            answer = asked.result()
        except CloudError as error:
            self.unknown[name] = Unknown(_permission_of(error), str(error), error.technical)
            return None
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            message = f"{name}: malformed answer ({type(error).__name__})"
            self.unknown[name] = Unknown("", message, technical=True)
            return None


def gather(session: Session, site: Site, identity: Identity, verb: Verb) -> Facts:
    """Look at everything. Raises CloudError when AWS cannot be asked at all."""
    me = identity.instance
    session.client("autoscaling")  # made here: the SDK does not make clients side by side
    with ThreadPoolExecutor(_THREADS, "facts") as pool:
        looks = _Looks(session, pool, me)
        instance_asked = looks.ask("ec2", "DescribeInstances", InstanceIds=[me])
        permitted_asked = pool.submit(_permitted, session, verb, me, looks.end)
        attributes = {
            name: looks.ask("ec2", "DescribeInstanceAttribute", InstanceId=me, Attribute=name)
            for name in (_STOP, _SHUTDOWN, *((_TERMINATION,) if verb == "terminate" else ()))
        }
        type_asked = looks.ask("ec2", "DescribeInstanceTypes", InstanceTypes=[identity.type])
        price_asked = _price_asked(looks, identity)
        group_asked = looks.ask("autoscaling", "DescribeAutoScalingInstances", InstanceIds=[me])
        try:
            found = _instance(looks, instance_asked)
        except CloudError:
            pool.shutdown(wait=False, cancel_futures=True)  # nothing else can be known: do not wait for it
            raise
        spot = _spot(looks, found, identity)
        in_group, group = _group(looks, group_asked, found, site)
        types = looks.read("type", type_asked, lambda answer: answer["InstanceTypes"][0])
        permitted = permitted_asked.result()
        if isinstance(permitted, Unknown):
            looks.unknown["permitted"] = permitted
        return Facts(
            verb=verb,
            identity=identity,
            instance=found,
            permitted=permitted if isinstance(permitted, bool) else None,
            api_stop_disabled=looks.read(_STOP, attributes[_STOP], _value("DisableApiStop")),
            api_termination_disabled=looks.read(_TERMINATION, attributes[_TERMINATION], _value("DisableApiTermination"))
            if _TERMINATION in attributes
            else None,
            shutdown_behavior=looks.read(_SHUTDOWN, attributes[_SHUTDOWN], _value("InstanceInitiatedShutdownBehavior")),
            type_hibernates=bool(types.get("HibernationSupported")) if types else None,
            has_store=bool(types.get("InstanceStorageSupported")) if types else None,
            spot=spot,
            spot_price=_spot_price(looks, price_asked, identity),
            in_group=in_group,
            group=group,
            store=disks.store(site.procfs, site.sysfs, site.devfs),
            uptime=uptime(site.procfs),
            unknown=looks.unknown,
        )


def refresh(facts: Facts, site: Site) -> Facts:
    """Look again at what may change from one moment to the next and costs no request: the use of local disks."""
    return facts._replace(store=disks.store(site.procfs, site.sysfs, site.devfs))


def _instance(looks: _Looks, asked: "Future[dict[str, Any]]") -> Instance | None:
    """Raises CloudError for everything but a denied right: then nothing else can be known either."""
    error = asked.exception()
    if error is not None and not (isinstance(error, CloudError) and error.trouble == "denied"):
        raise error
    return looks.read("instance", asked, lambda answer: described.instance(answer, looks.me))


def _permitted(session: Session, verb: Verb, me: str, end: float) -> bool | Unknown:
    """A dry run: AWS checks the right and nothing else (not the state, the market or a protection)."""
    operation = "TerminateInstances" if verb == "terminate" else "StopInstances"
    more = {"Hibernate": True} if verb == "hibernate" else {}
    try:
        session.look("ec2", operation, end, InstanceIds=[me], DryRun=True, **more)
    except CloudError as error:
        if error.code == "DryRunOperation":
            return True
        return False if error.trouble == "denied" else Unknown("", str(error), error.technical)
    return Unknown(
        "", f"ec2:{operation}: a dry run was answered like a real request, which AWS never does", technical=True
    )


def _spot(looks: _Looks, found: Instance | None, identity: Identity) -> SpotRequest | None:
    if found is None or "spot" not in {found.lifecycle, identity.market}:
        return None
    one = {"Filters": [{"Name": "instance-id", "Values": [found.id]}]}
    which: dict[str, Any] = {"SpotInstanceRequestIds": [found.spot_request]} if found.spot_request else one
    return looks.read("spot", looks.ask("ec2", "DescribeSpotInstanceRequests", **which), described.spot_request)


def _price_asked(looks: _Looks, identity: Identity) -> "Future[dict[str, Any]] | None":
    """What the type costs as Spot in this zone now: the prices in effect from this moment on."""
    if identity.market != "spot":
        return None
    which: dict[str, Any] = {"InstanceTypes": [identity.type], "ProductDescriptions": [described.LINUX]}
    now = datetime.now(UTC)
    which |= {"AvailabilityZone": identity.zone, "StartTime": now}
    return looks.ask("ec2", "DescribeSpotPriceHistory", _PRICE_SECONDS, **which)


def _spot_price(looks: _Looks, asked: "Future[dict[str, Any]] | None", identity: Identity) -> Price | None:
    if asked is None:
        return None
    return looks.read("price", asked, lambda answer: described.spot_price(answer, identity.type, identity.zone))


def _group(
    looks: _Looks, asked: "Future[dict[str, Any]]", found: Instance | None, site: Site
) -> tuple[bool | None, Group | None]:
    """Three sources, each enough to say yes; only the API can say no."""
    group = looks.read("group", asked, lambda answer: described.membership(answer, looks.me))
    if group is None and found and found.tags.get(GROUP_TAG):
        group = Group(found.tags[GROUP_TAG])
    if group is not None:
        sizes_asked = looks.ask("autoscaling", "DescribeAutoScalingGroups", AutoScalingGroupNames=[group.name])
        sizes = looks.read("sizes", sizes_asked, described.sizes)
        return True, group._replace(minimum=sizes[0], desired=sizes[1]) if sizes else group
    if _lifecycle_state(site):
        return True, None
    # Tags with the prefix aws: cannot be removed by users, so an instance without this one is in no group.
    return (False if found is not None or "group" not in looks.unknown else None), None


def _lifecycle_state(site: Site) -> str:
    """What the metadata service says; empty when the instance is in no group (any more), or nobody answers."""
    try:
        said = (metadata.of(site).text("meta-data/autoscaling/target-lifecycle-state") or "").strip()
    except CloudError:
        return ""
    return "" if said == "Detached" else said


def _value(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer[name]["Value"]


def _permission_of(error: CloudError) -> str:
    """The right whose name stands at the beginning of a translated error's words."""
    return str(error).partition(": ")[0] if error.trouble == "denied" else ""
