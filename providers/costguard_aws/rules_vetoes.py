"""The rules that can say no, or name another action. Each takes facts and settings and yields what it finds.

Sources: EC2 user guide "Enable stop protection", "Enable termination protection", "Stop a Spot Instance",
"Hibernation prerequisites", "Instance lifecycle" (root device types), "Capacity Blocks for ML"; Auto Scaling
user guide "Health checks for instances" (a stopped member is replaced) and "Detach or remove instances".
"""

from collections.abc import Mapping

from costguard.cloud import hints, managed
from costguard.cloud.age import is_young
from costguard.cloud.rules import Case, Found, Row
from costguard.plans import PlanFinding, Verdict
from costguard_aws import nodes
from costguard_aws.facts import Facts

Settings = Mapping[str, object]
AwsCase = Case[Facts]

IN_SERVICE, ENTERING, STANDBY = "InService", "EnteringStandby", "Standby"
"""Lifecycle states of a group's member in which it may be stopped through standby."""

ENDING = frozenset(("stopping", "stopped", "shutting-down", "terminated"))
"""States of an instance that somebody has ended."""

_DOCTOR = "then run `costguard doctor`"
_FLEET_TAGS = ("aws:ec2:fleet-id", "aws:ec2spot:fleet-request-id")


def this_machine(case: AwsCase) -> Found:
    """The instance must exist under these credentials, in the account that the metadata names."""
    facts = case.facts
    found, said = facts.instance, facts.identity
    if found is None:
        if "instance" not in facts.unknown:
            text = f"EC2 does not know {said.instance} under these credentials, so nothing is done in its name"
            hint = f"check account and region: `aws sts get-caller-identity`, {_DOCTOR}"
            yield "refuse", PlanFinding("not_this_machine", text, hint)
        return
    account = said.details.get("account", "")
    if found.owner and account and found.owner != account:
        text = f"{found.id} belongs to account {found.owner}, and this machine's metadata says {account}"
        yield "refuse", PlanFinding("not_this_machine", text, f"find out which is right, {_DOCTOR}")


def ends_already(facts: Facts) -> bool:
    """Whether somebody else, or an earlier attempt, has ended this instance."""
    return facts.instance is not None and facts.instance.state in ENDING


def state(case: AwsCase) -> Found:
    """Only a running instance can be ended; one that ends already is not this rule's."""
    facts = case.facts
    if facts.instance and facts.instance.state != "running":
        text = f"EC2 says that the instance is {facts.instance.state or 'in no state'}, not running: nothing is sent"
        yield "refuse", PlanFinding("not_running", text, "wait for it, or look with `aws ec2 describe-instances`")


def readable(case: AwsCase) -> Found:
    """Facts that decide between ending a bill and having the machine replaced or its data lost."""
    facts, settings = case.facts, case.settings
    needed = {
        "instance": facts.instance is None and "instance" in facts.unknown,
        "group": facts.in_group is None,
        "protected": leaves_group(facts, settings) and "group" in facts.unknown,
    }
    if facts.verb == "terminate" and is_spot(facts):
        needed["spot"] = facts.spot is None
    words = {
        "instance": "what EC2 knows of this instance (market, group, disks)",
        "group": "whether an Auto Scaling group would replace it",
        "protected": "whether its Auto Scaling group protects it from scale-in, which this call would go round",
        "spot": "whether its Spot request is persistent and would start a new one",
    }
    for name, missing in needed.items():
        if missing:
            yield missed(facts, "group" if name == "protected" else name, words[name])


def permitted(case: AwsCase) -> Found:
    """The dry run; it says nothing of the group's own call, which has none."""
    facts, settings = case.facts, case.settings
    if leaves_group(facts, settings):
        text = "whether the Auto Scaling group's own call is allowed cannot be checked without making it"
        hint = "grant autoscaling:TerminateInstanceInAutoScalingGroup on the group"
        yield "consequences", PlanFinding("permission_unknown", text, hint)
        return
    if stands_by(facts, settings) and facts.group and facts.group.state == IN_SERVICE:
        text = "whether this machine may enter the standby of its Auto Scaling group cannot be checked without doing it"
        yield "consequences", PlanFinding("permission_unknown", text, "grant autoscaling:EnterStandby on the group")
    right = "ec2:TerminateInstances" if facts.verb == "terminate" else "ec2:StopInstances"
    hint = f"grant {right} on this instance: `costguard permissions aws` prints the policy"
    if facts.permitted is False and facts.uptime is not None and is_young(facts.uptime):
        text = f"AWS denies {right}, but this machine is {facts.uptime / 60:.0f} min old and rights arrive late; it is asked again"
        yield "consequences", PlanFinding("rights_may_be_late", text, hint)
    elif facts.permitted is False:
        text = f"AWS denies {right} to this machine: it cannot {facts.verb} itself, and the bill goes on"
        yield "refuse", PlanFinding("not_permitted", text, hint)
    elif facts.permitted is None:
        unknown = facts.unknown.get("permitted")
        text = f"whether {right} is allowed could not be checked ({unknown.words if unknown else 'no answer'})"
        verdict: Verdict = "failed" if unknown and unknown.technical else "consequences"
        yield verdict, PlanFinding("permission_unknown", text, hints.AGAIN if verdict == "failed" else hint)


