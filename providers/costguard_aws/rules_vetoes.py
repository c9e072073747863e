"""The rules that can say no, or name another action. Each takes facts and settings and yields what it finds.

Sources: EC2 user guide "Enable stop protection", "Enable termination protection", "Stop a Spot Instance",
"Hibernation prerequisites", "Instance lifecycle" (root device types), "Capacity Blocks for ML"; Auto Scaling
user guide "Health checks for instances" (a stopped member is replaced) and "Detach or remove instances".
"""

from collections.abc import Mapping

from costguard.cloud import hints, managed, rules
from costguard.cloud.age import is_young
from costguard.cloud.rules import Found, PlanCase, Row, follows, instead, refuse
from costguard_aws import nodes
from costguard_aws.facts import Facts

Settings = Mapping[str, object]
AwsCase = PlanCase[Facts]

IN_SERVICE, ENTERING, STANDBY = "InService", "EnteringStandby", "Standby"
"""Lifecycle states of a group's member in which it may be stopped through standby."""

ENDING = frozenset(("stopping", "stopped", "shutting-down", "terminated"))
"""States of an instance that somebody has ended."""

_MAY_TERMINATE = 'set kill_action = "terminate" if its disks may be deleted'
_FLEET_TAGS = ("aws:ec2:fleet-id", "aws:ec2spot:fleet-request-id")


def this_machine(case: AwsCase) -> Found:
    """The instance must exist under these credentials, in the account that the metadata names."""
    found, me = case.facts.instance, case.facts.identity
    if found is None:
        if "instance" not in case.facts.unknown:
            text = f"EC2 does not know {me.instance} under these credentials, so nothing is sent"
            hint = f"check account and region: `aws sts get-caller-identity`, {hints.THEN_DOCTOR}"
            yield refuse("not_this_machine", text, hint)
        return
    account = me.details.get("account", "")
    if found.owner and account and found.owner != account:
        text = f"EC2 says that {found.id} belongs to account {found.owner}; this machine's metadata says {account}"
        yield refuse("not_this_machine", text, f"find out which is right, {hints.THEN_DOCTOR}")


def ends_already(facts: Facts) -> bool:
    """Whether somebody else, or an earlier attempt, has ended this instance."""
    return facts.instance is not None and facts.instance.state in ENDING


def state(case: AwsCase) -> Found:
    """Only a running instance can be ended; one that ends already is not this rule's."""
    found = case.facts.instance
    if found and found.state != "running":
        yield rules.not_running("EC2", found.state, "wait, or look with `aws ec2 describe-instances`")


def readable(case: AwsCase) -> Found:
    """Facts that decide between ending a bill and having the machine replaced or its data lost."""
    facts = case.facts
    if facts.instance is None and "instance" in facts.unknown:
        yield missed(facts, "instance", "what EC2 knows of this instance (market, group, disks)")
    if facts.in_group is None:
        yield missed(facts, "group", "whether an Auto Scaling group would replace this instance")
    if leaves_group(facts, case.settings) and "group" in facts.unknown:
        yield missed(facts, "group", "whether scale-in protection is set, which this call would bypass")
    if facts.verb == "terminate" and is_spot(facts) and facts.spot is None:
        yield missed(facts, "spot", "whether the Spot request is persistent and would start a new instance")


def permitted(case: AwsCase) -> Found:
    """The dry run; it says nothing of the group's own call, which has none."""
    facts = case.facts
    if leaves_group(facts, case.settings):
        yield _only_by_use("autoscaling:TerminateInstanceInAutoScalingGroup")
        return
    if stands_by(facts, case.settings) and facts.group and facts.group.state == IN_SERVICE:
        yield _only_by_use("autoscaling:EnterStandby")
    right = "ec2:TerminateInstances" if facts.verb == "terminate" else "ec2:StopInstances"
    hint = f"grant {right} on this instance: `costguard permissions aws` prints the policy"
    if facts.permitted is False and is_young(facts.uptime):
        yield rules.rights_late(f"the right {right} is missing", right)
    elif facts.permitted is False:
        yield rules.right_missing(right, hint)
    elif facts.permitted is None:
        unknown = facts.unknown.get("permitted")
        passes = unknown is not None and unknown.technical
        what, why = f"whether the right {right} is granted", unknown.message if unknown else "no answer"
        yield rules.unread("permission_unknown", what, why, hint, passes=passes, otherwise="consequences")


def _only_by_use(right: str) -> Row:
    text = f"unknown: whether the right {right} is granted; only the request itself can show it"
    return follows("permission_unknown", text, f"grant {right} on the Auto Scaling group")


