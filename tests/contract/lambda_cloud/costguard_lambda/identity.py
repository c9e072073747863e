"""Which instance of the account this machine is: the one with its private address, and with as many GPUs as it has.

There is no metadata service, and private networks of different regions use the same addresses. So both facts must agree, and
one instance alone may have them; else the owner says which one it is.
"""

import os
import re
import time

from costguard.cloud.api import CloudError, Identity, Site
from costguard.files import names_in, text_of

from .session import Session

BUDGET_SECONDS = 8.0
"""Seconds for the question."""

_LOCAL = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL")
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def identify(site: Site) -> Identity:
    """Ask for all instances, and find this one. Raises CloudError."""
    found = Session(site).instances(time.monotonic() + BUDGET_SECONDS)
    here, gpus, wanted = addresses(site.procfs), count(site.sysfs), str(site.settings.get("instance") or "")
    mine = [
        one for one in found
        if one.get("private_ip") in here and _gpus(one) == gpus and wanted in {"", one["id"]}
    ]  # fmt: skip
    if len(mine) != 1:
        who = "several instances of the account have" if mine else "no instance of the account has"
        text = f"{who} a private address of this machine ({', '.join(sorted(here)) or 'none'}) and {gpus} GPUs"
        text += f" and the id {wanted}" if wanted else ""
        hint = "set cloud.lambda.instance to its id; is the key of this machine's account?"
        raise CloudError("changed", text, code="not_this_machine", hint=hint)
    one = mine[0]
    region, kind = str((one.get("region") or {}).get("name", "")), str((one.get("instance_type") or {}).get("name", ""))
    market = "reserved" if one.get("is_reserved") is True else "on-demand"
    evidence = (f"private address {one['private_ip']}", f"{gpus} GPUs, as its type has")
    return Identity("Lambda Cloud", one["id"], region, region, kind, market, {}, evidence)


def addresses(procfs: str) -> frozenset[str]:
    """The addresses of this machine, loopback aside. Source: ``fib_trie`` of proc(5)."""
    found = _LOCAL.findall(text_of(os.path.join(procfs, "net/fib_trie"), limit=-1))
    return frozenset(one for one in found if not one.startswith("127."))


def count(sysfs: str) -> int:
    """NVIDIA's display devices on the bus, whether a driver has them or not."""
    bus = os.path.join(sysfs, "bus/pci/devices")
    return sum(
        text_of(os.path.join(bus, name, "vendor")).strip() == _NVIDIA
        and text_of(os.path.join(bus, name, "class")).startswith(_DISPLAY)
        for name in names_in(bus)
    )


def _gpus(one: dict[str, object]) -> object:
    kind = one.get("instance_type")
    specs = kind.get("specs") if isinstance(kind, dict) else None
    return specs.get("gpus") if isinstance(specs, dict) else None
