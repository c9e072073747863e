"""The firmware's identity of this machine: what it is, without a network. Source: Linux, drivers/firmware/dmi-id.c."""

import os

from costguard.files import text_of

_NAMES = (
    *("sys_vendor", "product_name", "product_version", "product_family", "chassis_vendor", "chassis_asset_tag"),
    *("board_vendor", "board_name", "board_asset_tag", "bios_vendor", "bios_version"),
    *("product_uuid", "product_serial"),  # readable by root alone
)


def identity(sysfs: str) -> dict[str, str]:
    """The files of ``class/dmi/id``, and the hypervisor's UUID; what is missing, empty or not readable is left out."""
    paths = {name: os.path.join(sysfs, "class/dmi/id", name) for name in _NAMES}
    paths["hypervisor_uuid"] = os.path.join(sysfs, "hypervisor/uuid")
    return {name: text for name, path in paths.items() if (text := text_of(path).strip())}
