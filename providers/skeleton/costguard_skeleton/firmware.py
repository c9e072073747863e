"""What the firmware says, without a network. A plain hypervisor and an empty identity are nobody's."""

from collections.abc import Mapping


def recognises(dmi: Mapping[str, str]) -> bool:
    """By what no other cloud has; ``dmi`` has the readable files of ``/sys/class/dmi/id``."""
    return dmi.get("sys_vendor") == "Skeleton Cloud"


def instance_of(dmi: Mapping[str, str]) -> str:
    """The machine's own id, where the firmware has it."""
    return dmi.get("board_asset_tag", "") if recognises(dmi) else ""
