"""What the firmware says, without a network. Source: cloud-init's ``ds-identify``; the vendor alone is any Hyper-V."""

from collections.abc import Mapping

ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"


def recognises(dmi: Mapping[str, str]) -> bool:
    """Every Azure machine has the same chassis asset tag."""
    return dmi.get("chassis_asset_tag") == ASSET_TAG
