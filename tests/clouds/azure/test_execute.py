"""The request that ends the bill: sent as it must be, repeated when that helps, and never a second different one."""

import statistics
import time

import pytest

from costguard.cloud.api import Ticket, Verb
from costguard.plans import Result
from costguard_azure import Azure
from costguard_azure import act as act_module
from costguard_azure.act import request_id
from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure, LockOn, ScaleSet
from costguard_azure.testing.world import GROUP_RIGHTS

TICKET = Ticket("incident-1", "boot-1:attempt/1", 10.0)


def act(machine: AzureMachine, verb: Verb = "stop", ticket: Ticket = TICKET) -> Result:
    return machine.execute(verb, machine.facts(verb), ticket)


@pytest.mark.parametrize("style", ["async", "location"])
@pytest.mark.parametrize(
    ("verb", "operation", "query"),
    [("stop", "deallocate", {}), ("hibernate", "deallocate", {"hibernate": "true"}), ("terminate", "delete", {})],
)
def test_one_request_with_the_ids_of_the_attempt(
    azure: FakeAzure, machine: AzureMachine, style: str, verb: Verb, operation: str, query: dict[str, str]
) -> None:
    """Accepted by Azure's own request id; the attempt stands in the request; the long operation is not followed."""
    azure.world.style, azure.world.size, azure.world.hibernation = style, "Standard_NV6ads_A10_v5", True
    outcome = act(machine, verb)
    assert outcome.status == "accepted"
    assert "accepted" in outcome.detail
    [sent] = azure.sent("deallocate", "delete", "operation")
    assert sent.operation == operation
    assert {name: value for name, value in sent.query.items() if name != "api-version"} == query
    assert sent.headers["x-ms-client-request-id"] == request_id(TICKET.attempt)
    assert sent.headers["user-agent"].startswith("costguard/")
    assert "boot-1:attempt_1" in sent.headers["user-agent"]
    assert outcome.proof
    assert outcome.proof != request_id(TICKET.attempt)


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_what_ends_already_is_not_asked_for_again(azure: FakeAzure, machine: AzureMachine, verb: Verb) -> None:
    """A guard that is started anew on a machine that was just deallocated: nothing is sent, above all no deletion, and the end is seen."""
    azure.world.power = "deallocated"
    outcome = act(machine, verb)
    ends = machine.confirm("stop", TICKET, outcome)
    assert azure.sent("deallocate", "delete") == []
    assert (outcome.status, ends.status) == ("accepted", "done")


def test_a_warm_session_is_fast(azure: FakeAzure, machine: AzureMachine) -> None:
    """From the decision to the accepted request: the aim is 0.1 s."""
    facts = machine.facts("stop")
    took = []
    for number in range(5):
        began = time.monotonic()
        assert machine.execute("stop", facts, Ticket("i", f"a{number}", 10.0)).status == "accepted"
        took.append(time.monotonic() - began)
    assert statistics.median(took) < 0.1


def test_the_request_has_a_connection_of_its_own(azure: FakeAzure, machine: AzureMachine) -> None:
    """The worker waited ten minutes; a network in between may have forgotten the old connection without a word."""
    act(machine)
    [sent] = azure.sent("deallocate")
    looks = {entry.connection for entry in azure.sent("get", "permissions", "locks")}
    assert sent.connection not in looks


@pytest.mark.parametrize("after", [0.0, 0.2])
def test_throttling_is_waited_for(azure: FakeAzure, machine: AzureMachine, after: float) -> None:
    """429 twice, with and without Retry-After: the same request a third time."""
    azure.faults.add("deallocate", "throttle", times=2, seconds=after)
    began = time.monotonic()
    assert act(machine).status == "accepted"
    sent = azure.sent("deallocate")
    assert [entry.status for entry in sent] == [429, 429, 202]
    assert len({entry.headers["x-ms-client-request-id"] for entry in sent}) == 1
    assert time.monotonic() - began >= 2 * after


def test_a_wait_beyond_the_deadline_is_not_waited(azure: FakeAzure, machine: AzureMachine) -> None:
    """Azure asks to wait a minute, the attempt has two seconds: failed at once, and technical."""
    azure.faults.add("deallocate", "throttle", times=9, seconds=60)
    began = time.monotonic()
    outcome = act(machine, ticket=TICKET._replace(deadline=2.0))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "429" in outcome.detail
    assert time.monotonic() - began < 10.0
    assert azure.world.power == "running"


