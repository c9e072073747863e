"""Microsoft Azure virtual machines.

Sources: Azure documentation "States and billing status of Azure Virtual Machines" (a machine that was
shut down from inside is *stopped*, still allocated and billed; only *deallocated* is not);
cloud-init's ``ds-identify`` (the chassis asset tag; the vendor alone is any Hyper-V).
"""

from collections.abc import Mapping, Sequence

from costguard.cloud.api import CloudNotice, Consequence, Identity, Machine, Permission, Price, Setting, Site, Verb
from costguard.plans import Result
from costguard_azure import firmware


class Azure:
    """See `costguard.cloud.api.Provider`. Each step imports what it needs, and no more."""

    name = "Azure"
    settings = (
        Setting(
            "identity",
            "With several identities on the machine: the client id of the one to use.",
            default="",
            example="11111111-2222-3333-4444-555555555555",
            allowed="a text",
            formerly="identity",
        ),
        Setting(
            "scheduled_events",
            "In live mode, ask also for scheduled events: the question switches these announcements on, which then delay restarts.",
            default=False,
            example=True,
            allowed="true or false",
            kind="switch",
            live_only=True,
            formerly="scheduled_events",
        ),
    )

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Every Azure machine has the same chassis asset tag."""
        return firmware.recognises(dmi)

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """None beside the firmware's own UUID."""
        return ""

    def guest_shutdown(self) -> Consequence:
        """The machine stays allocated and its price stays the same."""
        return Consequence(
            ends_bill=False,
            keeps_disks=True,
            text="a shutdown from inside leaves the machine allocated: it is billed in full while it is off",
            hint='deallocate it instead: kill_action = "stop" (or `az vm deallocate`); or set '
            "actions.shutdown.accept_bill = true",
        )

    def identify(self, site: Site) -> Identity:
        """See `costguard_azure.identity`."""
        from costguard_azure.identity import identify

        return identify(site)

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

    def price(self, identity: Identity) -> Price | None:
        """See `costguard_azure.prices`."""
        from costguard_azure.prices import price

        return price(identity)

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """The rights these actions need."""
        from costguard_azure.permissions import needed

        return needed(verbs, tag=tag)

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """The custom role, as JSON for ``az role definition create``."""
        from costguard_azure.permissions import policy

        return policy(verbs, tag=tag)

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """See `costguard_azure.permissions.commands`."""
        from costguard_azure.permissions import commands

        return commands(verbs, tag=tag)


PROVIDER = Azure()
