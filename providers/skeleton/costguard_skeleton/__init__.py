"""A plug-in to copy: the same files as in every other one, for the cloud of `tests.contract.cloud_server`.

Say here where your facts come from (pages of the cloud's documentation), and import nothing heavy: a method loads what it needs.
"""

from collections.abc import Mapping, Sequence

from costguard.cloud.api import (
    Capabilities,
    CloudNotice,
    Consequence,
    Identity,
    Machine,
    Permission,
    Price,
    Setting,
    Site,
    Verb,
)
from costguard.plans import Result

from . import firmware


class Skeleton:
    """See `costguard.cloud.api.Provider`."""

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

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """See `firmware`."""
        return firmware.recognises(dmi)

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """See `firmware`."""
        return firmware.instance_of(dmi)

    def guest_shutdown(self) -> Consequence:
        """What a shutdown from inside does to the bill and the disks; None where it depends."""
        return Consequence(True, True, "a shutdown from inside stops the machine; its disks go on being billed")

    def identify(self, site: Site) -> Identity:
        """See `identity`."""
        from .identity import identify

        return identify(site)

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

    def price(self, identity: Identity) -> Price | None:
        """See `prices`."""
        from .prices import price

        return price(identity)

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """See `permissions`."""
        from .permissions import permissions

        return permissions(verbs, tag=tag)

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """See `permissions`."""
        from .permissions import policy

        return policy(verbs, tag=tag)

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """See `permissions`."""
        from .permissions import commands

        return commands(verbs, tag=tag)


PROVIDER = Skeleton()