def protection(case: AwsCase) -> Found:
    """A flag that a person set is never removed. Stop protection holds back a termination too."""
    facts = case.facts
    flags = [("disableApiStop", facts.api_stop_disabled, "--no-disable-api-stop")]
    if facts.verb == "terminate":
        flags.append(("disableApiTermination", facts.api_termination_disabled, "--no-disable-api-termination"))
    for name, value, option in flags:
        if value:
            command = f"aws ec2 modify-instance-attribute --instance-id {facts.identity.instance} {option}"
            yield rules.protected(name, command)
        elif value is None:
            what = f"{name}; if it is set, EC2 refuses and the bill goes on"
            yield _unread(facts, name, what, "ec2:DescribeInstanceAttribute")
    if facts.group and facts.group.protected:
        command = "aws autoscaling set-instance-protection --no-protected-from-scale-in …"
        yield rules.protected(f"scale-in protection of the group {facts.group.name}", command)


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
    found = owner(case.facts)
    if found:
        yield managed.finding(found, case.settings, nodes.POWER_DOWN)


def group(case: AwsCase) -> Found:
    """A stopped member fails its health check: it is terminated and replaced. Only leaving the group ends the bill."""
    facts = case.facts
    if facts.in_group is False and "group" in facts.unknown:
        what = "what Auto Scaling says of this instance; it lacks the tag that every member of a group has"
        yield _unread(facts, "group", what, "autoscaling:DescribeAutoScalingInstances")
    if not facts.in_group:
        return
    name = facts.group.name if facts.group else "(name unknown)"
    if case.settings.get("group") != "leave":
        hint = 'lower the group\'s desired capacity, or let costguard do it: cloud.group = "leave"'
        yield rules.member(f"Auto Scaling group {name}", hint)
    elif facts.verb == "hibernate":
        text = f"the Auto Scaling group {name} would replace this instance: members cannot hibernate"
        yield instead("group_member", text, 'set kill_action = "stop"')
    elif facts.verb == "stop":
        yield from _standby(facts, name)
    else:
        text = f"the Auto Scaling group {name} terminates this instance and lowers its desired capacity by one"
        yield follows("group_member", text)
        yield from _at_minimum(facts, name)


def _standby(facts: Facts, name: str) -> Found:
    """A stopped member stays only in standby, and only one that is in service may enter it."""
    state = facts.group.state if facts.group else ""
    if not state:
        what = f"the state of this instance in the Auto Scaling group {name}, without which it cannot be stopped"
        yield missed(facts, "group", what)
    elif state == IN_SERVICE:
        text = (
            f"the Auto Scaling group {name} moves this instance to standby and lowers its desired capacity by one; then it is "
            "stopped. It stays in standby until somebody brings it back; scaling policies may start another instance"
        )
        yield follows("group_member", text, f"to bring it back: {bring_back(facts)}")
        yield from _at_minimum(facts, name)
    elif state in {ENTERING, STANDBY}:
        text = (
            f"this member of the Auto Scaling group {name} is in standby ({state}) and stays there when it is stopped; "
            "until then it runs and is billed, and the group is one smaller"
        )
        hint = f"to bring it back while it runs: {exit_standby(facts)}; when it is stopped: {bring_back(facts)}"
        yield follows("group_member", text, hint)
    else:
        text = f"the Auto Scaling group {name} shows this member as {state}; only one in service can be stopped"
        yield refuse("group_member", text, "wait, or look with `aws autoscaling describe-auto-scaling-instances`")


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
        what = f"whether the group {name} is at its minimum; if so, it refuses to shrink and the bill goes on"
        yield _unread(facts, "sizes", what, "autoscaling:DescribeAutoScalingGroups")
    if known and known.minimum is not None and known.desired is not None and known.desired <= known.minimum:
        text = f"the group {name} is at its minimum of {known.minimum}: it would refuse to shrink, and the bill goes on"
        hint = f"`aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --min-size …`"
        yield refuse("group_at_minimum", text, hint)


def fleets(facts: Facts) -> list[str]:
    """The EC2 or Spot Fleet that this instance comes from."""
    tags = facts.instance.tags if facts.instance else {}
    return [tags[tag] for tag in _FLEET_TAGS if tag in tags]


def fleet(case: AwsCase) -> Found:
    """A fleet that maintains its capacity starts a new instance; its type cannot be seen from here."""
    names = fleets(case.facts)
    if not names or case.facts.in_group:
        return
    text = f"this instance comes from the fleet {names[0]}; one of type maintain starts a new one, and the bill goes on"
    hint = 'lower its target capacity, or set cloud.group = "leave" if it is of type instant or request'
    yield (follows if case.settings.get("group") == "leave" else refuse)("group_member", text, hint)


