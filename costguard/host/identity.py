"""Which boot and which machine this is."""

import os

_EMPTY_UUIDS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
_SHARED_UUID = "03000200-0400-0500-0006-000700080009"  # an AMI BIOS default, the same on thousands of boards

HATCH = "costguard=off"


def boot_id(procfs: str = "/proc") -> str:
    """The kernel's random id of this boot (proc_sys_kernel(5)); empty when it cannot be read."""
    return _text(os.path.join(procfs, "sys/kernel/random/boot_id"))


def instance_id(sysfs: str = "/sys", machine_id: str = "/etc/machine-id") -> str:
    """A name of this machine that is the same after a reboot, where no plug-in reads its id from the firmware.

    That is the DMI product UUID, else machine-id, else the host name.

    The UUID is readable by root alone, so different users may get different names; their state is separate anyway.
    """
    uuid = _text(os.path.join(sysfs, "class/dmi/id/product_uuid")).lower()
    if uuid and uuid not in (*_EMPTY_UUIDS, _SHARED_UUID):
        return f"dmi:{uuid}"
    machine = _text(machine_id)
    return f"machine:{machine}" if machine else f"host:{os.uname().nodename}"


def escape_hatch(procfs: str = "/proc") -> str:
    """The kernel parameter ``costguard=off``, with which a machine that nobody can log into is started; else empty."""
    words = _text(os.path.join(procfs, "cmdline"), 4096).split()
    return HATCH if HATCH in words else ""


def _text(path: str, most: int = 256) -> str:
    try:
        with open(path, "rb", buffering=0) as file:
            return (file.read(most) or b"").decode("ascii", "replace").strip()
    except OSError:
        return ""