def protection(case: AwsCase) -> Found:
    """A flag that a person set is never removed. Stop protection holds back a termination too."""
    facts = case.facts
    flags = {"disableApiStop": facts.api_stop_disabled}
    if facts.verb == "terminate":
        flags["disableApiTermination"] = facts.api_termination_disabled
    options = {"disableApiStop": "--no-disable-api-stop", "disableApiTermination": "--no-disable-api-termination"}
    for name, value in flags.items():
        remove = f"`aws ec2 modify-instance-attribute --instance-id {facts.identity.instance} {options[name]}`"
        if value:
            text = f"{name} protects this instance; costguard never removes a protection, and the bill goes on"
            yield "refuse", PlanFinding("protected", text, f"if it may be ended, a person removes it: {remove}")
        elif value is None:
            what = f"{name}; if it is set, EC2 will refuse and the bill goes on"
            yield _unread(facts, name, what, "ec2:DescribeInstanceAttribute")
    if facts.group and facts.group.protected:
        text = f"the group {facts.group.name} protects this member from scale-in; costguard never removes a protection"
        hint = "`aws autoscaling set-instance-protection --no-protected-from-scale-in …`, if it may be ended"
        yield "refuse", PlanFinding("protected", text, hint)


def owner(facts: Facts) -> tuple[str, str] | None:
    """The scheduler or service that this machine belongs to, and what shows it."""
    found = facts.instance
    if found is None:
        return None
    return nodes.owner(found.tags) or ((found.operator, "EC2 calls it its operator") if found.operator else None)


def owned(facts: Facts, settings: Settings) -> bool:
    """Whether a scheduler or a service may start something in its place."""
    return owner(facts) is not None and settings.get("managed") != "standalone"


def node(case: AwsCase) -> Found:
    """A machine of a cluster belongs to its scheduler, which would see a failure and replace it."""
    facts, settings = case.facts, case.settings
    found = owner(facts)
    if found:
        yield managed.finding(*found, settings, nodes.power_down(found[0]))


def group(case: AwsCase) -> Found:
    """A stopped member fails its health check: it is terminated and replaced. Only leaving the group ends the bill."""
    facts, settings = case.facts, case.settings
    if facts.in_group is False and "group" in facts.unknown:
        what = "what Auto Scaling itself says of this instance; it has no tag of a group, which every member has"
        yield _unread(facts, "group", what, "autoscaling:DescribeAutoScalingInstances")
    if not facts.in_group:
        return
    name = facts.group.name if facts.group else "whose name could not be read"
    if settings.get("group") != "leave":
        text = f"this instance is a member of the Auto Scaling group {name}, which replaces it: the bill would go on"
        hint = 'lower the group\'s desired capacity, or let costguard do both: cloud.group = "leave"'
        yield "refuse", PlanFinding("group_member", text, hint)
    elif facts.verb == "hibernate":
        text = f"members of an Auto Scaling group do not hibernate: the group {name} would replace it"
        yield "another", PlanFinding("group_member", text, 'set kill_action = "stop"')
    elif facts.verb == "stop":
        yield from _standby(facts, name)
    else:
        text = f"the Auto Scaling group {name} terminates this member and lowers its desired capacity by one"
        yield "consequences", PlanFinding("group_member", text, "")
        yield from _at_minimum(facts, name)


def _standby(facts: Facts, name: str) -> Found:
    """A stopped member stays only in standby, and only one that is in service may enter it."""
    state = facts.group.state if facts.group else ""
    if not state:
        what = (
            f"the lifecycle state of this member of the Auto Scaling group {name}, without which it cannot be stopped"
        )
        yield missed(facts, "group", what)
    elif state == IN_SERVICE:
        text = (
            f"the Auto Scaling group {name} puts this member into standby and lowers its desired capacity by one, then it is "
            "stopped; it stays so until somebody brings it back, and the group's scaling may start another one"
        )
        yield "consequences", PlanFinding("group_member", text, f"to bring it back: {bring_back(facts)}")
        yield from _at_minimum(facts, name)
    elif state in {ENTERING, STANDBY}:
        text = (
            f"this member of the Auto Scaling group {name} is in standby ({state}), where it stays when it is stopped; "
            "until then it runs and is billed, and the group is one smaller"
        )
        hint = f"to bring it back while it runs: {exit_standby(facts)}; when it is stopped: {bring_back(facts)}"
        yield "consequences", PlanFinding("group_member", text, hint)
    else:
        text = f"the Auto Scaling group {name} shows this member as {state}, and only one in service can be stopped"
        yield (
            "refuse",
            PlanFinding(
                "group_member", text, "wait for it, or look with `aws autoscaling describe-auto-scaling-instances`"
            ),
        )


