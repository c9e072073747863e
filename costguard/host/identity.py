"""The identity of this boot and of this machine."""

import os

_EMPTY_UUIDS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
_SHARED_UUID = "03000200-0400-0500-0006-000700080009"  # an AMI BIOS default, the same on thousands of boards

HATCH = "costguard=off"

TASK = "task:"
"""How the instance begins where one task of a cluster is guarded, and not a machine."""


def boot_id(procfs: str = "/proc") -> str:
    """The kernel's random id of this boot (proc_sys_kernel(5)); empty when it cannot be read."""
    return _text(os.path.join(procfs, "sys/kernel/random/boot_id"))


def instance_id(sysfs: str = "/sys", machine_id: str = "/etc/machine-id") -> str:
    """An id of this machine that survives a reboot, for machines whose firmware no plug-in knows.

    The DMI product UUID, else machine-id, else the host name. Only root can read the UUID, so users may get different
    ids; their state is separate anyway.
    """
    uuid = _text(os.path.join(sysfs, "class/dmi/id/product_uuid")).lower()
    if uuid and uuid not in (*_EMPTY_UUIDS, _SHARED_UUID):
        return f"dmi:{uuid}"
    machine = _text(machine_id)
    return f"machine:{machine}" if machine else f"host:{os.uname().nodename}"


def escape_hatch(procfs: str = "/proc") -> str:
    """The kernel parameter ``costguard=off`` if this boot has it, else empty: the kill switch that needs no login."""
    parameters = _text(os.path.join(procfs, "cmdline"), 4096).split()
    return HATCH if HATCH in parameters else ""


def _text(path: str, limit_bytes: int = 256) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return (file.read(limit_bytes) or b"").decode("ascii", "replace").strip()
    except OSError:
        return ""
