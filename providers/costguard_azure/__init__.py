"""Microsoft Azure virtual machines.

Sources: Azure documentation "States and billing status of Azure Virtual Machines" (a machine that was
shut down from inside is *stopped*, still allocated and billed; only *deallocated* is not);
cloud-init's ``ds-identify`` (the chassis asset tag; the vendor alone is any Hyper-V).
"""

from collections.abc import Mapping

from costguard.actions.provider import Consequence

_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"


class Azure:
    """What can be said of an Azure machine without asking the cloud."""

    name = "Azure"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Every Azure machine has the same chassis asset tag."""
        return dmi.get("chassis_asset_tag") == _ASSET_TAG

    def guest_shutdown(self) -> Consequence:
        """The machine stays allocated and its price stays the same."""
        return Consequence(
            ends_bill=False,
            keeps_disks=True,
            text="a shutdown from inside leaves the machine allocated: it is billed in full while it is off",
            hint="deallocate it instead (`az vm deallocate`), for example from the command action; or set "
            "actions.shutdown.accept_bill = true",
        )


PROVIDER = Azure()