def bring_back(facts: Facts) -> str:
    """The commands that take a stopped member out of standby again."""
    return f"`aws ec2 start-instances --instance-ids {facts.identity.instance}`, then {exit_standby(facts)}"


def exit_standby(facts: Facts) -> str:
    """The command that takes a running member out of standby; the group is one larger again."""
    me, name = facts.identity.instance, facts.group.name if facts.group else "GROUP"
    return f"`aws autoscaling exit-standby --instance-ids {me} --auto-scaling-group-name {name}`"


def _at_minimum(facts: Facts, name: str) -> Found:
    known = facts.group
    if "sizes" in facts.unknown:
        what = f"whether the group {name} is at its minimum; if it is, it refuses to shrink and the bill goes on"
        yield _unread(facts, "sizes", what, "autoscaling:DescribeAutoScalingGroups")
    if known and known.minimum is not None and known.desired is not None and known.desired <= known.minimum:
        text = f"the group {name} is at its minimum of {known.minimum}: it would refuse to shrink, and the bill goes on"
        hint = f"`aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --min-size …`"
        yield "refuse", PlanFinding("group_at_minimum", text, hint)


def fleets(facts: Facts) -> list[str]:
    """The EC2 or Spot Fleet that this instance comes from."""
    tags = facts.instance.tags if facts.instance else {}
    return [tags[tag] for tag in _FLEET_TAGS if tag in tags]


def fleet(case: AwsCase) -> Found:
    """A fleet that maintains its capacity starts a new instance; its type cannot be seen from here."""
    facts, settings = case.facts, case.settings
    for name in fleets(facts)[:1]:
        if facts.in_group:
            return
        leave = settings.get("group") == "leave"
        text = f"this instance comes from the fleet {name}; one of type maintain starts a new one, and the bill goes on"
        hint = 'lower its target capacity, or set cloud.group = "leave" if it is of type instant or request'
        yield "consequences" if leave else "refuse", PlanFinding("group_member", text, hint)


def spot(case: AwsCase) -> Found:
    """One-time requests can only be terminated, persistent ones start a new instance after that."""
    facts = case.facts
    if not is_spot(facts):
        return
    request, number = facts.spot, facts.instance.spot_request if facts.instance else ""
    if facts.verb == "hibernate":
        text = "EC2 hibernates a Spot instance only when it interrupts it, never on request"
        yield "another", PlanFinding("cannot_hibernate", text, _instead(facts))
    elif request is None and facts.verb == "stop":
        what = "the type of the Spot request; if it is one-time, EC2 will refuse to stop"
        yield _unread(facts, "spot", what, "ec2:DescribeSpotInstanceRequests")
    elif request and facts.verb == "stop" and request.type == "persistent" and not request.launch_group:
        text = "a stopped Spot instance starts again only when you start it and EC2 has spare capacity at your price"
        yield "consequences", PlanFinding("spot_may_not_return", text, "")
    elif request and facts.verb == "stop":
        kind = f"in the launch group {request.launch_group}" if request.launch_group else "one-time"
        text = f"EC2 cannot stop a Spot instance whose request is {kind}: it can only be terminated"
        yield "another", PlanFinding("one_time_spot", text, 'set kill_action = "terminate" if its disks may be deleted')
    elif starts_again(facts):
        text = (
            f"the persistent Spot request {number} would start a new instance after a termination: the bill would go on"
        )
        hint = f'set kill_action = "stop", or first `aws ec2 cancel-spot-instance-requests --spot-instance-request-ids {number}`'
        yield "another", PlanFinding("persistent_spot", text, hint)


def hibernation(case: AwsCase) -> Found:
    """Only instances that were launched for it can hibernate, and no GPU type can."""
    facts = case.facts
    if facts.verb != "hibernate":
        return
    found = facts.instance
    if facts.type_hibernates is False:
        text = f"instances of type {facts.identity.type} cannot hibernate (no GPU type of EC2 can)"
        yield "another", PlanFinding("cannot_hibernate", text, _instead(facts))
    elif found and not found.hibernation:
        text = "hibernation was not configured when this instance was launched, and cannot be added"
        yield "another", PlanFinding("cannot_hibernate", text, _instead(facts))
    elif facts.type_hibernates is None:
        what = f"whether type {facts.identity.type} can hibernate; if not, EC2 will refuse"
        yield _unread(facts, "type", what, "ec2:DescribeInstanceTypes")


