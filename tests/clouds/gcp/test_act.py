"""The request: what is sent, what is sent again, and what is never sent."""

import copy
import json
import pathlib
import time
import uuid

import pytest
from google.auth.credentials import AnonymousCredentials

from costguard.cloud.api import Ticket, Verb
from costguard.plans import Result
from costguard_gcp.session import Api
from costguard_gcp.testing import Fault, Group, LocalSsd, Machine, resources
from tests.clouds.gcp.cells import CELLS, PLAIN, READS_GROUPS
from tests.clouds.gcp.conftest import TICKET, World, world_of
from tests.clouds.wire import answer, speaking

CALL = {"stop": "/stop", "terminate": "DELETE", "hibernate": "/suspend"}
EFFECT = {"stop": "stop", "terminate": "delete", "hibernate": "suspend"}
VERBS: list[Verb] = ["stop", "terminate", "hibernate"]


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_one_request_with_the_attempts_id(verb: Verb, tmp_path: pathlib.Path) -> None:
    """The audit log shows the incident in the reason and the user agent; the proof is the operation."""
    with world_of(Machine(**PLAIN), tmp_path) as world:
        outcome = world.act(verb)
        (sent,) = world.api.calls(CALL[verb])
        assert world.api.effects == [EFFECT[verb]]
    assert outcome.status == "accepted"
    assert "accepted" in outcome.detail
    assert outcome.proof.startswith("operation-")
    assert uuid.UUID(sent.query["requestId"]).version == 5
    assert set(sent.query) == {"requestId"}
    assert "incident-1/attempt-1" in sent.headers["user-agent"]
    assert sent.headers["user-agent"].startswith("costguard/")
    assert "incident-1" in sent.headers["x-goog-request-reason"]


@pytest.mark.parametrize("verb", VERBS)
def test_what_ends_already_is_not_asked_for_again(verb: Verb, tmp_path: pathlib.Path) -> None:
    """A guard that is started anew while its machine stops: nothing is sent, above all no deletion, and the end is seen."""
    with world_of(Machine(**PLAIN, status="STOPPING"), tmp_path) as world:
        outcome = world.act(verb)
        ends = world.open().confirm(verb, TICKET, outcome)
        assert world.api.effects == []
    assert (outcome.status, ends.status) == ("accepted", "pending")


@pytest.mark.parametrize("setting", ["discard", "keep"])
def test_local_ssds_need_a_word_about_their_data(setting: str, tmp_path: pathlib.Path) -> None:
    """The API refuses a stop without it; it is sent only for such a machine, and only after the plan told of the loss."""
    with world_of(Machine(local_ssds=[LocalSsd()]), tmp_path) as world:
        world.settings["local_data"] = setting
        assert world.act("stop").status == "accepted"
        assert world.api.calls("/stop")[0].query["discardLocalSsd"] == "true"


def test_data_in_use_is_never_discarded(tmp_path: pathlib.Path) -> None:
    """Nothing is sent at all, even by a caller that did not read the plan."""
    with world_of(Machine(local_ssds=[LocalSsd(mounted=True)]), tmp_path) as world:
        outcome = world.act("stop")
        assert world.api.calls("/stop") == []
    assert outcome.status == "refused"
    assert "local_data_kept" in outcome.detail


def test_a_local_disk_that_is_mounted_during_the_countdown_is_kept(tmp_path: pathlib.Path) -> None:
    """Blank when it was planned, in use when it is released: the disks are looked at once more."""
    with world_of(Machine(local_ssds=[LocalSsd()]), tmp_path) as world:
        session = world.open()
        facts = session.facts("stop")
        assert session.plan("stop", facts).may_act
        world.machine.local_ssds[0].mounted = True
        world.site()  # writes the kernel's files again
        outcome = world.act("stop", facts, session)
        assert world.api.effects == []
    assert outcome.status == "refused"