@pytest.mark.parametrize(
    ("status", "code"), [(500, "InternalServerError"), (503, "ServerBusy"), (409, "AnotherOperationInProgress")]
)
def test_an_error_of_the_moment_is_tried_again(azure: FakeAzure, machine: AzureMachine, status: int, code: str) -> None:
    """5xx, and a conflict with another operation."""
    azure.faults.add("deallocate", "error", status=status, code=code)
    assert act(machine).status == "accepted"
    assert [entry.status for entry in azure.sent("deallocate")] == [status, 202]


def test_errors_without_end_are_a_technical_failure(azure: FakeAzure, machine: AzureMachine) -> None:
    """The next link of the fall-back list may be tried; the machine was looked at before each further try."""
    azure.faults.add("deallocate", "error", times=99, status=503, code="ServerBusy")
    outcome = act(machine, ticket=TICKET._replace(deadline=3.5))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "ServerBusy" in outcome.detail
    assert "run it again" in outcome.detail
    assert len(azure.sent("deallocate")) >= 2
    assert len(azure.sent("instance_view")) == len(azure.sent("deallocate"))


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("OperationNotAllowed", 409, "OperationNotAllowed"),
        ("SomethingNew", 409, "SomethingNew"),
        ("RequestDisallowedByPolicy", 403, "policy"),
        ("InvalidParameter", 400, "InvalidParameter"),
    ],
)
def test_a_refusal_is_a_veto(azure: FakeAzure, machine: AzureMachine, code: str, status: int, words: str) -> None:
    """Sent once, told, and nothing goes round it. A conflict that nobody knows is a veto as well."""
    azure.faults.add("deallocate", "error", times=9, status=status, code=code)
    outcome = act(machine)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert words in outcome.detail
    assert len(azure.sent("deallocate")) == 1
    assert azure.world.power == "running"


def test_a_lock_that_came_after_the_plan(azure: FakeAzure, machine: AzureMachine) -> None:
    """409 ScopeLocked: a veto with the command that shows the lock."""
    facts = machine.facts("stop")
    azure.world.locks.append(LockOn())
    outcome = machine.execute("stop", facts, TICKET)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "ScopeLocked" in outcome.detail
    assert "az lock list" in outcome.detail
    assert len(azure.sent("deallocate")) == 1


def test_a_right_that_was_lost_after_the_plan(azure: FakeAzure, machine: AzureMachine) -> None:
    """403 on an old machine: a veto, once, with the way to the right."""
    facts = machine.facts("stop")
    azure.world.rights.remove("Microsoft.Compute/virtualMachines/deallocate/action")
    outcome = machine.execute("stop", facts, TICKET)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "costguard permissions azure" in outcome.detail
    assert len(azure.sent("deallocate")) == 1


def test_a_late_right_is_waited_for(azure: FakeAzure, machine: AzureMachine) -> None:
    """403 twice in the first minutes of a machine's life, then the right is there."""
    azure.world.age = 60.0
    azure.faults.add("deallocate", "deny", times=2)
    assert act(machine).status == "accepted"
    assert [entry.status for entry in azure.sent("deallocate")] == [403, 403, 202]


def test_a_late_role_is_waited_for(azure: FakeAzure) -> None:
    """The whole role is late: nothing is sent before the machine could be compared with its id."""
    azure.world.age = 60.0
    site = azure.site()
    with open(f"{azure.folder}/proc/uptime", "w", encoding="ascii") as file:
        file.write("60.00 1.00\n")
    machine = AzureMachine(site, Azure().identify(site))
    azure.faults.add("get", "deny")
    facts = machine.facts("stop")
    assert [
        (finding.code, machine.plan("stop", facts).verdict) for finding in machine.plan("stop", facts).findings
    ] == [("rights_may_be_late", "consequences")]
    assert machine.execute("stop", facts, TICKET).status == "accepted"
    machine.close()
    order = [entry.operation for entry in azure.log if entry.operation in {"get", "deallocate"}]
    assert order == ["get", "get", "deallocate"]


