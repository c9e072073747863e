"""The backstop: a heartbeat that stays away is told; a machine is stopped only where its owner said so, and few at a time."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from costguard.cloud import tags
from terraform.aws.backstop import watch
from terraform.aws.backstop.watch import Clients, Machine, Policy, judge

NOW = datetime(2027, 1, 31, 12, tzinfo=UTC)
POLICY = Policy(timedelta(hours=1), timedelta(minutes=15), timedelta(hours=6), 2, 0.25, live=True)
PAST, AHEAD = "2027-01-30T00:00:00+00:00", "2027-02-28T00:00:00+00:00"
IDLE = {watch.WISH: "idle"}


def machine(name: str = "i-1", marks: Mapping[str, str] | None = None, *, silent_hours: float = 5) -> Machine:
    beat = tags.heartbeat_value("ARMED", (NOW - timedelta(hours=silent_hours)).timestamp())
    found = {watch.HEARTBEAT: beat, **(marks or {})}
    return Machine(name, found, NOW - timedelta(days=9))


def others(count: int) -> list[Machine]:
    """Machines whose guards live."""
    return [machine(f"i-live-{number}", silent_hours=0.1) for number in range(count)]


def stopped(*machines: Machine, quiet: bool | None = True, policy: Policy = POLICY) -> list[str]:
    return [one.machine.id for one in judge([*machines, *others(9)], lambda _: quiet, NOW, policy) if one.stop]


@pytest.mark.parametrize("slip", [0, 1, 299])
def test_silence_alone_is_told_and_stops_nothing(slip: int) -> None:
    """Unknown is not idle. It is told when it is first seen, and daily, however late a look is."""
    looks = [timedelta(minutes=15 * number, seconds=slip * (number % 2)) for number in range(4 * 50)]
    told = [
        look // timedelta(days=1)
        for look in looks
        if any(
            one.due for one in judge([machine(silent_hours=look.total_seconds() / 3600)], lambda _: True, NOW, POLICY)
        )
    ]
    assert sorted(set(told)) == [0, 1, 2]
    assert len(told) <= 6
    assert stopped(machine()) == []
    assert judge(others(3), lambda _: True, NOW, POLICY) == []


@pytest.mark.parametrize(
    ("marks", "acts"),
    [
        ({"costguard-backstop": "lease", "costguard-lease": PAST}, True),
        ({"costguard-backstop": "lease", "costguard-lease": AHEAD}, False),
        ({"costguard-backstop": "lease", "costguard-lease": "soon"}, False),
        ({"costguard-backstop": "lease"}, False),
        ({"costguard-lease": PAST}, False),
        ({"costguard-backstop": "idle"}, True),
        ({"costguard-backstop": "tell", "costguard-lease": PAST}, False),
        ({"costguard-backstop": "idle", "costguard": "off"}, False),
        ({"costguard-backstop": "idle", "costguard-hold": AHEAD}, False),
        ({"costguard-backstop": "idle", "costguard-hold": "until Monday"}, False),
        ({"costguard-backstop": "idle", "costguard-hold": PAST}, True),
        ({"costguard-backstop": "idle", "aws:autoscaling:groupName": "workers"}, False),
    ],
)
def test_the_owners_tags_decide(marks: dict[str, str], acts: bool) -> None:
    """A tag that cannot be read never makes anything harsher."""
    assert stopped(machine(marks=marks)) == (["i-1"] if acts else [])


@pytest.mark.parametrize("quiet", [False, None])
def test_what_works_or_cannot_be_seen_is_not_stopped(quiet: bool | None) -> None:
    """Also with a lease that has passed: it never stops work."""
    assert stopped(machine(marks=IDLE), quiet=quiet) == []
    assert stopped(machine(marks={watch.WISH: "lease", watch.LEASE: PAST}), quiet=quiet) == []


def test_a_few_at_a_time_and_none_when_many_are_silent() -> None:
    """Many silent guards have one cause outside the machines."""
    silent = [machine(f"i-{number}", IDLE) for number in range(4)]
    assert stopped(*silent[:3]) == ["i-0", "i-1"]
    assert stopped(*silent) == [], "four of thirteen are more than a quarter"
    (text, *_) = [one.text for one in judge(silent, lambda _: True, NOW, POLICY)]
    assert "4 of 4 are silent at once, so none is stopped" in text


def test_a_dry_run_says_what_it_would_do() -> None:
    """And does nothing."""
    (verdict,) = judge([machine(marks=IDLE)], lambda _: True, NOW, POLICY._replace(live=False))
    assert (verdict.stop, "DRY RUN: it would be stopped now" in verdict.text) == (False, True)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 90), st.sampled_from(["", "lease", "idle", "x"]), st.sampled_from(["", PAST, AHEAD, "?"])
        )
    ),
    st.sampled_from([True, False, None]),
)
def test_a_machine_that_is_heard_or_not_opted_in_is_never_stopped(
    drawn: list[tuple[float, str, str]], quiet: bool | None
) -> None:
    """Whatever the tags of all of them."""
    machines = [
        machine(str(number), {watch.WISH: wish, watch.LEASE: lease}, silent_hours=hours)
        for number, (hours, wish, lease) in enumerate(drawn)
    ]
    ended = [one.machine for one in judge(machines, lambda _: quiet, NOW, POLICY) if one.stop]
    assert len(ended) <= POLICY.limit
    assert not ended or quiet
    for one in ended:
        assert watch.silent(one, NOW) >= POLICY.stale_after
        assert one.tags[watch.WISH] == "idle" or one.tags[watch.LEASE] == PAST


def test_a_start_after_the_last_heartbeat_counts_as_heard() -> None:
    """A machine that somebody has just started is left alone until its guard could have spoken."""
    fresh = machine()._replace(launched=NOW - timedelta(minutes=30))
    assert judge([fresh], lambda _: True, NOW, POLICY) == []
    ahead = machine(silent_hours=-50)._replace(launched=NOW - timedelta(hours=2))
    assert len(judge([ahead], lambda _: True, NOW, POLICY)) == 1, "a date ahead was not heard"


@pytest.mark.thorough
def test_it_stops_through_ec2_and_tells_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """One silent machine that is opted in and quiet, one that works, one that is not watched."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "stand-in")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        story(Clients(boto3.client("ec2"), boto3.client("cloudwatch"), boto3.client("sns")))