def test_a_local_ssd_that_the_facts_did_not_show_is_not_lost(world: World) -> None:
    """Attached in between: the API refuses, and the refusal is a veto, not a reason for another try."""
    session = world.open()
    facts = session.facts("stop")
    world.machine.local_ssds.append(LocalSsd(mounted=True))
    outcome = world.act("stop", facts, session)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "badRequest" in outcome.detail
    assert "cloud.local_data" in outcome.detail
    assert len(world.api.calls("/stop")) == 1


@pytest.mark.parametrize("name", [name for name, cell in CELLS.items() if cell.verdict in {"refuse", "another"}])
def test_what_the_plan_refuses_is_not_sent(name: str, tmp_path: pathlib.Path) -> None:
    """No row of the table that refuses leads to a request with an effect."""
    cell = CELLS[name]
    machine = Machine(**copy.deepcopy(cell.machine))
    with world_of(machine, tmp_path, granted=cell.granted, on_project=cell.on_project) as world:
        world.settings.update(cell.settings)
        assert world.act(cell.verb).status == "refused"
        assert world.api.effects == []
        assert [one for one in world.api.requests if "requestId" in one.query] == []


@pytest.mark.parametrize("kind", ["throttle_403", "throttle_429", "error_500", "error_503", "cut_before"])
def test_what_passes_is_tried_again_with_the_same_id(world: World, kind: str) -> None:
    """Throttling comes in two forms, one of them looks like a denial."""
    world.api.faults.append(Fault(kind, ".stop", times=2))  # type: ignore[arg-type] # a text of the list above
    outcome = world.act("stop")
    sent = world.api.calls("/stop")
    assert outcome.status == "accepted"
    assert len(sent) == 3
    assert len({one.query["requestId"] for one in sent}) == 1
    assert world.api.effects == ["stop"]


def test_a_lost_answer_does_not_act_twice(world: World) -> None:
    """Cut after the cloud acted: the look before the next request shows it, and there is none."""
    world.api.faults.append(Fault("cut_after", ".stop"))
    outcome = world.act("stop")
    assert outcome.status == "accepted"
    assert "STOPPING" in outcome.detail
    (sent,) = world.api.calls("/stop")
    assert outcome.proof == sent.query["requestId"]
    assert world.api.effects == ["stop"]


def test_a_request_that_nobody_heard_is_sent_again(world: World) -> None:
    """Cut before the cloud acted: the machine runs, and the same id is sent again."""
    world.api.faults.append(Fault("cut_before", ".stop", times=2))
    assert world.act("stop").status == "accepted"
    assert len({one.query["requestId"] for one in world.api.calls("/stop")}) == 1
    assert len(world.api.calls("/stop")) == 3
    assert world.api.effects == ["stop"]