def test_a_cut_before_the_request_is_unknown(azure: FakeAzure, machine: AzureMachine) -> None:
    """Sent, no answer, a machine that runs, and no time to see whether that lasts: nobody can say."""
    azure.faults.add("deallocate", "cut_before")
    outcome = act(machine)
    assert (outcome.status, outcome.proof) == ("unknown", "")
    assert len(azure.sent("deallocate")) == 1
    assert len(azure.sent("instance_view")) == 1


def test_a_request_that_nobody_heard_is_sent_again(
    azure: FakeAzure, machine: AzureMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine still runs after Azure had its time: the bill would go on because of one cut."""
    monkeypatch.setattr(act_module, "SETTLES_SECONDS", 0.3)
    azure.faults.add("deallocate", "cut_before", times=2)
    outcome = act(machine)
    assert outcome.status == "accepted"
    assert len(azure.sent("deallocate")) == 3
    assert len({entry.headers["x-ms-client-request-id"] for entry in azure.sent("deallocate")}) == 1
    assert len(azure.sent("instance_view")) == 4, "a look after each cut, and one before each further request"


def test_a_lost_answer_that_shows_late_is_not_sent_again(
    azure: FakeAzure, machine: AzureMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look after the cut fails; the one before the next request shows that it was heard."""
    monkeypatch.setattr(act_module, "SETTLES_SECONDS", 0.3)
    azure.world.settles = 60.0
    azure.faults.add("deallocate", "cut_after")
    azure.faults.add("instance_view", "cut_before")
    outcome = act(machine)
    assert outcome.status == "accepted"
    assert "deallocating" in outcome.detail
    assert len(azure.sent("deallocate")) == 1


def test_nothing_is_sent_again_while_nobody_can_look(
    azure: FakeAzure, machine: AzureMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network is gone after the request: unknown, and one request."""
    monkeypatch.setattr(act_module, "SETTLES_SECONDS", 0.2)
    azure.faults.add("deallocate", "cut_before", times=9)
    azure.faults.add("instance_view", "cut_before", times=99)
    outcome = act(machine, ticket=TICKET._replace(deadline=1.0))
    assert (outcome.status, outcome.proof) == ("unknown", "")
    assert len(azure.sent("deallocate")) == 1


def test_the_look_fails_as_well(azure: FakeAzure, machine: AzureMachine) -> None:
    """An error that may have been heard, and nobody can look: unknown, so nothing else is tried over it."""
    azure.faults.add("deallocate", "fails_but_acts", times=9, status=500)
    azure.faults.add("instance_view", "cut_before", times=9)
    outcome = act(machine, ticket=TICKET._replace(deadline=0.4))
    assert (outcome.status, outcome.proof) == ("unknown", "")
    assert "could not be looked at" in outcome.detail or "could not be read" in outcome.detail  # as the time runs out


@pytest.mark.parametrize("verb", ["stop", "terminate"])
@pytest.mark.parametrize("settles", [0.0, 60.0])
def test_a_cut_after_the_request_is_accepted(
    azure: FakeAzure, machine: AzureMachine, verb: Verb, settles: float
) -> None:
    """Sent, no answer, and one look shows that it was heard."""
    azure.world.settles = settles
    azure.faults.add("delete" if verb == "terminate" else "deallocate", "cut_after")
    outcome = act(machine, verb)
    assert outcome.status == "accepted"
    assert "the answer was lost" in outcome.detail
    assert len(azure.sent("deallocate", "delete")) == 1


def test_an_answer_that_takes_too_long(azure: FakeAzure, machine: AzureMachine) -> None:
    """A read time-out after sending: one look, and no second request."""
    azure.world.settles = 60.0
    azure.faults.add("deallocate", "slow", seconds=1.5)
    outcome = act(machine, ticket=TICKET._replace(deadline=0.5))
    assert outcome.status == "accepted"
    assert len(azure.sent("instance_view")) == 1


def test_an_error_that_took_effect_is_not_sent_again(azure: FakeAzure, machine: AzureMachine) -> None:
    """500, but Azure deallocates: the look before the second try shows it, and there is none."""
    azure.world.settles = 60.0
    azure.faults.add("deallocate", "fails_but_acts", times=9, status=500)
    assert act(machine).status == "accepted"
    assert len(azure.sent("deallocate")) == 1


def test_the_local_disk_is_looked_at_again(azure: FakeAzure, machine: AzureMachine) -> None:
    """Between the plan and the act lies the countdown: what was put on the disk meanwhile is not thrown away."""
    azure.local_disk("sdb")
    facts = machine.facts("stop")
    assert machine.plan("stop", facts).may_act
    azure.mount("sdb1", "/data")
    with open(f"{azure.folder}/proc/1/root/data/results.bin", "w", encoding="ascii"):
        pass
    outcome = machine.execute("stop", facts, TICKET)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "/data" in outcome.detail
    assert azure.sent("deallocate") == []


def test_it_fails_and_stops_all_the_same(azure: FakeAzure, machine: AzureMachine) -> None:
    """An error for every try, but the machine is being deallocated: accepted, so no other action follows."""
    azure.world.settles = 60.0
    azure.faults.add("deallocate", "fails_but_acts", times=9, status=500)
    outcome = act(machine, ticket=TICKET._replace(deadline=1.5))
    assert outcome.status == "accepted"
    assert "deallocating" in outcome.detail


def test_garbage_for_an_answer(azure: FakeAzure, machine: AzureMachine) -> None:
    """200 with a proxy's page, and nothing happened: never accepted silently, the proof has to come from confirm."""
    azure.faults.add("deallocate", "garbage")
    outcome = act(machine)
    assert machine.confirm("stop", TICKET._replace(deadline=0.2), outcome).status != "done"
    assert azure.world.power == "running"


def test_the_network_is_gone(azure: FakeAzure, machine: AzureMachine) -> None:
    """Nothing listens any more: technical, and tried until the deadline."""
    facts = machine.facts("stop")
    azure.unplug()
    outcome = machine.execute("stop", facts, TICKET._replace(deadline=1.5))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "cannot be reached" in outcome.detail


def test_a_token_that_ended_is_replaced(azure: FakeAzure, machine: AzureMachine) -> None:
    """401 ExpiredAuthenticationToken: a new token, the same request."""
    facts = machine.facts("stop")
    for token in azure.world.tokens:
        azure.world.tokens[token] = 0.0
    assert machine.execute("stop", facts, TICKET).status == "accepted"
    assert len(azure.sent("token")) == 2


def test_an_identity_that_was_removed_over_night(azure: FakeAzure, machine: AzureMachine) -> None:
    """No new token either: a technical failure that names the identity."""
    facts = machine.facts("stop")
    azure.world.tokens.clear()
    azure.world.managed_identity = False
    outcome = machine.execute("stop", facts, TICKET)
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "managed identity" in outcome.detail


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_a_uniform_member_leaves_by_the_sets_own_call(azure: FakeAzure, verb: Verb) -> None:
    """Neither call is sent to virtualMachines; deletion lowers the set's size."""
    azure.world.scale_set = ScaleSet(uniform=True)
    azure.world.rights += GROUP_RIGHTS
    site = azure.site(group="leave")
    machine = AzureMachine(site, Azure().identify(site))
    assert machine.execute(verb, machine.facts(verb), TICKET).status == "accepted"
    assert machine.confirm(verb, TICKET._replace(deadline=1.0), None).status == "done"
    machine.close()
    [sent] = azure.sent("deallocate", "delete")
    assert "/virtualMachineScaleSets/gpus/virtualMachines/0" in sent.path
    assert azure.world.scale_set.capacity == (2 if verb == "terminate" else 3)


@pytest.mark.parametrize("verb", ["stop", "terminate"])
def test_what_the_plan_refuses_is_not_sent(azure: FakeAzure, machine: AzureMachine, verb: Verb) -> None:
    """Also when somebody asks for it."""
    azure.world.scale_set = ScaleSet()
    outcome = act(machine, verb)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert azure.sent("deallocate", "delete") == []


def test_another_machine_of_the_same_name(azure: FakeAzure, machine: AzureMachine) -> None:
    """The name was given to another machine since: nothing is sent."""
    azure.world.vm_id = "00000000-0000-4000-8000-00000000beef"
    facts = machine.facts("terminate")
    assert machine.plan("terminate", facts).findings[0].code == "not_this_machine"
    assert machine.execute("terminate", facts, TICKET).status == "refused"
    assert azure.sent("delete") == []
