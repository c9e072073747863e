"""The machine of the stand-ins, and how it answers to what is done to it."""

import base64
import dataclasses
import datetime as dt
import hashlib
import json


@dataclasses.dataclass
class LocalSsd:
    """A local SSD, as the guest sees it in use. One that is mounted holds a file, unless it is ``empty``."""

    mounted: bool = False
    empty: bool = False
    partitioned: bool = False
    written: bool = False


@dataclasses.dataclass
class Group:
    """A managed instance group, zonal unless ``region`` is set. ``least`` is its autoscaler's minimum."""

    name: str = "trainers"
    region: str = ""
    size: int = 3
    least: int | None = None


@dataclasses.dataclass
class Machine:
    """Everything that the metadata server and the API say of one machine; change it while the test runs.

    ``looks_while_ending`` is how often the API shows it ending before it has ended.
    """

    number: int = 8465230493847120987
    name: str = "trainer-1"
    project: str = "ml-project"
    project_number: int = 123456789012
    zone: str = "us-central1-a"
    type: str = "g2-standard-8"
    status: str = "RUNNING"
    gpus: dict[str, int] = dataclasses.field(default_factory=lambda: {"nvidia-l4": 1})
    local_ssds: list[LocalSsd] = dataclasses.field(default_factory=list)
    boot_auto_delete: bool = True
    data_disks: dict[str, bool] = dataclasses.field(default_factory=dict)
    model: str = "STANDARD"
    termination: str = ""
    reservation: str = ""
    affinity: str = "ANY_RESERVATION"
    ends_at: str = ""
    node_group: str = ""
    graceful: int = 0
    protected: bool = False
    confidential: bool = False
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    attributes: dict[str, str] = dataclasses.field(default_factory=dict)
    group: Group | None = None
    account: bool = True
    scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)
    age: float = 86400.0
    preempted: bool = False
    maintenance: str = "NONE"
    looks_while_ending: int = 1
    last_stop: str = ""
    deleted: bool = False
    ending: str = ""
    universe: str = ""

    @property
    def region(self) -> str:
        """The zone's region."""
        return self.zone.rpartition("-")[0]

    @property
    def preemptible(self) -> bool:
        """Whether it is a Spot machine."""
        return self.model == "SPOT"

    @property
    def created_by(self) -> str:
        """The attribute that a managed group writes into its machines."""
        if self.group is None:
            return ""
        place = f"regions/{self.group.region}" if self.group.region else f"zones/{self.zone}"
        return f"projects/{self.project_number}/{place}/instanceGroupManagers/{self.group.name}"

    @property
    def fingerprint(self) -> str:
        """Of the labels: it changes with them, and a change has to name it."""
        digest = hashlib.sha256(json.dumps(self.labels, sort_keys=True).encode()).digest()
        return base64.b64encode(digest[:8]).decode()

    def begin(self, verb: str) -> None:
        """Something was accepted: the machine shows it, and ends after some looks."""
        self.ending = verb
        self.status = "SUSPENDING" if verb == "suspend" else "STOPPING"

    def look(self) -> None:
        """Each look of the API brings the end nearer."""
        if not self.ending:
            return
        if self.looks_while_ending > 0:
            self.looks_while_ending -= 1
            return
        self.status = "SUSPENDED" if self.ending == "suspend" else "TERMINATED"
        self.deleted = self.ending == "delete"
        self.last_stop = now()
        self.ending = ""


def now(seconds_ago: float = 0.0) -> str:
    """A moment as the API writes it."""
    moment = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds_ago)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "-00:00")
