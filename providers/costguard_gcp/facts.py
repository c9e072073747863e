"""Everything the plan needs, gathered without an effect."""

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from costguard.cloud import hints
from costguard.cloud.access import HostPaths
from costguard.cloud.age import uptime
from costguard.cloud.api import CloudError, Identity, Site, Verb
from costguard.cloud.local_disks import Use
from costguard.cloud.retry import until
from costguard_gcp import disks, nodes, permissions
from costguard_gcp.identity import last
from costguard_gcp.metadata import Metadata
from costguard_gcp.places import Group

if TYPE_CHECKING:  # the plan is pure and needs no SDK
    from costguard_gcp.session import Api

BUDGET_SECONDS = 25.0
"""Seconds for all questions of one plan; one that is throttled goes on, ever slower, as long as they last."""
LOOK_SECONDS, TRY_SECONDS = 10.0, 4.0
"""Seconds that one fact may take, retries after other trouble included, and that one try of it may take."""

_MANAGER = re.compile(r"projects/[^/]+/(?P<kind>zones|regions)/(?P<place>[^/]+)/instanceGroupManagers/(?P<name>[^/]+)")
_SCALES_OUT = {"ON", "ONLY_UP", "ONLY_SCALE_OUT"}

T = TypeVar("T")


class Disk(NamedTuple):
    """A disk of the machine. ``local`` disks lose their data when the machine stops."""

    name: str
    local: bool
    goes_with_it: bool


class Vm(NamedTuple):
    """What the API says of the machine. ``graceful`` is how many seconds a stop may wait for the guest, 0 for none."""

    instance: str
    status: str
    disks: tuple[Disk, ...]
    gpus: tuple[str, ...]
    model: str
    spot: bool
    termination: str
    ends_at: str
    protected: bool
    reservation: str
    sole_tenant: bool
    graceful: int
    confidential: bool
    labels: Mapping[str, str]
    age: float | None


class Size(NamedTuple):
    """A group's size; ``least`` is the autoscaler's minimum, None when no autoscaler brings machines back."""

    target: int
    least: int | None


class Facts(NamedTuple):
    """``account`` is the service account's address, ``owner`` the scheduler of this machine with what shows it. ``vm``, ``granted`` and ``size`` are None when they could not be had; the words are in ``troubles``.

    ``scopes`` is None when the metadata server does not say. ``local`` is the use of the local SSDs.
    ``uptime`` and ``Vm.age`` are seconds.
    """

    identity: Identity
    account: str
    scopes: tuple[str, ...] | None
    owner: tuple[str, str] | None
    group: Group | None
    vm: Vm | None
    granted: frozenset[str] | None
    size: Size | None = None
    local: Use = Use("unused")
    uptime: float | None = None
    troubles: Mapping[str, CloudError] = {}

    @property
    def age(self) -> float | None:
        """The machine's age in seconds, as well as it is known."""
        return self.vm.age if self.vm and self.vm.age is not None else self.uptime


def gather(api: "Api", site: Site, identity: Identity, verb: Verb) -> Facts:
    """Ask the metadata server and the API. Raises CloudError when nothing can be known."""
    metadata = Metadata(site)
    tree = metadata.tree("instance/")
    if str(tree.get("id")) != identity.instance:
        text = f"the metadata server now says instance {tree.get('id')}; this machine was {identity.instance} before"
        raise CloudError("changed", text, code="not_this_machine", hint=hints.RESTART)
    attributes = tree.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    troubles: dict[str, CloudError] = {}
    end = time.monotonic() + BUDGET_SECONDS
    vm = _known(troubles, "vm", end, lambda left: read(api.instance(left)))
    wanted = [one.name for one in permissions.on_machine([verb])]
    granted = _known(troubles, "granted", end, lambda left: api.granted(wanted, left))
    group = group_of(attributes, identity.details["project"])
    size = None
    if group and site.settings.get("group") == "leave":
        size = _known(troubles, "size", end, lambda left: _size(api, group, left))
    facts = Facts(
        identity=identity,
        account=str(_default_account(tree).get("email") or ""),
        scopes=_scopes(metadata, tree),
        owner=nodes.owner(attributes, vm.labels if vm else {}),
        group=group,
        vm=vm,
        granted=granted,
        size=size,
        uptime=uptime(site.procfs),
        troubles=troubles,
    )
    return refresh(facts, site)


