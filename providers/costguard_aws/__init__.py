"""Amazon EC2.

Sources: EC2 user guide "Identify EC2 instances" (firmware identity), "Change the instance initiated
shutdown behavior" and "Instance lifecycle" (a stopped or terminated instance is not billed; volumes
and addresses are); cloud-init's ``ds-identify`` (Xen instances).
"""

from collections.abc import Mapping

from costguard.actions.provider import Consequence


class Aws:
    """What can be said of an EC2 instance without asking the cloud."""

    name = "AWS"

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Nitro instances name their vendor; Xen instances have a hypervisor UUID that starts with ``ec2``."""
        nitro = "Amazon EC2" in {dmi.get("sys_vendor"), dmi.get("board_vendor")}
        xen = dmi.get("hypervisor_uuid", "").lower().startswith("ec2") and "amazon" in dmi.get("bios_version", "")
        return nitro or xen

    def guest_shutdown(self) -> Consequence:
        """The bill ends either way; InstanceInitiatedShutdownBehavior decides what is left."""
        return Consequence(
            ends_bill=True,
            keeps_disks=None,
            text="a shutdown from inside stops the instance, or terminates it and deletes disks, as its "
            "InstanceInitiatedShutdownBehavior says; stop and termination protection do not hold it back; "
            "instance store data is lost; volumes and addresses go on being billed",
            hint="`aws ec2 describe-instance-attribute --attribute instanceInitiatedShutdownBehavior "
            "--instance-id …` must say stop if the disks matter",
        )


PROVIDER = Aws()
