"""One machine and what is around it: the facts that both stand-ins show. Change them at any time."""

import time
import uuid
from dataclasses import dataclass, field

ALL_RIGHTS = (
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/instanceView/read",
    "Microsoft.Compute/virtualMachines/deallocate/action",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Authorization/permissions/read",
    "Microsoft.Authorization/locks/read",
)
"""What costguard's own role has, with the machine as scope."""

GROUP_RIGHTS = (
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/*",
    "Microsoft.Insights/autoscaleSettings/read",
)
"""What a member of a scale set needs on top of it."""


@dataclass
class Disk:
    """A managed disk; ``delete`` is what happens to it when the machine is deleted."""

    name: str
    delete: bool = False


@dataclass
class ScaleSet:
    """The scale set of the machine. ``minimum``: an autoscale setting keeps so many members; 0 is none."""

    name: str = "gpus"
    uniform: bool = False
    capacity: int = 3
    repairs: bool = False
    minimum: int = 0
    protected: bool = False


@dataclass
class LockOn:
    """A management lock; ``scope`` is ``machine``, ``group``, ``subscription`` or ``part`` (of the machine)."""

    level: str = "ReadOnly"
    scope: str = "machine"
    name: str = "keep"


@dataclass
class World:
    """See the module. ``settles`` is seconds from an accepted request to its end."""

    subscription: str = "00000000-1111-2222-3333-444444444444"
    group: str = "lab"
    name: str = "trainer"
    vm_id: str = "8f3a1c52-0b7d-4f5e-9c66-2d1e0a9b8c7d"
    location: str = "eastus"
    zone: str = "1"
    size: str = "Standard_NC4as_T4_v3"
    environment: str = "AzurePublicCloud"
    power: str = "running"
    age: float = 86400.0
    priority: str = "Regular"
    eviction: str = ""
    max_price: float = -1.0
    ephemeral_os: bool = False
    hibernation: bool = False
    availability_set: bool = False
    reservation: str = ""
    host: str = ""
    managed_identity: bool = True
    client_id: str = "aaaaaaaa-0000-4000-8000-000000000001"
    temp_disk_kb: int = 0
    system_disk: Disk = field(default_factory=lambda: Disk("trainer-os"))
    data_disks: list[Disk] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    scale_set: ScaleSet | None = None
    rights: list[str] = field(default_factory=lambda: list(ALL_RIGHTS))
    not_rights: list[str] = field(default_factory=list)
    locks: list[LockOn] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)
    events_enabled: bool = False
    events_slow: float = 0.0
    settles: float = 0.0
    style: str = "async"  # or "location": how a long operation is followed
    token_seconds: float = 86400.0
    hibernated: bool = False
    exists: bool = True
    tokens: dict[str, float] = field(default_factory=dict)
    audiences: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    reads_secrets: bool = True
    operations: dict[str, float] = field(default_factory=dict)
    _target: str = ""
    _due: float = 0.0

    @property
    def uniform(self) -> bool:
        """Whether the machine is an instance of a uniform scale set."""
        return self.scale_set is not None and self.scale_set.uniform

    @property
    def group_id(self) -> str:
        """The resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"

    @property
    def scale_set_id(self) -> str:
        """The scale set; empty without one."""
        compute = f"{self.group_id}/providers/Microsoft.Compute"
        return f"{compute}/virtualMachineScaleSets/{self.scale_set.name}" if self.scale_set else ""

    @property
    def id(self) -> str:
        """The machine. An instance of a uniform scale set has a number for a name."""
        if self.uniform:
            return f"{self.scale_set_id}/virtualMachines/0"
        return f"{self.group_id}/providers/Microsoft.Compute/virtualMachines/{self.name}"

    def begin(self, target: str, *, hibernate: bool = False) -> str:
        """Begin to deallocate or delete; the id of the long operation."""
        self._target, self._due = target, time.monotonic() + self.settles
        self.power = "deallocating"
        self.hibernated = hibernate
        return self.operation(self.settles)

    def start(self) -> None:
        """Start the machine again, whatever was on its way."""
        self.power, self._target = "running", ""

    def operation(self, seconds: float) -> str:
        """A long operation that ends after some seconds, whatever it does."""
        name = str(uuid.uuid4())
        self.operations[name] = time.monotonic() + seconds
        return name

    def hurry(self) -> None:
        """Let what was begun be due now."""
        self._due = time.monotonic()

    def settle(self) -> None:
        """Let what is due happen."""
        if not self._target or time.monotonic() < self._due:
            return
        if self._target == "deleted":
            self.exists = False
            if self.scale_set:
                self.scale_set.capacity -= 1
        else:
            self.power = self._target
        self._target = ""

    @property
    def deleting(self) -> bool:
        """Whether the machine is on its way out."""
        return self._target == "deleted"

    def token(self, audience: str = "") -> str:
        """A new token, good for ``token_seconds``, for one audience."""
        text = f"fake.{uuid.uuid4().hex}"
        self.audiences[text] = audience
        self.tokens[text] = time.time() + self.token_seconds
        return text
