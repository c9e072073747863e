"""The request and its proof, with every trouble on the way. No double call, nothing destroyed that was not asked for."""

import datetime as dt
import time
from itertools import product

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.plans import Result
from costguard_aws.testing import FakeMachine, Nature
from tests.clouds.aws.conftest import TICKET, Launch, opened

SOON = Ticket("inc", "inc.1", 3.0)


def act(here: FakeMachine, verb: str = "stop", ticket: Ticket = TICKET, **settings: object) -> Result:
    with opened(here, **settings) as session:
        facts = session.facts(verb)  # type: ignore[arg-type]  # the tests spell the verbs
        return session.execute(facts.verb, facts, ticket)


def break_calls(here: FakeMachine, fault: str, action: str = "StopInstances", times: int = 1) -> None:
    here.api.fail(fault, action, times)  # type: ignore[arg-type]  # the tables are data


@pytest.mark.parametrize(
    ("verb", "call", "state"), [("stop", "StopInstances", "stopped"), ("terminate", "TerminateInstances", "terminated")]
)
def test_from_request_to_proof(here: FakeMachine, verb: str, call: str, state: str) -> None:
    """Accepted, seen stopping, closed: each in its own word, with the request id as proof."""
    with opened(here) as session:
        facts = session.facts(verb)  # type: ignore[arg-type]  # the tests spell the verbs
        outcome = session.execute(facts.verb, facts, TICKET)
        seen = [session.confirm(facts.verb, TICKET, outcome) for _ in range(2)]
    assert (outcome.status, outcome.detail.partition(":")[0]) == ("accepted", "accepted")
    assert outcome.proof
    assert outcome.proof in outcome.detail
    assert dt.datetime.fromisoformat(outcome.receipt["accepted"]).tzinfo is not None  # as the answer dates itself
    assert [(one.status, one.detail.partition(":")[0], one.proof) for one in seen] == [
        ("pending", "seen stopping", outcome.proof),
        ("done", "closed", outcome.proof),
    ]
    assert [request.action for request in here.api.calls()] == [call]
    assert here.state == state


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_what_ends_already_is_not_asked_for_again(here: FakeMachine, verb: str) -> None:
    """A guard that is started anew while its machine stops: nothing is sent, above all no termination, and the end is seen."""
    here.ec2.stop_instances(InstanceIds=[here.id])
    with opened(here) as session:
        facts = session.facts(verb)  # type: ignore[arg-type]  # the tests spell the verbs
        sent = len(here.api.calls())
        made = session.plan(facts.verb, facts)
        outcome = session.execute(facts.verb, facts, TICKET)
        ends = session.confirm(facts.verb, TICKET, outcome)
    assert (made.verdict, made.ends_bill, made.findings[0].code) == ("go", True, "ends_already")
    assert (outcome.status, ends.status in {"pending", "done"}) == ("accepted", True)
    assert len(here.api.calls()) == sent
    assert here.state in {"stopping", "stopped"}


def test_hibernation_is_asked_for_by_name(launch: Launch) -> None:
    """The same call with one more word."""
    here = launch("m5.large", Nature(hibernation=True))
    assert act(here, "hibernate").status == "accepted"
    assert [request.parameters.get("Hibernate") for request in here.api.calls()] == ["true"]


def test_the_audit_log_names_the_attempt(here: FakeMachine) -> None:
    """The user agent carries the ids from the request on."""
    act(here)
    request = here.api.calls()[0]
    assert "costguard/" in request.agent
    assert request.agent.endswith("costguard-incident/inc-7f3a costguard-attempt/inc-7f3a.1")
    assert all("costguard/" in other.agent for other in here.api.log)


def test_a_warm_session_is_fast(here: FakeMachine) -> None:
    """The facts opened the connection and asked everything; what is left is one request on it."""
    with opened(here) as session:
        facts = session.facts("stop")
        connections, asked = here.api.server.connections, len(here.api.log)
        assert session.execute("stop", facts, TICKET).status == "accepted"
        assert connections > 0
        assert (here.api.server.connections, [request.action for request in here.api.log[asked:]]) == (
            connections,
            ["StopInstances"],
        )


