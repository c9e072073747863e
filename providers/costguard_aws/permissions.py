"""The rights of each action, and the policy that grants them to the instance itself only.

Sources: Service authorization reference for EC2 and EC2 Auto Scaling (describe actions take no resource);
IAM user guide "Global condition keys" (``aws:TagKeys``; for an instance role ``aws:userid`` is ``ROLE-ID:INSTANCE-ID``) and
EC2's ``ec2:InstanceID`` key. With other credentials than the instance's own role the condition never holds.
"""

import json
from collections.abc import Sequence

from costguard.cloud.api import Permission, Verb, policy_command

_VERBS: dict[Verb, tuple[Permission, ...]] = {
    "stop": (Permission("ec2:StopInstances", "stop this instance"),),
    "hibernate": (Permission("ec2:StopInstances", "stop or hibernate this instance"),),
    "terminate": (Permission("ec2:TerminateInstances", "terminate this instance"),),
}
_LOOKS = (
    Permission(
        "ec2:DescribeInstances", "state, market, disks and group of this instance; the proof that its bill ended"
    ),
    Permission(
        "ec2:DescribeInstanceAttribute",
        "stop and termination protection, what a shutdown from inside does",
        needed=False,
    ),
    Permission("ec2:DescribeInstanceTypes", "whether the type has local disks and can hibernate", needed=False),
    Permission("ec2:DescribeSpotInstanceRequests", "whether a Spot request is one-time or persistent", needed=False),
    Permission("ec2:DescribeSpotPriceHistory", "what a Spot instance costs now, for messages", needed=False),
    Permission("autoscaling:DescribeAutoScalingInstances", "membership in an Auto Scaling group", needed=False),
    Permission("autoscaling:DescribeAutoScalingGroups", "whether the group is at its minimum", needed=False),
)
_IN_GROUP: dict[Verb, Permission] = {
    "stop": Permission(
        "autoscaling:EnterStandby",
        'stop a member of an Auto Scaling group through standby; on the group, only for cloud.group = "leave"',
        needed=False,
    ),
    "terminate": Permission(
        "autoscaling:TerminateInstanceInAutoScalingGroup",
        'terminate a member of an Auto Scaling group; on the group, only for cloud.group = "leave"',
        needed=False,
    ),
}
_TAG = Permission("ec2:CreateTags", "write the tags costguard-incident and costguard-heartbeat of this machine")
_INSTANCES = "arn:*:ec2:*:*:instance/*"
"""Of every partition: ``aws``, ``aws-cn``, ``aws-us-gov`` …; a policy is of one account, which is in one of them."""
_ITSELF = {"aws:userid": "*:${ec2:InstanceID}"}


def permissions(verbs: Sequence[Verb], *, tag: bool = False) -> tuple[Permission, ...]:
    """The rights for some verbs, each once."""
    acts = {permission.name: permission for verb in verbs for permission in _VERBS[verb]}
    return (*acts.values(), *((_TAG,) if tag else ()), *_LOOKS, *_of_group(verbs))


def policy(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The IAM policy as JSON."""
    acts = sorted({permission.name for verb in verbs for permission in _VERBS[verb]})
    statements: list[dict[str, object]] = [
        {
            "Sid": "CostguardEndsItself",
            "Effect": "Allow",
            "Action": acts,
            "Resource": _INSTANCES,
            "Condition": {"StringLike": _ITSELF},
        },
        {"Sid": "CostguardLooks", "Effect": "Allow", "Action": [look.name for look in _LOOKS], "Resource": "*"},
    ]
    if tag:
        statements.append(_marking())
    return json.dumps({"Version": "2012-10-17", "Statement": statements if acts else statements[1:]}, indent=2)


def group_policy(verbs: Sequence[Verb]) -> str:
    """What ``cloud.group = "leave"`` needs beside, as JSON; empty when these actions need nothing. It holds for all members."""
    actions = [right.name for right in _of_group(verbs)]
    group = "arn:*:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/GROUP"
    statement = {"Sid": "CostguardLeavesItsGroup", "Effect": "Allow", "Action": actions, "Resource": group}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}) if actions else ""


def commands(verbs: Sequence[Verb], *, tag: bool = False) -> str:
    """The commands that give these rights to one instance. ROLE, INSTANCE and GROUP are names to put in."""
    put = "aws iam put-role-policy --role-name ROLE --policy-name"
    trust = json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Principal": {"Service": "SERVICE"}, "Action": "sts:AssumeRole"}],
        }
    ).replace("SERVICE", "'$SERVICE'")  # the quotes of the shell end before its variable and begin again after it
    lines = [
        f"{policy_command('aws', verbs, tag=tag)} > costguard-policy.json",
        "# only where the instance has no role yet; in the regions of China the service is ec2.amazonaws.com.cn:",
        "SERVICE=ec2.amazonaws.com",
        f"aws iam create-role --role-name ROLE --assume-role-policy-document '{trust}'",
        "aws iam create-instance-profile --instance-profile-name ROLE",
        "aws iam add-role-to-instance-profile --instance-profile-name ROLE --role-name ROLE",
        "aws ec2 associate-iam-instance-profile --instance-id INSTANCE --iam-instance-profile Name=ROLE",
        "# then, in any case:",
        f"{put} costguard --policy-document file://costguard-policy.json",
    ]
    group = group_policy(verbs)
    if group:
        lines += ['# only for cloud.group = "leave":', f"{put} costguard-group --policy-document '{group}'"]
    return "\n".join(lines)


def _of_group(verbs: Sequence[Verb]) -> tuple[Permission, ...]:
    return tuple(_IN_GROUP[verb] for verb in dict.fromkeys(verbs) if verb in _IN_GROUP)


def _marking() -> dict[str, object]:
    """Two tags and no other: with any tag a machine could change who may do what to it."""
    return {
        "Sid": "CostguardMarksItself",
        "Effect": "Allow",
        "Action": [_TAG.name],
        "Resource": _INSTANCES,
        "Condition": {
            "StringLike": _ITSELF,
            "ForAllValues:StringEquals": {"aws:TagKeys": ["costguard-incident", "costguard-heartbeat"]},
            "Null": {"aws:TagKeys": "false"},
        },
    }
