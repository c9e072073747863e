"""Lambda Cloud, which terminates machines and can do nothing else to them.

Sources: Lambda Cloud API 1.8 (``GET /instances``, ``GET /instances/{id}``, ``POST /instance-operations/terminate``; keys of
an account, which cannot be limited; one request a second); Lambda documentation "Billing" (an instance is billed from its
launch to its termination, file systems as long as they exist).

Importing this package imports no HTTP: a method loads what it needs.
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


class Lambda:
    """See `costguard.cloud.api.Provider`."""

    name = "Lambda Cloud"
    capabilities = Capabilities(verbs=("terminate",), notices=False, tags=False, policies=False)
    settings = (
        Setting(
            "api_key_file",
            "A file that holds an API key of the account, and nothing else.",
            default="",
            example="/etc/costguard/lambda.key",
            allowed="an absolute path, or nothing",
            kind="file",
        ),
        Setting(
            "instance",
            "Which instance of the account this machine is, where several have its private address.",
            default="",
            example="0920582c7ff041399e34823a0be62549",
            allowed="the id of an instance, or nothing",
        ),
    )

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Its firmware has no name of its own: ``cloud.provider`` names the plug-in."""
        del dmi
        return False

    def instance_of(self, dmi: Mapping[str, str]) -> str:
        """The firmware does not have it."""
        del dmi
        return ""

    def guest_shutdown(self) -> Consequence:
        """Only a termination ends the bill."""
        return Consequence(
            ends_bill=False,
            keeps_disks=True,
            text="a shutdown from inside leaves the instance, and it is billed in full until somebody terminates it",
            hint='set kill_action = "terminate"',
        )

    def identify(self, site: Site) -> Identity:
        """See `costguard_lambda.identity`."""
        from .identity import identify

        return identify(site)

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """Nothing is announced."""
        del site
        return ()

    def tags(self, site: Site) -> Mapping[str, str]:
        """A machine cannot see its tags."""
        del site
        return {}

    def open(self, site: Site, identity: Identity) -> Machine:
        """See `costguard_lambda.machine`."""
        from .machine import LambdaMachine

        return LambdaMachine(site, identity)

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """See `costguard_lambda.verify`."""
        from .verify import verify

        return verify(site, receipt)

    def price(self, identity: Identity) -> Price | None:
        """The API says it with each plan; there is no table of them here."""
        del identity
        return None

    def permissions(self, verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
        """One key for everything."""
        del verbs, tag
        return (
            Permission("API key", "see and terminate the instances of the account; a key cannot be limited to one"),
        )

    def policy(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """There are none."""
        del verbs, tag
        return ""

    def commands(self, verbs: Sequence[Verb], *, tag: bool = False) -> str:
        """How a key comes to this machine."""
        del verbs, tag
        return (
            "# make a key at https://cloud.lambda.ai/api-keys, and paste it after the next command\n"
            "sudo install -m 600 /dev/stdin /etc/costguard/lambda.key\n"
            "# it opens the whole account: whoever is root here can end every machine of it\n"
        )


PROVIDER = Lambda()