@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        ("throttle", 3),
        ("internal", 3),
        ("cut_before", 3),
        ("internal_after", 1),
        ("cut_after", 1),
    ],
)
def test_troubles_that_pass(here: FakeMachine, fault: str, requests: int) -> None:
    """The same request again after a technical failure, but never after EC2 shows that it stops."""
    break_calls(here, fault, times=2)
    outcome = act(here)
    assert outcome.status == "accepted"
    assert len(here.api.calls()) == requests
    assert len({tuple(sorted(call.parameters.items())) for call in here.api.calls()}) == 1
    assert here.state == "stopped"


FAULTS = ("", "throttle", "internal", "internal_after", "cut_before", "cut_after")


@pytest.mark.parametrize(("first", "second"), list(product(FAULTS, FAULTS)))
def test_any_two_troubles_in_a_row(here: FakeMachine, first: str, second: str) -> None:
    """Accepted exactly when it stops, never *refused*, and no request after the one that had its effect."""
    for fault in filter(None, (first, second)):
        break_calls(here, fault)
    outcome = act(here)
    assert (outcome.status, here.state) == ("accepted", "stopped")
    effective = [fault in {"", "internal_after", "cut_after"} for fault in (*filter(None, (first, second)), "")]
    assert len(here.api.calls()) == effective.index(True) + 1


def test_a_connection_that_waited_too_long(here: FakeMachine) -> None:
    """The countdown was longer than the service keeps a silent connection: another one is opened, nothing is doubled."""
    with opened(here) as session:
        facts = session.facts("stop")
        here.api.server.hang_up()
        assert session.execute("stop", facts, TICKET).status == "accepted"
    assert len(here.api.calls()) == 1


@pytest.mark.parametrize("fault", ["internal_after", "cut_after"])
def test_no_answer_and_stopped_all_the_same(here: FakeMachine, fault: str) -> None:
    """EC2 is asked once what it shows; its state is the proof."""
    break_calls(here, fault)
    outcome = act(here)
    assert (outcome.status, outcome.proof) == ("accepted", "state stopping")
    assert "seen stopping" in outcome.detail


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("throttle", "failed"),
        ("internal", "failed"),
        ("cut_before", "unknown"),
        ("expired", "failed"),
        ("skewed", "failed"),
    ],
)
def test_troubles_that_stay(here: FakeMachine, fault: str, status: str) -> None:
    """Within the deadline, and never *refused*: what is technical goes down the fall-back list."""
    break_calls(here, fault, times=1000)
    began = time.monotonic()
    outcome = act(here, ticket=SOON)
    assert time.monotonic() - began < 10
    assert outcome.status == status
    assert here.state == "running"


def test_neither_answer_nor_state(here: FakeMachine) -> None:
    """Cut after sending, and then nobody can be asked: unknown, and not sent again."""
    with opened(here) as session:
        facts = session.facts("stop")
        break_calls(here, "cut_after")
        break_calls(here, "cut_before", "DescribeInstances", 100)
        outcome = session.execute("stop", facts, TICKET)
    assert outcome.status == "unknown"
    assert len(here.api.calls()) == 1


def test_a_doubt_outlives_the_tries_after_it(here: FakeMachine) -> None:
    """One request without an answer, then nothing but haste: *failed* would send the fall-back list on its way."""
    break_calls(here, "cut_before")
    break_calls(here, "throttle", times=1000)
    outcome = act(here, ticket=SOON)
    assert outcome.status == "unknown"
    assert "an earlier request had no answer" in outcome.detail


@pytest.mark.parametrize(("fault", "requests"), [("page", 2), ("page_after", 1)])
def test_a_page_is_no_acceptance(here: FakeMachine, fault: str, requests: int) -> None:
    """A proxy answers 200 with a page of its own: what EC2 shows decides whether the request is sent again."""
    break_calls(here, fault)
    outcome = act(here)
    assert (outcome.status, here.state) == ("accepted", "stopped")
    assert outcome.proof
    assert len(here.api.calls()) == requests


@pytest.mark.parametrize("fault", ["page", "cut_before"])
def test_the_call_of_the_group_is_sent_once(here: FakeMachine, fault: str) -> None:
    """A second one would shrink the group once more, so without an answer nobody can say."""
    here.join(minimum=0, desired=2)
    break_calls(here, fault, "TerminateInstanceInAutoScalingGroup")
    outcome = act(here, "terminate", group="leave")
    assert outcome.status == "unknown"
    assert len(here.api.calls()) == 1