@pytest.mark.parametrize("body", [b"<html>sign in</html>", b'{"id": "x"}', b"{}"])
def test_an_answer_of_somebody_else_is_no_acceptance(world: World, body: bytes) -> None:
    """200 from a portal in between: nobody knows whether the cloud heard it."""
    session = world.open()
    facts = session.facts("stop")
    with speaking([answer(body, "Content-Type: text/html")]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        outcome = session.execute("stop", facts, Ticket("i", "a", 1.0))
    assert outcome.status == "unknown"


@pytest.mark.parametrize("status", [302, 307, 400, 403, 404, 407])
def test_what_a_proxy_refuses_is_no_veto(world: World, status: int) -> None:
    """The cloud has refused nothing: technical, so that the fall-back list may follow, and a redirect is not followed."""
    session = world.open()
    facts = session.facts("stop")
    said = answer(b"<html>blocked</html>", f"Location: {world.api.url}").replace(b"200 OK", b"%d X" % status)
    asked = len(world.api.requests)
    with speaking([said]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        outcome = session.execute("stop", facts, Ticket("i", "a", 1.0))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "NO_PROXY" in outcome.detail
    assert len(world.api.requests) == asked


def test_what_a_proxy_refused_may_have_been_heard(world: World) -> None:
    """It passed the request on and refused to pass the answer back: the look shows it."""
    session = world.open()
    facts = session.facts("stop")
    machine = json.dumps({**resources.instance(world.machine), "status": "STOPPING"}).encode()
    with speaking([answer(b"<html>").replace(b"200 OK", b"403 X")], [answer(machine)]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        outcome = session.execute("stop", facts, TICKET)
    assert outcome.status == "accepted"
    assert "STOPPING" in outcome.detail


def test_an_error_that_acted_all_the_same_is_found_out(world: World) -> None:
    """The API fails and the machine stops: the state says more than the error."""
    world.api.faults += [Fault("fail_but_act", ".stop"), Fault("error_503", ".stop", times=99)]
    session = world.open()
    outcome = session.execute("stop", session.facts("stop"), Ticket("i", "a", 1.5))
    assert (outcome.status, outcome.proof) == ("accepted", world.api.calls("/stop")[0].query["requestId"])
    assert "STOPPING" in outcome.detail


def test_no_answer_at_all_is_unknown(world: World) -> None:
    """Sent, and the machine still runs: nobody can say."""
    world.api.faults.append(Fault("cut_before", ".stop", times=99))
    session = world.open()
    begun = time.monotonic()
    outcome = session.execute("stop", session.facts("stop"), Ticket("i", "a", 1.5))
    assert time.monotonic() - begun < 4.0
    assert (outcome.status, outcome.proof) == ("unknown", "")
    assert world.api.calls("/stop")[0].query["requestId"] in outcome.detail, "the audit log has it"
    assert "Google Cloud shows RUNNING" in outcome.detail


def test_a_denial_after_a_lost_answer_proves_nothing(world: World) -> None:
    """A machine that is being deleted loses its rights with it: nobody can say, and nobody says *refused*."""
    session = world.open()
    facts = session.facts("terminate")
    world.api.faults += [Fault("cut_after", ".delete"), Fault("deny", "", times=99)]
    outcome = world.act("terminate", facts, session)
    assert outcome.status == "unknown"
    assert world.api.effects == ["delete"]


def test_a_slow_answer_is_given_up_in_time(world: World) -> None:
    """The deadline holds although the server never says no."""
    world.api.faults.append(Fault("slow", ".stop", times=99, seconds=1.5))
    session = world.open()
    begun = time.monotonic()
    outcome = session.execute("stop", session.facts("stop"), Ticket("i", "a", 1.0))
    assert time.monotonic() - begun < 4.0
    assert outcome.status == "unknown"


@pytest.mark.parametrize(("kind", "code"), [("error_500", "backendError"), ("throttle_403", "rateLimitExceeded")])
def test_a_trouble_that_lasts_is_a_technical_failure(world: World, kind: str, code: str) -> None:
    """The next link of the fall-back list may follow; a person reads what to run."""
    world.api.faults.append(Fault(kind, ".stop", times=99))  # type: ignore[arg-type] # as above
    session = world.open()
    outcome = session.execute("stop", session.facts("stop"), Ticket("i", "a", 2.5))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert code in outcome.detail
    assert "run it again" in outcome.detail
    assert world.api.effects == []


def test_a_right_that_was_lost_meanwhile_is_a_veto(world: World) -> None:
    """Taken away over night: sent once, told, and nothing goes round it."""
    session = world.open()
    facts = session.facts("stop")
    world.api.granted.discard("compute.instances.stop")
    outcome = world.act("stop", facts, session)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "forbidden" in outcome.detail
    assert len(world.api.calls("/stop")) == 1


def test_a_right_that_comes_late_is_waited_for(tmp_path: pathlib.Path) -> None:
    """Within the first minutes of a machine's life."""
    with world_of(Machine(age=60.0), tmp_path) as world:
        world.api.faults.append(Fault("deny", ".stop", times=2))
        assert world.act("stop").status == "accepted"


def test_a_protection_that_was_set_meanwhile_is_a_veto(world: World) -> None:
    """Somebody protected it between the plan and the request."""
    session = world.open()
    facts = session.facts("terminate")
    world.machine.protected = True
    outcome = world.act("terminate", facts, session)
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "invalidResourceUsage" in outcome.detail
    assert "no-deletion-protection" in outcome.detail
    assert world.api.effects == []


def test_an_error_inside_the_operation_is_a_refusal(world: World) -> None:
    """The API answers 200, and the operation says no."""
    world.api.faults.append(Fault("fail_at_once", ".stop"))
    outcome = world.act("stop")
    assert (outcome.status, outcome.proof) == ("refused", "")
    assert "UNSUPPORTED_OPERATION" in outcome.detail
    assert len(world.api.calls("/stop")) == 1


@pytest.mark.parametrize("code", ["RATE_LIMIT_EXCEEDED", "RESOURCE_OPERATION_RATE_EXCEEDED"])
def test_throttling_inside_the_operation_is_technical(world: World, code: str) -> None:
    """The same id would only bring the same operation back, so it fails in the end."""
    world.api.faults.append(Fault("fail_at_once", ".stop", times=99, code=code, message="Rate Limit"))
    session = world.open()
    outcome = session.execute("stop", session.facts("stop"), Ticket("i", "a", 1.0))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "run it again" in outcome.detail


def test_a_token_that_expired_is_fetched_again(world: World) -> None:
    """While the worker waits, a token may run out."""
    session = world.open()
    facts = session.facts("stop")
    world.api.faults.append(Fault("unauthorized", ".stop"))
    tokens = len(world.metadata.calls_for_token())
    assert world.act("stop", facts, session).status == "accepted"
    assert len(world.metadata.calls_for_token()) == tokens + 1


def test_a_token_that_is_never_accepted_is_a_credential_trouble(world: World) -> None:
    """Technical: another action may be tried, and people are told."""
    session = world.open()
    facts = session.facts("stop")
    world.api.token = "another"
    outcome = world.act("stop", facts, session)
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "authError" in outcome.detail


@pytest.mark.parametrize("region", ["", "us-central1"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_group_lets_its_member_go(verb: Verb, region: str, tmp_path: pathlib.Path) -> None:
    """Through the group's own call, so that it becomes smaller and makes no new machine."""
    machine = Machine(**PLAIN, group=Group(region=region, size=3))
    with world_of(machine, tmp_path, granted=("get",), on_project=READS_GROUPS) as world:
        world.settings["group"] = "leave"
        outcome = world.act(verb)
        assert outcome.status == "accepted"
        assert world.api.effects == [f"group {EFFECT[verb]}"]
        assert machine.group is not None
        assert machine.group.size == 2
        (sent,) = [one for one in world.api.requests if "requestId" in one.query]
        assert (
            f"/{'regions/us-central1' if region else 'zones/us-central1-a'}/instanceGroupManagers/trainers/"
            in sent.path
        )


def test_a_group_that_denies_it_is_a_veto(tmp_path: pathlib.Path) -> None:
    """The right cannot be asked for before; the machine is not stopped behind the group's back."""
    rights = tuple(right for right in READS_GROUPS if not right.endswith("update"))
    with world_of(Machine(group=Group()), tmp_path, on_project=rights) as world:
        world.settings["group"] = "leave"
        outcome = world.act("stop")
        assert (outcome.status, outcome.proof) == ("refused", "")
        assert "forbidden" in outcome.detail
        assert world.api.calls("/stop") == []


def test_the_warm_request_is_quick(world: World) -> None:
    """From the last read to the request's acceptance: a blink. Median of five on a waiting session."""
    session = world.open()
    facts = session.facts("stop")
    took = []
    for number in range(5):
        begun = time.monotonic()
        outcome: Result = session.execute("stop", facts, TICKET._replace(attempt=str(number)))
        took.append(time.monotonic() - begun)
        assert outcome.status == "accepted"
    assert sorted(took)[2] < 0.1
