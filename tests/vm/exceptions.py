"""What the unit leaves open: each exception from the strictest sandbox, why it is one (the same words stand in docs/service.md), and what fails once it is closed."""

from pathlib import Path
from typing import NamedTuple

import costguard

UNIT = (Path(costguard.__file__).parent / "data" / "costguard.service").read_text("utf-8")
_LOADS = next(line for line in UNIT.splitlines() if line.startswith("ExecStartPre=-+"))
_ROOT = "RootDirectory=/srv/root\nMountAPIVFS=yes\nBindReadOnlyPaths=/usr /bin /lib /lib64 /etc /opt /srv"
_DEVICES = ("char-195", "char-nvidia*", "char-pts", "char-tty", "char-ttyS")
_FAILS = "[Mount]\nWhat=none\nWhere=/var/tmp\nType=missing\n"


class Left(NamedTuple):
    """One exception.

    ``opens`` are its names, as `opened` of the test reads them off a machine; ``closed`` is what closes it in a drop-in; ``needs`` what then fails, of
    needs.py. ``given`` holds in both cases; ``unit`` is a unit of systemd that is there in both, by name and text.
    """

    opens: tuple[str, ...]
    switch: str
    why: str
    closed: str
    needs: str
    given: str = ""
    unit: tuple[str, str] | None = None


LEFT = (
    Left(
        ("UserOrDynamicUser",),
        "`User=`",
        "root: shutting down, the firmware's identity, terminals of others",
        "User=nobody",
        "poweroff",
    ),
    Left(
        ("CAP_DAC_OVERRIDE",),
        "`CAP_DAC_OVERRIDE`",
        "writing to the terminals of others",
        "CapabilityBoundingSet=~CAP_DAC_OVERRIDE",
        "terminal",
    ),
    Left(
        ("CAP_SYS_PTRACE",),
        "`CAP_SYS_PTRACE`",
        "which processes of others have a GPU or a socket open",
        "CapabilityBoundingSet=~CAP_SYS_PTRACE",
        "holder",
    ),
    Left(("CAP_KILL",), "`CAP_KILL`", "`hooks.sigterm`", "CapabilityBoundingSet=~CAP_KILL", "signal"),
    Left(
        ("AF_UNIX",),
        "`AF_UNIX`",
        "the control socket, and systemd, which is asked to shut down",
        "RestrictAddressFamilies=~AF_UNIX",
        "socket",
    ),
    Left(
        ("AF_INET", "AF_INET6"),
        "`AF_INET`, `AF_INET6`",
        "the cloud, messages, and servers on this machine",
        "RestrictAddressFamilies=~AF_INET AF_INET6",
        "page",
    ),
    Left(
        ("AF_NETLINK",),
        "`AF_NETLINK`",
        "what the connections of a remote editor move, which the kernel tells in no other way",
        "RestrictAddressFamilies=~AF_NETLINK",
        "counted",
    ),
    Left(("PrivateNetwork",), "`PrivateNetwork=`", "cuts off cloud, messages and servers", "PrivateNetwork=yes", "page"),
    Left(
        ("IPAddressDeny",),
        "`IPAddressDeny=`",
        "the addresses of clouds and channels are not known beforehand",
        "IPAddressDeny=any",
        "page",
    ),
    Left(
        ("PrivateDevices",),
        "`PrivateDevices=`",
        "hides `/dev/nvidia*`: every GPU would be unknown; and terminals",
        "PrivateDevices=yes",
        "gpu",
    ),
    Left(
        ("DeviceAllow",),
        "`DevicePolicy=`, `DeviceAllow=`",
        "the devices of MIG have numbers that the kernel draws when the driver is loaded, which may be after the guard starts",
        "DevicePolicy=closed\n" + "\n".join(f"DeviceAllow={device} rw" for device in _DEVICES),
        "mig",
    ),
    Left(
        ("ProtectProc",),
        "`ProtectProc=`",
        "hides who works here from a guard that a drop-in with `User=` makes another user; from root it hides nothing",
        "ProtectProc=invisible",
        "seat",
        given="User=nobody",
    ),
    Left(
        ("ProcSubset",),
        "`ProcSubset=`",
        "hides which boot this is, the kernel parameter `costguard=off`, and what processors and disks do",
        "ProcSubset=pid",
        "boot",
    ),
    Left(
        ("PrivateUsers",),
        "`PrivateUsers=`",
        "takes away the rights over processes and terminals of others",
        "PrivateUsers=yes",
        "terminal",
    ),
    Left(
        ("PrivateTmp",),
        "`PrivateTmp=`",
        "where `/var/tmp` cannot be mounted, the guard would not start; nothing is written to `/tmp`, which is read-only",
        "PrivateTmp=yes",
        "start",
        unit=("var-tmp.mount", _FAILS),
    ),
    Left(
        ("ProtectHome",),
        "`ProtectHome=yes`",
        "hides what the owner keeps in root's home: addresses of a channel, settings of the cloud's library, an installation; homes are read-only",
        "ProtectHome=yes",
        "secret",
    ),
    Left(
        ("RootDirectoryOrRootImage",),
        "`RootDirectory=`",
        "the guard looks at this machine, and asks its systemd",
        _ROOT,
        "units",
    ),
    Left(("UMask",), "`UMask=`", "everybody may read the history", "UMask=0077", "history"),
    Left(("StateDirectory=costguard",), "`StateDirectory=`", "history, holds, the ledger", "StateDirectory=", "history"),
    Left(
        ("RuntimeDirectory=costguard",),
        "`RuntimeDirectory=`",
        "the control socket, the lock, what survives a restart",
        "RuntimeDirectory=",
        "socket",
    ),
    Left(
        ("ExecStartPre=privileged",),
        "`ExecStartPre=+`",
        "loading the driver and making its devices, before the guard starts, which may not",
        "ExecStartPre=\n" + _LOADS.replace("-+", "-", 1),
        "driver",
    ),
)  # fmt: skip
