"""Google Compute Engine.

Sources: Compute Engine documentation "Stop and start instances" and "Local SSD data persistence" (a
guest shutdown leads to TERMINATED, which bills no CPU, memory or GPU; disks and static addresses go
on); google-auth (the product name starts with "Google").
"""

from collections.abc import Mapping

from costguard.cloud.api import CloudNotice, Consequence, Identity, Machine, Site, store_endpoint
from costguard.plans import Result
from costguard_gcp import firmware, prices
from costguard_gcp import permissions as rights
from costguard_gcp.secret_store import SecretStore


class Gcp:
    """What can be said of a Compute Engine instance, each part loaded when it is needed."""

    name = "Google Cloud"
    recognises = staticmethod(firmware.recognises)
    price = staticmethod(prices.price)
    permissions = staticmethod(rights.permissions)
    policy = staticmethod(rights.policy)
    commands = staticmethod(rights.commands)
    secret_store = SecretStore()
    settings = (
        store_endpoint(
            "Google Secret Manager", "secret:NAME", "Google's own", "https://secretmanager-internal.p.googleapis.com"
        ),
    )

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """None beside the firmware's own UUID."""
        return ""

    def guest_shutdown(self) -> Consequence:
        """As good as a stop, except for local SSDs."""
        return Consequence(
            ends_bill=True,
            keeps_disks=True,
            text="a shutdown from inside ends the bill for computing and keeps the disks; the data of local SSDs is lost; disks "
            "and static addresses stay billed",
        )

    def identify(self, site: Site) -> Identity:
        """See `costguard_gcp.identity.identify`."""
        from costguard_gcp.identity import identify

        return identify(site)

    def start_command(self, identity: Identity) -> str:
        """Of the gcloud CLI."""
        details = identity.details
        return f"gcloud compute instances start {details['name']} --zone {identity.zone} --project {details['project']}"

    def resume_command(self, identity: Identity) -> str:
        """A suspended machine is resumed, and cannot be started. Source: Compute Engine, Resume a suspended VM."""
        return self.start_command(identity).replace(" start ", " resume ", 1)

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


PROVIDER = Gcp()