def root_device(case: AwsCase) -> Found:
    """An instance whose root disk is an instance store has no stopped state."""
    facts = case.facts
    if facts.verb != "terminate" and facts.instance and facts.instance.root_device == "instance-store":
        text = f"the root disk of this instance is an instance store: it cannot {facts.verb}, only be terminated"
        yield (
            "another",
            PlanFinding("instance_store_root", text, 'set kill_action = "terminate" if its data may be lost'),
        )


def prepaid(case: AwsCase) -> Found:
    """Ending an instance does not end a reservation."""
    facts, settings = case.facts, case.settings
    found = facts.instance
    act = settings.get("prepaid") == "act"
    verdict: Verdict = "consequences" if act else "refuse"
    hint = "" if act else 'set cloud.prepaid = "act" to end it all the same'
    lifecycle = facts.identity.details.get("lifecycle", "")
    if lifecycle in {"capacity-block", "scheduled"} or (
        found and (found.block or found.lifecycle in {"capacity-block", "scheduled"})
    ):
        text = (
            "this capacity is paid in advance: ending it saves nothing, and it cannot start again after the block's end"
        )
        yield verdict, PlanFinding("prepaid", text, hint)
    elif (found and found.reservation) or lifecycle == "interruptible-capacity-reservation":
        name = found.reservation if found and found.reservation else "that it runs in"
        text = f"the capacity reservation {name} is billed whether it is used or not: ending the instance saves nothing"
        yield verdict, PlanFinding("reservation_goes_on", text, hint or "cancel the reservation when it is not needed")
    elif found and found.tenancy == "host":
        text = "the dedicated host is billed as long as it is allocated: ending the instance saves nothing"
        yield verdict, PlanFinding("reservation_goes_on", text, hint or "release the host when it is empty")


def leaves_group(facts: Facts, settings: Settings) -> bool:
    """Whether the group's own call is made in place of EC2's."""
    return facts.in_group is True and settings.get("group") == "leave" and facts.verb == "terminate"


def stands_by(facts: Facts, settings: Settings) -> bool:
    """Whether the group puts this member into standby, so that it can be stopped and stays."""
    if facts.in_group is not True or settings.get("group") != "leave" or facts.verb != "stop" or not facts.group:
        return False
    return facts.group.state in {IN_SERVICE, ENTERING, STANDBY}


def starts_again(facts: Facts) -> bool:
    """Whether the Spot request would start a new instance after a termination."""
    request = facts.spot
    return request is not None and request.type == "persistent" and request.state in {"active", "open", "disabled", ""}


def is_spot(facts: Facts) -> bool:
    """Whether EC2 or the metadata calls it a Spot instance."""
    return facts.instance is not None and "spot" in {facts.instance.lifecycle, facts.identity.market}


def _unread(facts: Facts, name: str, what: str, right: str) -> Row:
    """A fact that EC2 itself will judge: without the right to see it the request decides; else it is asked again."""
    unknown = facts.unknown.get(name)
    if unknown and unknown.technical:
        return missed(facts, name, what)
    why = f" ({unknown.words})" if unknown else ""
    hint = f"grant {right}" if unknown is None or unknown.permission else "run `costguard doctor` again"
    return "consequences", PlanFinding("permission_unknown", f"not known: {what}{why}", hint)


def missed(facts: Facts, name: str, what: str) -> Row:
    """A fact that decides. Throttling or a network that broke off is no veto: it passes, and the plan is made again."""
    unknown = facts.unknown.get(name)
    if unknown and unknown.technical:
        return "failed", PlanFinding("facts_missing", f"{what} could not be read ({unknown.words})", hints.AGAIN)
    why = unknown.words if unknown else "EC2 did not say"
    right = unknown.permission if unknown else ""
    late = "; rights of a young machine may still arrive" if is_young(facts.uptime) else ""
    hint = f"grant {right}: `costguard permissions aws` prints the policy" if right else "run `costguard doctor` again"
    return "refuse", PlanFinding("facts_missing", f"{what} could not be read ({why}){late}", hint)


def _instead(facts: Facts) -> str:
    once = facts.spot is not None and facts.spot.type == "one-time"
    return f'set kill_action = "{"terminate" if once else "stop"}"'


RULES = (
    *(state, readable, permitted, protection, node),
    *(group, fleet, spot, root_device, hibernation, prepaid),
)
