"""The rules about money and data: what ends, what goes on, what is lost.

Sources: EC2 user guide "Instance lifecycle" (stopped and terminated instances are not billed, volumes and
addresses are), "Instance store" (its data is lost at stop, hibernation and termination), "How hibernation
works" (60 days), "Change the instance initiated shutdown behavior".
"""

from costguard.cloud.rules import Found
from costguard.plans import PlanFinding, Verdict
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
    facts, settings = case.facts, case.settings
    found = facts.instance
    if found is None or ends_bill(facts, settings) is not True:
        return
    kept = [volume for volume in found.volumes if facts.verb != "terminate" or not volume.deleted]
    addresses = f"{found.addresses} public address{'es' if found.addresses > 1 else ''}" if found.addresses else ""
    rest = " and ".join(filter(None, (_volumes(len(kept)), addresses)))
    words = {
        "stop": "computing is no longer billed once the instance stops; starting it again needs free capacity",
        "hibernate": "computing is billed until the memory is saved, then no more; it may stay so for 60 days; if saving "
        "fails, EC2 shuts down and the memory is lost",
        "terminate": "computing is no longer billed, and the instance never comes back",
    }
    yield "go", PlanFinding("bill_ends", words[facts.verb] + (f"; still billed: {rest}" if rest else ""))
    if facts.verb == "terminate" and kept:
        text = f"not deleted with the instance, and billed until somebody does it: {_volumes(len(kept))}"
        hint = "delete them when they are not needed: `aws ec2 describe-volumes --filters Name=status,Values=available`"
        yield "go", PlanFinding("disks_go_on", text, hint)


def disks(case: AwsCase) -> Found:
    """Volumes that are deleted with the instance."""
    facts = case.facts
    lost = [volume.id for volume in facts.instance.volumes if volume.deleted] if facts.instance else []
    if facts.verb == "terminate" and lost:
        text = f"deleted with the instance: {_volumes(len(lost))}, {', '.join(lost[:4])}{' …' if len(lost) > 4 else ''}"
        yield "consequences", PlanFinding("loses_disks", text, 'set kill_action = "stop" to keep them')


def local_data(case: AwsCase) -> Found:
    """Instance store disks are erased; where their use cannot be seen, they count as used."""
    facts, settings = case.facts, case.settings
    store, disks = facts.store, facts.store.disks if facts.store else None
    if not disks and (facts.has_store is False or (facts.has_store is None and disks is not None)):
        return
    name = f"the local disks {', '.join(disks)}" if disks else "the local disks of this instance type"
    name = name if disks or facts.has_store else "local disks, if this instance type has any,"
    paged = facts.verb == "hibernate" and store is not None and store.swap
    if store is not None and not store.used and not paged:
        seen = f"are mounted ({', '.join(store.empty[:4])}) and empty" if store.empty else "are not mounted"
        text = f"{name} {seen}; whatever is on them is lost"
        yield "consequences", PlanFinding("local_data_lost", text, "")
        return
    discard = settings.get("local_data") == "discard"
    hint = "" if discard else 'copy what matters and unmount it, or set cloud.local_data = "discard"'
    if disks is None and facts.has_store is None and "type" in facts.unknown and not discard:
        yield missed(facts, "type", "whether this instance type has local disks, whose data would be lost for good,")
        return
    if store is None:
        text = f"whether {name} are in use cannot be seen; their data would be lost for good"
    else:
        perhaps = "" if disks else " (it may be a network disk: the kernel does not say)"
        where = store.used or ("swap",)
        text = f"the data of {name} at {', '.join(where[:4])} would be lost for good{perhaps}"
    verdict: Verdict = "consequences" if discard else "refuse"
    yield verdict, PlanFinding("local_data_lost" if discard else "local_data_kept", text, hint)


def shutdown(case: AwsCase) -> Found:
    """What a shutdown from inside would do. *Stops* is said only where that ends the bill and keeps the disks."""
    facts, settings = case.facts, case.settings
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
    if facts.shutdown_behavior == "stop" and plain and ends_bill(facts._replace(verb="stop"), settings):
        text = (
            "as a fall-back, where EC2 cannot be asked, a shutdown from inside would end the bill for computing and keep "
            "the volumes; it never follows a refusal"
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


def _volumes(number: int) -> str:
    return f"{number} volume{'s' if number != 1 else ''}" if number else ""


RULES = (bill, disks, local_data, shutdown)
