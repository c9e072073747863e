"""Looks at costguard's heartbeats from outside the machines: a function of AWS Lambda, which runs every few minutes.

A guard cannot see its own death. A heartbeat that stays away is *unknown*, so people are told. A machine is stopped only where
its owner said so with a tag, and then only when its lease has passed, or when its processors and its network were quiet for hours.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

HEARTBEAT, LEASE, WISH, OFF, HOLD = (
    "costguard-heartbeat", "costguard-lease", "costguard-backstop", "costguard", "costguard-hold",
)  # fmt: skip
GROUP = "aws:autoscaling:groupName"
REPEAT = timedelta(days=1)
MANY = 3
"""So many heartbeats that stay away at once have one cause outside the machines: the network, a right, a bad version."""
SLOT = timedelta(minutes=5)
LATE = timedelta(minutes=15)
"""How long the metrics of EC2 may take to arrive."""
QUIET_CORES, QUIET_BYTES = 0.5, 5e6
"""Within five minutes: the busiest moment in cores, and what the network moved. A job on a GPU keeps one core busy."""


class Machine(NamedTuple):
    """An instance that runs, as EC2 shows it."""

    id: str
    tags: Mapping[str, str]
    launched: datetime
    cores: int = 1


class Policy(NamedTuple):
    """``share`` of the watched machines whose heartbeats may stay away at once before nothing is done; ``limit`` stops in a run."""

    stale_after: timedelta
    every: timedelta
    quiet_for: timedelta
    limit: int
    share: float
    live: bool


class Clients(NamedTuple):
    """Of the SDK, which has no types."""

    ec2: Any
    metrics: Any
    topic: Any


class Verdict(NamedTuple):
    """About one machine whose heartbeat stays away: a sentence for people, and whether it is stopped."""

    machine: Machine
    text: str
    stop: bool
    due: bool  # people are told now


def judge(
    machines: Sequence[Machine], quiet: Callable[[Machine], bool | None], now: datetime, policy: Policy
) -> list[Verdict]:
    """What to do with each machine whose heartbeat stays away; ``quiet`` is asked only where it matters, None is unknown."""
    stale = [(machine, age) for machine in machines if (age := silent(machine, now)) >= policy.stale_after]
    many = len(stale) >= MANY and len(stale) > policy.share * len(machines)
    left = 0 if many else policy.limit
    found = []
    for machine, age in stale:
        reason = "" if many else _reason(machine, quiet, now)
        kept = _kept(machine, now)
        stop = bool(reason) and not kept and left > 0
        left -= stop
        text = f"{machine.id}: no heartbeat for {_hours(age)}; the guard is dead, or cannot reach EC2"
        if many:
            text += f"; {len(stale)} of {len(machines)} are silent at once, so none is stopped"
        elif stop:
            text += f"; {'it is stopped now' if policy.live else 'DRY RUN: it would be stopped now'}: {reason}"
        elif reason:
            text += f"; it stays up: {kept or 'others are stopped first'}"
        found.append(Verdict(machine, text, stop and policy.live, stop or _due(age, policy)))
    return found


def silent(machine: Machine, now: datetime) -> timedelta:
    """How long nothing was heard. A date that cannot be read, or lies ahead, was not heard: the launch counts then."""
    heard = _date(machine.tags.get(HEARTBEAT, "").partition(" ")[0])
    if heard is None or heard > now + SLOT:
        heard = machine.launched
    return now - max(heard, machine.launched)


def _reason(machine: Machine, quiet: Callable[[Machine], bool | None], now: datetime) -> str:
    """Why it may be stopped from outside; empty: it may not. The owner's tag comes first, and both ways need quiet metrics."""
    wish = machine.tags.get(WISH, "")
    lease = _date(machine.tags.get(LEASE, ""))
    if wish not in {"lease", "idle"} or (wish == "lease" and (lease is None or lease > now)):
        return ""
    if quiet(machine) is not True:
        return ""
    return (
        "its lease has passed, and it is quiet" if wish == "lease" else "its processors and network are quiet for hours"
    )