@pytest.mark.parametrize("fault", ["blocked", "bare"])
def test_a_proxy_that_blocks_for_a_moment(here: FakeMachine, fault: str) -> None:
    """Its refusal is none of AWS: EC2 is looked at, and asked again."""
    break_calls(here, fault)
    outcome = act(here)
    assert (outcome.status, len(here.api.calls()), here.state) == ("accepted", 2, "stopped")


@pytest.mark.parametrize("fault", ["blocked", "bare"])
def test_a_proxy_that_blocks_is_technical(here: FakeMachine, fault: str) -> None:
    """The fall-back list may follow: EC2 shows that nothing was heard. The words name the proxy."""
    break_calls(here, fault, times=1000)
    outcome = act(here, ticket=SOON)
    assert (outcome.status, here.state) == ("failed", "running")
    assert "another service answers" in outcome.detail
    assert "NO_PROXY" in outcome.detail
    assert "EC2 shows running" in outcome.detail


def test_a_proxy_that_blocks_every_look(here: FakeMachine) -> None:
    """The request may have been heard, and nobody can say."""
    with opened(here) as session:
        facts = session.facts("stop")
        break_calls(here, "blocked", "*", times=1000)
        assert session.execute("stop", facts, SOON).status == "unknown"


def test_a_proxy_that_blocks_the_plan(here: FakeMachine) -> None:
    """A dry run that it refuses says nothing of a right."""
    break_calls(here, "bare", "DryRun", times=1000)
    with opened(here) as session:
        made = session.plan("stop", session.facts("stop"))
    assert (made.verdict, made.findings[0].code) == ("failed", "permission_unknown")
    assert "another service answers" in made.findings[0].text


def test_an_answer_without_end(here: FakeMachine) -> None:
    """It is not read to its end, and counts as none: what EC2 shows is the proof."""
    break_calls(here, "huge_after")
    outcome = act(here)
    assert (outcome.status, outcome.proof, len(here.api.calls())) == ("accepted", "state stopping", 1)


def test_a_question_whose_answer_has_no_end(here: FakeMachine) -> None:
    """Technical, with the call's name."""
    break_calls(here, "huge_after", "DescribeInstances", times=1000)
    with opened(here) as session, pytest.raises(CloudError) as caught:
        session.facts("stop")
    assert (caught.value.trouble, "ec2:DescribeInstances" in str(caught.value)) == ("unreachable", True)


def test_silence_ends_with_the_deadline(here: FakeMachine) -> None:
    """A request that is never answered does not hold the worker beyond its time."""
    with opened(here) as session:
        facts = session.facts("stop")
        break_calls(here, "silent")
        began = time.monotonic()
        outcome = session.execute("stop", facts, SOON)
        assert time.monotonic() - began < 6
    assert outcome.status == "unknown"
    assert "EC2 shows running" in outcome.detail


@pytest.mark.parametrize(
    ("verb", "attribute"),
    [("stop", "DisableApiStop"), ("terminate", "DisableApiStop"), ("terminate", "DisableApiTermination")],
)
def test_protection_that_came_after_the_plan(here: FakeMachine, verb: str, attribute: str) -> None:
    """A veto: asked once, never removed, nothing goes round it."""
    with opened(here) as session:
        facts = session.facts(verb)  # type: ignore[arg-type]  # the tests spell the verbs
        here.ec2.modify_instance_attribute(InstanceId=here.id, **{attribute: {"Value": True}})
        here.api.log.clear()
        outcome = session.execute(facts.verb, facts, TICKET)
    assert outcome.status == "refused"
    assert "OperationNotPermitted" in outcome.detail
    assert len(here.api.calls()) == 1
    assert here.state == "running"


def test_a_right_that_was_lost_over_night(here: FakeMachine) -> None:
    """Refused at once, with the right's name and without AWS's coded message."""
    with opened(here) as session:
        facts = session.facts("stop")
        here.api.denied = {"StopInstances"}
        outcome = session.execute("stop", facts, TICKET)
    assert outcome.status == "refused"
    assert "ec2:StopInstances" in outcome.detail
    assert "gXK5secret" not in outcome.detail
    assert len(here.api.calls()) == 1


def test_a_right_that_has_not_arrived_yet(here: FakeMachine) -> None:
    """A young machine asks again within its deadline."""
    here.write("proc/uptime", "60.00 10.00\n")
    here.api.denied = {"StopInstances"}
    outcome = act(here, ticket=SOON)
    assert outcome.status == "refused"
    assert len(here.api.calls()) > 1


