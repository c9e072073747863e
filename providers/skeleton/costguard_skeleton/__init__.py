"""A plug-in to copy: the same files as in every other one, for the cloud of `tests.contract.cloud_server`.

Say here where your facts come from (pages of the cloud's documentation), and import nothing heavy: `firmware`, `prices` and `permissions` are plain data, the other modules load when a method is called.
"""

from collections.abc import Mapping

from costguard.cloud.api import Capabilities, CloudNotice, Consequence, Identity, Machine, Setting, Site
from costguard.plans import Result

from . import firmware, prices
from . import permissions as rights


class Skeleton:
    """See `costguard.cloud.api.Provider`. A cloud with secrets that its machines may read has an attribute `secret_store`, too."""

    name = "Skeleton Cloud"
    capabilities = Capabilities(verbs=("stop", "terminate", "hibernate"), notices=True, tags=True, policies=True)
    settings = (
        Setting(
            "project",
            "The project that this machine has to be in; any, where nothing is said.",
            default="",
            example="training",
            allowed="a text",
        ),
    )
    recognises = staticmethod(firmware.recognises)
    instance_of = staticmethod(firmware.instance_of)
    price = staticmethod(prices.price)
    permissions = staticmethod(rights.permissions)
    policy = staticmethod(rights.policy)
    commands = staticmethod(rights.commands)

    def guest_shutdown(self) -> Consequence:
        """What a shutdown from inside does to the bill and the disks; None where it depends."""
        return Consequence(True, True, "a shutdown from inside stops the machine; its disks go on being billed")

    def identify(self, site: Site) -> Identity:
        """See `identity`."""
        from .identity import identify

        return identify(site)

    def start_command(self, identity: Identity) -> str:
        """What people type to start this machine again; leave the method out where there is no such command."""
        return f"skeleton machines start {identity.instance}"

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """See `notices`."""
        from .notices import notices

        return notices(site)

    def tags(self, site: Site) -> Mapping[str, str]:
        """See `metadata`."""
        from .metadata import tags

        return tags(site)

    def scheduler(self, site: Site) -> tuple[str, str] | None:
        """The scheduler that this machine belongs to, as its tags say."""
        from .nodes import owner

        return owner(self.tags(site))

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load the SDK, and log in."""
        from .machine import SkeletonMachine

        return SkeletonMachine(site, identity)

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """See `verify`."""
        from .verify import verify

        return verify(site, receipt)


PROVIDER = Skeleton()
