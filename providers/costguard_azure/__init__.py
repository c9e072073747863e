"""Microsoft Azure virtual machines.

Sources: Azure documentation "States and billing status of Azure Virtual Machines" (a machine that was
shut down from inside is *stopped*, still allocated and billed; only *deallocated* is not);
cloud-init's ``ds-identify`` (the chassis asset tag; the vendor alone is any Hyper-V).
"""

from collections.abc import Mapping

from costguard.cloud.api import CloudNotice, Consequence, Identity, Machine, Setting, Site, store_endpoint
from costguard.plans import Result
from costguard_azure import firmware, prices
from costguard_azure import permissions as rights
from costguard_azure.secret_store import SecretStore


class Azure:
    """See `costguard.cloud.api.Provider`. Each step imports what it needs, and no more."""

    name = "Azure"
    settings = (
        Setting(
            "identity",
            "The client id of the managed identity to use, if the machine has several.",
            default="",
            example="11111111-2222-3333-4444-555555555555",
            allowed="a text",
            formerly="identity",
        ),
        Setting(
            "scheduled_events",
            "In live mode, also ask for scheduled events. The first request enables them for the machine, and they then delay restarts.",
            default=False,
            example=True,
            allowed="true or false",
            kind="switch",
            live_only=True,
            formerly="scheduled_events",
        ),
        store_endpoint("the key vault", "secret:VAULT/SECRET", "the vault's own", "https://vault.internal.example.org"),
    )
    secret_store = SecretStore()
    recognises = staticmethod(firmware.recognises)
    price = staticmethod(prices.price)
    permissions = staticmethod(rights.permissions)
    policy = staticmethod(rights.policy)
    commands = staticmethod(rights.commands)

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """None beside the firmware's own UUID."""
        return ""

    def guest_shutdown(self) -> Consequence:
        """The machine stays allocated and its price stays the same."""
        return Consequence(
            ends_bill=False,
            keeps_disks=True,
            text="a shutdown from inside leaves the machine allocated and billed in full",
            hint='set kill_action = "stop", which deallocates it, or actions.shutdown.accept_bill = true',
        )

    def identify(self, site: Site) -> Identity:
        """See `costguard_azure.identity`."""
        from costguard_azure.identity import identify

        return identify(site)

    def start_command(self, identity: Identity) -> str:
        """Of the Azure CLI; a machine of a uniform scale set is one of its instances."""
        group, inside, number = identity.details["resource_id"].rpartition("/virtualMachines/")
        if "/virtualMachineScaleSets/" in group:
            return f"az vmss start --ids {group} --instance-ids {number}"
        return f"az vm start --ids {group}{inside}{number}"

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """See `costguard_azure.notices`: nothing unless the owner wants scheduled events."""
        from costguard_azure.notices import notices

        return notices(site)

    def tags(self, site: Site) -> Mapping[str, str]:
        """The machine's tags. The metadata's other field for them cannot hold a tag with a semicolon."""
        from costguard_azure.metadata import compute

        rows = compute(site).get("tagsList") or ()
        return {str(row.get("name")): str(row.get("value") or "") for row in rows if isinstance(row, dict)}

    def scheduler(self, site: Site) -> tuple[str, str] | None:
        """The scheduler that the machine's tags, group or scale set name, and what shows it. Raises CloudError."""
        from costguard_azure import nodes
        from costguard_azure.metadata import compute

        found = compute(site)
        group, scale_set = str(found.get("resourceGroupName") or ""), str(found.get("vmScaleSetName") or "")
        return nodes.owner(self.tags(site), group, scale_set)

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load the SDK and authenticate. Raises ImportError and CloudError."""
        from costguard_azure.machine import AzureMachine

        return AzureMachine(site, identity)

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """See `costguard_azure.verify.verify`."""
        from costguard_azure.verify import verify

        return verify(site, receipt)


PROVIDER = Azure()