@pytest.mark.parametrize(
    ("nature", "verb"), [(Nature(spot="one-time"), "stop"), (Nature(spot="persistent"), "terminate")]
)
def test_a_plan_that_says_no_sends_nothing(launch: Launch, nature: Nature, verb: str) -> None:
    """Whoever calls: the request is made from the facts, and they are judged again."""
    here = launch("g5g.xlarge", nature)
    assert act(here, verb).status == "refused"
    assert here.api.calls() == []


def test_the_refusal_of_a_spot_request_that_was_not_readable(launch: Launch) -> None:
    """EC2's own refusal is a veto, and becomes no termination."""
    here = launch("g5g.xlarge", Nature(spot="one-time"))
    here.api.denied = {"DescribeSpotInstanceRequests"}
    outcome = act(here)
    assert outcome.status == "refused"
    assert "one-time Spot" in outcome.detail
    assert here.state == "running"


def test_somebody_else_terminated_it(here: FakeMachine) -> None:
    """The refusal then says so, and the end counts."""
    with opened(here) as session:
        facts = session.facts("stop")
        here.ec2.terminate_instances(InstanceIds=[here.id])
        outcome = session.execute("stop", facts, TICKET)
    assert outcome.status == "accepted"
    assert "seen stopping" in outcome.detail
    assert "IncorrectInstanceState" in outcome.detail


def test_accepted_and_nothing_happens(here: FakeMachine) -> None:
    """The proof is not the acceptance: the confirmation says that the bill goes on."""
    break_calls(here, "ignore")
    with opened(here) as session:
        facts = session.facts("stop")
        outcome = session.execute("stop", facts, TICKET)
        seen = session.confirm("stop", TICKET, outcome)
    assert (outcome.status, seen.status, seen.proof) == ("accepted", "accepted", outcome.proof)
    assert "EC2 shows running: the bill goes on" in seen.detail


def test_confirmation_without_a_record(here: FakeMachine) -> None:
    """Nothing is made up."""
    with opened(here) as session:
        assert session.confirm("stop", TICKET, None).status == "unknown"


def test_confirmation_after_a_restart(here: FakeMachine) -> None:
    """The machine asks about itself on its next life: EC2's LaunchTime tells that there was an end."""
    recorded = Result("accepted", "accepted: StopInstances", "r-1", {"accepted": "2020-01-01T00:00:00Z"})
    with opened(here) as session:
        found = session.confirm("stop", TICKET, recorded)
    assert (found.status, found.proof) == ("done", "r-1")
    assert "started again" in found.detail


class TestGroup:
    """A member leaves by its group's own call, once."""

    def test_it_is_terminated_and_the_group_shrinks(self, here: FakeMachine) -> None:
        """Not by EC2's call, after which the group would start another one."""
        here.join(minimum=0, desired=1)
        assert act(here, "terminate", group="leave").status == "accepted"
        (request,) = here.api.calls()
        assert request.action == "TerminateInstanceInAutoScalingGroup"
        assert request.parameters["ShouldDecrementDesiredCapacity"] == "true"

    def test_at_the_minimum_it_is_refused(self, here: FakeMachine) -> None:
        """Also where the sizes could not be read before."""
        here.join(minimum=1, desired=1)
        here.api.denied = {"DescribeAutoScalingGroups"}
        outcome = act(here, "terminate", group="leave")
        assert outcome.status == "refused"
        assert "minSize" in outcome.detail
        assert here.state == "running"

    @pytest.mark.parametrize("fault", ["internal", "cut_before"])
    def test_it_is_never_sent_twice(self, here: FakeMachine, fault: str) -> None:
        """A second one would shrink the group again."""
        here.join(minimum=0, desired=1)
        break_calls(here, fault, "TerminateInstanceInAutoScalingGroup", 3)
        assert act(here, "terminate", group="leave").status == "unknown"
        assert len(here.api.calls()) == 1

    def test_throttling_is_no_effect(self, here: FakeMachine) -> None:
        """A refusal for haste may be followed by the same request."""
        here.join(minimum=0, desired=1)
        break_calls(here, "throttle", "TerminateInstanceInAutoScalingGroup", 2)
        assert act(here, "terminate", group="leave").status == "accepted"