def _kept(machine: Machine, now: datetime) -> str:
    if machine.tags.get(OFF, "").strip().lower() == "off":
        return "its tag costguard is off"
    if HOLD in machine.tags:
        until = _date(machine.tags[HOLD])
        if until is None or until > now:
            return f"its tag {HOLD} holds it"
    return "its Auto Scaling group would replace it" if GROUP in machine.tags else ""


def _due(age: timedelta, policy: Policy) -> bool:
    """At the first look that finds it silent, and daily; no memory is needed for that. A late look rather tells twice than never."""
    return (age - policy.stale_after) % REPEAT < policy.every + SLOT


def _date(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return found if found.utcoffset() is not None else None


def _hours(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    return f"{minutes // 60} h {minutes % 60} min"


def handler(_event: object, _context: object) -> dict[str, int]:
    """One look at all machines of the region. What goes wrong is raised: an alarm watches for that."""
    import boto3

    clients = Clients(boto3.client("ec2"), boto3.client("cloudwatch"), boto3.client("sns"))
    return look(clients, datetime.now(UTC), os.environ)


def look(clients: Clients, now: datetime, environment: Mapping[str, str]) -> dict[str, int]:
    """As `handler`, at a moment."""
    policy = policy_of(environment)

    def quiet(machine: Machine) -> bool | None:
        return is_quiet(clients.metrics, machine, now - LATE - policy.quiet_for, now - LATE)

    verdicts = judge(list(_running(clients.ec2)), quiet, now, policy)
    for verdict in verdicts:
        # Decided again on what EC2 shows now: the guard may be back, or somebody may hold it.
        again = list(_running(clients.ec2, verdict.machine.id)) if verdict.stop else []
        if any(one.stop for one in judge(again, quiet, now, policy)):
            clients.ec2.stop_instances(InstanceIds=[verdict.machine.id])
    lines = [verdict.text for verdict in verdicts if verdict.due]
    for line in lines:
        print(line)
    if lines:
        message = "\n".join(lines)
        clients.topic.publish(TopicArn=environment["TOPIC"], Subject="costguard: silent machines", Message=message)
    return {"silent": len(verdicts), "told": len(lines), "stopped": sum(verdict.stop for verdict in verdicts)}


def policy_of(environment: Mapping[str, str]) -> Policy:
    """As the module sets it."""
    minutes = {name: timedelta(minutes=int(environment[name])) for name in ("STALE_AFTER", "EVERY", "QUIET_FOR")}
    return Policy(
        minutes["STALE_AFTER"],
        minutes["EVERY"],
        minutes["QUIET_FOR"],
        int(environment["LIMIT"]),
        float(environment["SHARE"]),
        environment["MODE"] == "live",
    )


def _running(ec2: Any, *ids: str) -> Iterator[Machine]:
    filters = [
        {"Name": "instance-state-name", "Values": ["running"]},
        {"Name": "tag-key", "Values": [HEARTBEAT, WISH]},
    ]
    for page in ec2.get_paginator("describe_instances").paginate(
        Filters=filters, **({"InstanceIds": ids} if ids else {})
    ):
        for one in (one for reservation in page["Reservations"] for one in reservation["Instances"]):
            tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", ())}
            options = one.get("CpuOptions", {})
            cores = options.get("CoreCount", 1) * options.get("ThreadsPerCore", 1)
            yield Machine(one["InstanceId"], tags, one["LaunchTime"], cores)


def is_quiet(metrics: Any, machine: Machine, begin: datetime, end: datetime) -> bool | None:
    """Whether every five minutes were quiet; None where some of them are missing: what is unknown is not quiet."""
    limits = {"CPUUtilization": QUIET_CORES * 100 / machine.cores, "NetworkIn": QUIET_BYTES, "NetworkOut": QUIET_BYTES}
    for name, most in limits.items():
        statistic = "Maximum" if name == "CPUUtilization" else "Sum"
        points = metrics.get_metric_statistics(
            Namespace="AWS/EC2",
            MetricName=name,
            Dimensions=[{"Name": "InstanceId", "Value": machine.id}],
            StartTime=begin,
            EndTime=end,
            Period=int(SLOT.total_seconds()),
            Statistics=[statistic],
        )["Datapoints"]
        if len(points) < (end - begin) // SLOT - 1:
            return None
        if any(point[statistic] >= most for point in points):
            return False
    return True