def refresh(facts: Facts, site: Site) -> Facts:
    """Look again at what may change from one moment to the next and costs no request: the use of local disks."""
    local = [disk for disk in facts.vm.disks if disk.local] if facts.vm else []
    place = HostPaths(site.procfs, site.sysfs, site.devfs)
    return facts._replace(local=disks.use(place, len(local)) if local else Use("unused"))


def read(found: Any) -> Vm:
    """What matters of the API's answer. Fields that an older SDK does not know are left out."""
    scheduling = found.scheduling
    affinity = found.reservation_affinity
    consumed = getattr(getattr(found.resource_status, "reservation_consumption_info", None), "consumed_reservation", "")
    specific = affinity.consume_reservation_type == "SPECIFIC_RESERVATION"
    status = getattr(found.resource_status, "scheduling", None)
    return Vm(
        instance=str(found.id),
        status=str(found.status),
        disks=tuple(Disk(_disk_name(disk), disk.type_ == "SCRATCH", bool(disk.auto_delete)) for disk in found.disks),
        gpus=tuple(f"{one.accelerator_count} × {last(one.accelerator_type)}" for one in found.guest_accelerators),
        model=str(scheduling.provisioning_model),
        spot=bool(scheduling.preemptible) or scheduling.provisioning_model == "SPOT",
        termination=str(scheduling.instance_termination_action),
        ends_at=str(getattr(status, "termination_timestamp", "") or getattr(scheduling, "termination_time", "")),
        protected=bool(found.deletion_protection),
        reservation=last(consumed) or (", ".join(map(last, affinity.values)) or "a specific one" if specific else ""),
        sole_tenant=bool(getattr(scheduling, "node_affinities", ())),
        graceful=_graceful(getattr(scheduling, "graceful_shutdown", None)),
        confidential=bool(found.confidential_instance_config.enable_confidential_compute),
        labels=dict(found.labels),
        age=_age(str(found.creation_timestamp)),
    )


def group_of(attributes: Mapping[str, Any], project: str) -> Group | None:
    """The managed instance group that made the machine, in its own project. Other tools write ``created-by`` as well.

    The attribute has the project's number; every other request, and the right, has its id.
    """
    match = _MANAGER.search(str(attributes.get("created-by") or ""))
    if match is None:
        return None
    zonal = match["kind"] == "zones"
    place = match["place"]
    return Group(project, place if zonal else "", "" if zonal else place, match["name"])


def _known(troubles: dict[str, CloudError], what: str, end: float, ask: Callable[[float], T]) -> T | None:
    """An answer, or None with its error in ``troubles``. Raises CloudError when a technical failure hides everything."""
    look = time.monotonic() + LOOK_SECONDS

    def again(error: CloudError) -> float | None:
        return error.retry_after if error.trouble == "throttled" or time.monotonic() < look else None

    try:
        return until(end, lambda left: ask(min(left, TRY_SECONDS)), again)
    except CloudError as error:
        if error.technical and what == "vm":
            raise
        troubles[what] = error
        return None


def _size(api: "Api", group: Group, timeout: float) -> Size:
    found = api.group(group, timeout)
    autoscaler = last(found.status.autoscaler)
    if not autoscaler:
        return Size(found.target_size, None)
    policy = api.autoscaler(group, autoscaler, timeout).autoscaling_policy
    return Size(found.target_size, policy.min_num_replicas if str(policy.mode or "ON") in _SCALES_OUT else None)


def _default_account(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    accounts = tree.get("serviceAccounts")
    default = accounts.get("default") if isinstance(accounts, dict) else None
    return default if isinstance(default, dict) else {}


def _scopes(metadata: Metadata, tree: Mapping[str, Any]) -> tuple[str, ...] | None:
    scopes = _default_account(tree).get("scopes")
    if isinstance(scopes, list):
        return tuple(map(str, scopes))
    text = metadata.text("instance/service-accounts/default/scopes")
    return None if text is None else tuple(text.split())


def _graceful(setting: Any) -> int:
    return int(setting.max_duration.seconds) if setting and setting.enabled else 0


def _disk_name(disk: Any) -> str:
    return last(disk.source) or str(disk.device_name) or "a disk"


def _age(created: str) -> float | None:
    """None as well for a machine of tomorrow: then this machine's clock is wrong, and the kernel's is asked."""
    try:
        age = time.time() - dt.datetime.fromisoformat(created).timestamp()
    except ValueError:
        return None
    return age if age >= 0.0 else None