def spot(case: AwsCase) -> Found:
    """One-time requests can only be terminated, persistent ones start a new instance after that."""
    facts = case.facts
    if not is_spot(facts):
        return
    request, number = facts.spot, facts.instance.spot_request if facts.instance else ""
    if facts.verb == "hibernate":
        yield rules.cannot_hibernate("EC2 hibernates a Spot instance only when it interrupts it", _instead(facts))
    elif request is None and facts.verb == "stop":
        what = "the type of the Spot request; if it is one-time, EC2 refuses to stop"
        yield _unread(facts, "spot", what, "ec2:DescribeSpotInstanceRequests")
    elif request and facts.verb == "stop" and request.type == "persistent" and not request.launch_group:
        yield rules.may_not_return("EC2")
    elif request and facts.verb == "stop":
        kind = f"in the launch group {request.launch_group}" if request.launch_group else "one-time"
        text = f"EC2 can only terminate this Spot instance: its request is {kind}"
        yield instead("one_time_spot", text, _MAY_TERMINATE)
    elif starts_again(facts):
        text = (
            f"after a termination the persistent Spot request {number} would start a new instance: the bill would go on"
        )
        hint = f'set kill_action = "stop", or first `aws ec2 cancel-spot-instance-requests --spot-instance-request-ids {number}`'
        yield instead("persistent_spot", text, hint)


def hibernation(case: AwsCase) -> Found:
    """Only instances that were launched for it can hibernate, and no GPU type can."""
    facts = case.facts
    if facts.verb != "hibernate":
        return
    if facts.type_hibernates is False:
        why = f"type {facts.identity.type} does not support it (no GPU type of EC2 does)"
        yield rules.cannot_hibernate(why, _instead(facts))
    elif facts.instance and not facts.instance.hibernation:
        yield rules.cannot_hibernate("it was launched without hibernation, which cannot be added", _instead(facts))
    elif facts.type_hibernates is None:
        what = f"whether type {facts.identity.type} can hibernate; if not, EC2 refuses"
        yield _unread(facts, "type", what, "ec2:DescribeInstanceTypes")


def root_device(case: AwsCase) -> Found:
    """An instance whose root disk is an instance store has no stopped state."""
    facts = case.facts
    if facts.verb != "terminate" and facts.instance and facts.instance.root_device == "instance-store":
        text = f"this instance cannot {facts.verb}, only be terminated: its root disk is an instance store"
        yield instead("instance_store_root", text, _MAY_TERMINATE)


def prepaid(case: AwsCase) -> Found:
    """Ending an instance does not end a reservation."""
    found, act = case.facts.instance, case.settings.get("prepaid") == "act"
    say, hint = (follows, "") if act else (refuse, hints.PREPAID)
    lifecycle = case.facts.identity.details.get("lifecycle", "")
    kinds = {lifecycle, found.lifecycle if found else ""}
    if kinds & {"capacity-block", "scheduled"} or (found and found.block):
        text = "this capacity is paid in advance: ending the instance saves nothing, and after the block's end it cannot start again"
        yield say("prepaid", text, hint)
    elif (found and found.reservation) or lifecycle == "interruptible-capacity-reservation":
        name = found.reservation if found and found.reservation else "that it runs in"
        text = f"the capacity reservation {name} is billed whether it is used or not: ending the instance saves nothing"
        yield say("reservation_goes_on", text, hint or "cancel the reservation when nobody needs it")
    elif found and found.tenancy == "host":
        text = "the dedicated host is billed as long as it is allocated: ending the instance saves nothing"
        yield say("reservation_goes_on", text, hint or "release the host when it is empty")


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
    hint = f"grant {right}" if unknown is None or unknown.permission else hints.DOCTOR
    return follows("permission_unknown", f"unknown: {what}{f' ({unknown.message})' if unknown else ''}", hint)


def missed(facts: Facts, name: str, what: str) -> Row:
    """A fact that decides. Throttling or a network that broke off is no veto: it passes, and the plan is made again."""
    unknown = facts.unknown.get(name)
    right = unknown.permission if unknown else ""
    late = "; rights of a young machine may still arrive" if is_young(facts.uptime) else ""
    why = f"{unknown.message if unknown else 'EC2 did not say'}{late}"
    hint = f"grant {right}: `costguard permissions aws` prints the policy" if right else hints.DOCTOR
    return rules.unread("facts_missing", what, why, hint, passes=unknown is not None and unknown.technical)


def _instead(facts: Facts) -> str:
    once = facts.spot is not None and facts.spot.type == "one-time"
    return f'set kill_action = "{"terminate" if once else "stop"}"'


RULES = (*(state, readable, permitted, protection, node), *(group, fleet, spot, root_device, hibernation, prepaid))
