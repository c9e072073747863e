"""Google Compute Engine.

Sources: Compute Engine documentation "Stop and start instances" and "Local SSD data persistence" (a
guest shutdown leads to TERMINATED, which bills no CPU, memory or GPU; disks and static addresses go
on); google-auth (the product name starts with "Google").
"""

from collections.abc import Mapping

from costguard.actions.provider import Consequence


class Gcp:
    """What can be said of a Compute Engine instance without asking the cloud."""

    name = "Google Cloud"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """The product name is "Google Compute Engine"; older images say "Google"."""
        return dmi.get("product_name", "") in {"Google Compute Engine", "Google"}

    def guest_shutdown(self) -> Consequence:
        """As good as a stop, except for local SSDs."""
        return Consequence(
            ends_bill=True,
            keeps_disks=True,
            text="a shutdown from inside ends the charge for the machine and its GPUs and keeps its disks; the data "
            "of local SSDs is lost; disks and static addresses go on being billed",
        )


PROVIDER = Gcp()