def story(clients: Clients) -> None:
    launched = datetime.now(UTC)
    now = launched + timedelta(hours=8)
    image = clients.ec2.describe_images()["Images"][0]["ImageId"]

    def run(marks: Mapping[str, str]) -> str:
        tags = [{"ResourceType": "instance", "Tags": [{"Key": key, "Value": value} for key, value in marks.items()]}]
        made = clients.ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=tags)
        return str(made["Instances"][0]["InstanceId"])

    def record(instance: str, cpu: float) -> None:
        rows = {"CPUUtilization": cpu, "NetworkIn": 1000.0, "NetworkOut": 1000.0}
        data = [
            {
                "MetricName": name,
                "Value": value,
                "Timestamp": now - timedelta(minutes=5 * slot),
                "Dimensions": [{"Name": "InstanceId", "Value": instance}],
            }
            for slot in range(80)
            for name, value in rows.items()
        ]
        clients.metrics.put_metric_data(Namespace="AWS/EC2", MetricData=data)

    beat = f"{launched.isoformat(timespec='seconds')} ARMED"
    silent = run({watch.HEARTBEAT: beat, watch.WISH: "idle"})
    works = run({watch.HEARTBEAT: beat, watch.WISH: "idle"})
    foreign = run({"Name": "another"})
    record(silent, 1.0)
    record(works, 90.0)
    topic = clients.topic.create_topic(Name="people")["TopicArn"]
    names = {
        "STALE_AFTER": 470,
        "EVERY": 15,
        "QUIET_FOR": 360,
        "LIMIT": 2,
        "SHARE": 0.25,
        "MODE": "live",
        "TOPIC": topic,
    }
    environment = {name: str(value) for name, value in names.items()}
    dry = watch.look(clients, now, environment | {"MODE": "dry-run"})
    assert dry == {"silent": 2, "told": 2, "stopped": 0}
    assert watch.look(clients, now, environment) == {"silent": 2, "told": 2, "stopped": 1}
    found = clients.ec2.describe_instances(InstanceIds=[silent, works, foreign])["Reservations"]
    states = {one["InstanceId"]: one["State"]["Name"] for each in found for one in each["Instances"]}
    assert states == {silent: "stopped", works: "running", foreign: "running"}
