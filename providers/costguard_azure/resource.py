"""The names of Azure's resources: which machine, in which group, of which scale set, in which cloud."""

import re
from typing import NamedTuple

_ID = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    r"(?:/virtualMachineScaleSets/(?P<scale_set>[^/]+))?/virtualMachines/(?P<name>[^/]+)/?",
    re.IGNORECASE,
)

PUBLIC = "AzurePublicCloud"


class Resource(NamedTuple):
    """One machine. ``scale_set`` is set for a member of a uniform scale set only; ``name`` is then its number."""

    id: str
    subscription: str
    group: str
    scale_set: str
    name: str

    @property
    def kind(self) -> str:
        """The resource type below Microsoft.Compute, as rights are named after it."""
        return "virtualMachineScaleSets/virtualMachines" if self.scale_set else "virtualMachines"


class Cloud(NamedTuple):
    """One of Azure's clouds: where its Resource Manager is, and for whom a token must be."""

    endpoint: str
    audience: str


CLOUDS = {
    PUBLIC: Cloud("https://management.azure.com", "https://management.azure.com/"),
    "AzureUSGovernmentCloud": Cloud(
        "https://management.usgovcloudapi.net", "https://management.core.usgovcloudapi.net/"
    ),
    "AzureChinaCloud": Cloud("https://management.chinacloudapi.cn", "https://management.chinacloudapi.cn/"),
}
"""By ``azEnvironment`` of the metadata. Source: azure-core 1.41, ``azure.mgmt.core.tools.get_arm_endpoints``."""


def parse(resource_id: str) -> Resource | None:
    """Read a resource id; None when it is none of a machine."""
    match = _ID.fullmatch(resource_id)
    if not match:
        return None
    part = match.groupdict(default="")
    return Resource(resource_id.rstrip("/"), part["subscription"], part["group"], part["scale_set"], part["name"])


def scale_set_id(resource: Resource, name: str) -> str:
    """The id of a scale set in the machine's own resource group."""
    group = f"/subscriptions/{resource.subscription}/resourceGroups/{resource.group}"
    return f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}"
