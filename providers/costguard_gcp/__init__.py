"""Google Compute Engine.

Sources: Compute Engine documentation "Stop and start instances" and "Local SSD data persistence" (a
guest shutdown leads to TERMINATED, which bills no CPU, memory or GPU; disks and static addresses go
on); google-auth (the product name starts with "Google").
"""

from collections.abc import Mapping, Sequence

from costguard.cloud.api import CloudNotice, Consequence, Identity, Machine, Permission, Price, Site, Verb
from costguard.plans import Result
from costguard_gcp import firmware


class Gcp:
    """What can be said of a Compute Engine instance, each part loaded when it is needed."""

    name = "Google Cloud"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Whether the firmware is Google's."""
        return firmware.recognises(dmi)

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """None beside the firmware's own UUID."""
        return ""

    def guest_shutdown(self) -> Consequence:
        """As good as a stop, except for local SSDs."""
        return Consequence(
            ends_bill=True,
            keeps_disks=True,
            text="a shutdown from inside ends the charge for the machine and its GPUs and keeps its disks; the data "
            "of local SSDs is lost; disks and static addresses go on being billed",
        )

    def identify(self, site: Site) -> Identity:
        """See `costguard_gcp.identity.identify`."""
        from costguard_gcp.identity import identify

        return identify(site)

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """See `costguard_gcp.notices.notices`."""
        from costguard_gcp.notices import notices

        return notices(site)

    def tags(self, site: Site) -> Mapping[str, str]:
        """See `costguard_gcp.notices.tags`."""
        from costguard_gcp.notices import tags

        return tags(site)

    def scheduler(self, site: Site) -> tuple[str, str] | None:
        """The scheduler that the attributes name, and what shows it; labels are not in the metadata. Raises CloudError."""
        from costguard_gcp import nodes
        from costguard_gcp.metadata import Metadata

        return nodes.owner(Metadata(site).tree("instance/attributes/"), {})

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load the SDK, which only a worker can afford, and sign in."""
        from costguard_gcp.machine import GcpMachine

        return GcpMachine.open(site, identity)

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """See `costguard_gcp.verify.verify`."""
        from costguard_gcp.verify import verify

        return verify(site, receipt)

    def price(self, identity: Identity) -> Price | None:
        """See `costguard_gcp.prices.price`."""
        from costguard_gcp.prices import price

        return price(identity)

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """See `costguard_gcp.permissions.permissions`."""
        from costguard_gcp.permissions import permissions

        return permissions(verbs, tag=tag)

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """See `costguard_gcp.permissions.policy`."""
        from costguard_gcp.permissions import policy

        return policy(verbs, tag=tag)

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """See `costguard_gcp.permissions.commands`."""
        from costguard_gcp.permissions import commands

        return commands(verbs, tag=tag)


PROVIDER = Gcp()
