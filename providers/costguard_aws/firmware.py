"""What the firmware says, without any question to the network.

Sources: EC2 user guide "Identify EC2 instances"; cloud-init's ``ds-identify`` (Xen instances).
"""

import re
from collections.abc import Mapping

_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


def recognises(dmi: Mapping[str, str]) -> bool:
    """Nitro instances name their vendor; Xen instances have a hypervisor UUID that starts with ``ec2``.

    That is chance for one Xen guest in 4096 elsewhere, so a firmware that names its version must name Amazon too;
    a paravirtual guest has no firmware.
    """
    nitro = "Amazon EC2" in {dmi.get("sys_vendor"), dmi.get("board_vendor")}
    xen = dmi.get("hypervisor_uuid", "").lower().startswith("ec2") and "amazon" in dmi.get("bios_version", "amazon")
    return nitro or xen


def instance_of(dmi: Mapping[str, str]) -> str:
    """The instance id; empty on Xen, and where the tag is another one (bare metal may have its maker's)."""
    tag = dmi.get("board_asset_tag", "")
    return tag if _INSTANCE.fullmatch(tag) else ""
