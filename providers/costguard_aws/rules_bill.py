"""The rules about money and data: what ends, what goes on, what is lost.

Sources: EC2 user guide "Instance lifecycle" (stopped and terminated instances are not billed, volumes and
addresses are), "Instance store" (its data is lost at stop, hibernation and termination), "How hibernation
works" (60 days), "Change the instance initiated shutdown behavior".
"""

from costguard.cloud import rules
from costguard.cloud.local_disks import Use
from costguard.cloud.rules import Found, disks_deleted, disks_kept
from costguard.plans import PlanFinding
from costguard_aws.facts import Facts
from costguard_aws.rules_vetoes import (
    AwsCase,
    Settings,
    fleets,
    is_spot,
    leaves_group,
    missed,
    owned,
    stands_by,
    starts_again,
)


def bill(case: AwsCase) -> Found:
    """What is no longer paid, and what is."""
    facts = case.facts
    found = facts.instance
    if found is None or ends_bill(facts, case.settings) is not True:
        return
    kept = [volume.id for volume in found.volumes if facts.verb != "terminate" or not volume.deleted]
    volumes = f"{len(kept)} volume{'s' if len(kept) > 1 else ''}" if kept else ""
    addresses = f"{found.addresses} public address{'es' if found.addresses > 1 else ''}" if found.addresses else ""
    rest = " and ".join(filter(None, (volumes, addresses)))
    text = {
        "stop": "computing is not billed once the instance is stopped; starting it again needs free capacity",
        "hibernate": "computing is not billed once the memory is saved, for 60 days at most; if saving fails, EC2 shuts the "
        "instance down and the memory is lost",
        "terminate": "computing is not billed once the instance is terminated; it never comes back",
    }[facts.verb]
    yield "go", PlanFinding("bill_ends", text + (f"; still billed: {rest}" if rest else ""))
    if facts.verb == "terminate":
        yield from disks_kept(kept, "`aws ec2 describe-volumes --filters Name=status,Values=available` lists them")


def disks(case: AwsCase) -> Found:
    """Volumes that are deleted with the instance."""
    if case.verb == "terminate" and case.facts.instance:
        yield from disks_deleted([volume.id for volume in case.facts.instance.volumes if volume.deleted])


def local_data(case: AwsCase) -> Found:
    """Instance store disks are erased; where their use cannot be seen, they count as used."""
    facts = case.facts
    store, disks = facts.store, facts.store.disks if facts.store else None
    if not disks and (facts.has_store is False or (facts.has_store is None and disks is not None)):
        return
    discards = case.settings.get("local_data") == "discard"
    if (
        disks is None
        and facts.has_store is None
        and "type" in facts.unknown
        and not discards
        and (not store or store.used)
    ):
        yield missed(facts, "type", "whether this instance type has local disks, whose data would be lost for good")
        return
    name = f"the local disks {', '.join(disks)}" if disks else "the local disks of this instance type"
    name = name if disks or facts.has_store else "the local disks that this instance type may have"
    perhaps = "" if disks or store is None else "; it may be a network disk: the kernel does not say"
    yield from rules.local_data(case, name, store.use if store else Use("unknown"), perhaps)


def shutdown(case: AwsCase) -> Found:
    """What a shutdown from inside would do. *Stops* is said only where that ends the bill and keeps the disks."""
    facts = case.facts
    if facts.shutdown_behavior == "terminate":
        text = "a shutdown from inside terminates this instance and deletes disks (InstanceInitiatedShutdownBehavior)"
        hint = (
            f"`aws ec2 modify-instance-attribute --instance-id {facts.identity.instance} "
            "--instance-initiated-shutdown-behavior stop`"
        )
        yield "go", PlanFinding("shutdown_terminates", text, hint)
        return
    plain = facts.instance is not None and facts.instance.root_device == "ebs" and not is_spot(facts)
    plain = plain and not facts.in_group  # from inside a member does not enter standby first
    if facts.shutdown_behavior == "stop" and plain and ends_bill(facts._replace(verb="stop"), case.settings):
        text = (
            "if EC2 cannot be reached, costguard shuts the machine down from inside instead: that ends the bill for computing "
            "too, and keeps the volumes"
        )
        yield "go", PlanFinding("shutdown_stops", text, "")


def ends_bill(facts: Facts, settings: Settings) -> bool | None:
    """Whether computing is no longer billed; None where EC2 or somebody else may start it, or something in its place."""
    found = facts.instance
    if found is None:
        return None
    prepaid = facts.identity.market == "reserved" or found.lifecycle in {"capacity-block", "scheduled"}
    if prepaid or found.block or found.reservation or found.tenancy == "host":
        return False
    leaves = leaves_group(facts, settings) or stands_by(facts, settings)
    if (facts.in_group and not leaves) or (facts.verb == "terminate" and starts_again(facts)):
        return False
    maintained = fleets(facts) and not facts.in_group and settings.get("group") != "leave"
    unread = facts.verb == "terminate" and is_spot(facts) and facts.spot is None
    return None if facts.in_group is None or owned(facts, settings) or maintained or unread else True


RULES = (bill, disks, local_data, shutdown)
