"""Amazon EC2.

Sources: EC2 user guide "Change the instance initiated shutdown behavior" and "Instance lifecycle" (a stopped
or terminated instance is not billed; volumes and addresses are). Each module names its own.

Importing this package imports no SDK and no HTTP: a method loads what it needs.
"""

from collections.abc import Mapping

from costguard.cloud.api import CloudNotice, Consequence, Identity, Machine, Site, store_endpoint
from costguard.plans import Result
from costguard_aws import firmware, prices
from costguard_aws import permissions as rights
from costguard_aws.secret_store import SecretStore


class Aws:
    """The plug-in; see `costguard.cloud.api.Provider`."""

    name = "AWS"
    recognises = staticmethod(firmware.recognises)
    instance_of = staticmethod(firmware.instance_of)
    price = staticmethod(prices.price)
    permissions = staticmethod(rights.permissions)
    policy = staticmethod(rights.policy)
    commands = staticmethod(rights.commands)
    secret_store = SecretStore()
    settings = (
        store_endpoint(
            "AWS Secrets Manager",
            "secret:NAME",
            "as `api_endpoint`, else the region's own",
            "https://vpce-0a1b.secretsmanager.eu-west-1.vpce.amazonaws.com",
        ),
    )

    def guest_shutdown(self) -> Consequence:
        """The bill ends either way; InstanceInitiatedShutdownBehavior decides what is left."""
        return Consequence(
            ends_bill=True,
            keeps_disks=None,
            text="a shutdown from inside stops the instance, or terminates it and deletes disks, as its "
            "InstanceInitiatedShutdownBehavior says; protections do not hold it back; instance store data is lost; volumes and "
            "addresses stay billed",
            hint="if the disks matter, `aws ec2 describe-instance-attribute --attribute instanceInitiatedShutdownBehavior "
            "--instance-id …` must say stop",
        )

    def identify(self, site: Site) -> Identity:
        """Metadata and firmware must agree, or two sources of the metadata. Raises CloudError."""
        from costguard_aws import identity, metadata

        return identity.identify(metadata.of(site), site.dmi)

    def start_command(self, identity: Identity) -> str:
        """Of the AWS CLI."""
        return f"aws ec2 start-instances --region {identity.region} --instance-ids {identity.instance}"

    def notices(self, site: Site) -> tuple[CloudNotice, ...]:
        """Spot interruptions, rebalance recommendations, scheduled events, the group's decisions. Raises CloudError."""
        from costguard_aws import metadata, notices

        return notices.notices(metadata.of(site))

    def tags(self, site: Site) -> Mapping[str, str]:
        """Instance tags, where the instance shows them in its metadata. Raises CloudError."""
        from costguard_aws import metadata

        return metadata.of(site).tags()

    def scheduler(self, site: Site) -> tuple[str, str] | None:
        """The scheduler that the tags in the metadata name, and what shows it. Raises CloudError."""
        from costguard_aws import metadata, nodes

        return nodes.owner(metadata.of(site).tags())

    def open(self, site: Site, identity: Identity) -> Machine:
        """Load boto3 and authenticate. Raises CloudError."""
        from costguard_aws.machine import Ec2

        return Ec2(site, identity)

    def verify(self, site: Site, receipt: Mapping[str, str]) -> Result:
        """Ask EC2 from any machine. The receipt needs ``instance`` and ``region``, better ``account`` too."""
        from costguard_aws.verify import verify

        return verify(site, receipt)


PROVIDER = Aws()
