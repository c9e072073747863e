"""What the cloud shows afterwards, from the machine itself, after its next boot, and from another machine."""

import json
import pathlib

import pytest
from google.auth.credentials import AnonymousCredentials

from costguard.cloud.api import CloudError, Verb
from costguard.cloud.http import LONGEST_BYTES
from costguard.cloud.receipt import accepted
from costguard.plans import Result
from costguard_gcp import PROVIDER
from costguard_gcp.session import Api
from costguard_gcp.testing import Fault, Machine
from costguard_gcp.testing.machine import now
from tests.clouds.gcp.cells import PLAIN
from tests.clouds.gcp.conftest import TICKET, World, world_of
from tests.clouds.wire import answer, speaking

OPERATIONS = ("compute.zoneOperations.get",)
ACCEPTED = Result("accepted", "accepted by Google Cloud as operation operation-1", "operation-1")


@pytest.mark.parametrize(
    ("verb", "shown"), [("stop", "TERMINATED"), ("terminate", "no longer knows"), ("hibernate", "SUSPENDED")]
)
def test_the_three_grades_of_proof(verb: Verb, shown: str, tmp_path: pathlib.Path) -> None:
    """Accepted, seen stopping, closed: exactly these words."""
    with world_of(Machine(**PLAIN, looks_while_ending=1), tmp_path) as world:
        session = world.open()
        outcome = session.execute(verb, session.facts(verb), TICKET)
        seen = session.confirm(verb, TICKET, outcome)
        closed = session.confirm(verb, TICKET, outcome)
    assert [one.status for one in (outcome, seen, closed)] == ["accepted", "pending", "done"]
    assert outcome.detail.startswith("accepted")
    assert seen.detail.startswith("seen stopping")
    assert closed.detail.startswith("closed")
    assert shown in closed.detail
    assert {outcome.proof, seen.proof, closed.proof} == {outcome.proof}


def test_accepted_and_nothing_happens(world: World) -> None:
    """The record stays what it is, with what the cloud shows."""
    world.api.faults.append(Fault("nothing", ".stop"))
    session = world.open()
    outcome = session.execute("stop", session.facts("stop"), TICKET)
    after = session.confirm("stop", TICKET, outcome)
    assert after.status == "accepted"
    assert "Google Cloud shows RUNNING" in after.detail


def test_an_operation_that_failed_later_says_why(tmp_path: pathlib.Path) -> None:
    """Where the role shows operations; else the record stays."""
    for rights, status in ((OPERATIONS, "refused"), ((), "accepted")):
        with world_of(Machine(), tmp_path, on_project=rights) as world:
            world.api.faults.append(Fault("fail_later", ".stop", message="The zone has no resources for it."))
            session = world.open()
            outcome = session.execute("stop", session.facts("stop"), TICKET)
            after = session.confirm("stop", TICKET, outcome)
        assert after.status == status
        assert ("no resources" in after.detail) is bool(rights)


def test_an_operation_that_runs_is_shown_by_its_word(tmp_path: pathlib.Path) -> None:
    """The SDK's own number for it says nothing to anybody."""
    with world_of(Machine(), tmp_path, on_project=OPERATIONS) as world:
        world.api.faults.append(Fault("nothing", ".stop"))
        session = world.open()
        after = session.confirm("stop", TICKET, session.execute("stop", session.facts("stop"), TICKET))
    assert after.detail.endswith("the operation is DONE")


def test_a_machine_that_came_back_was_closed(tmp_path: pathlib.Path) -> None:
    """After its next boot it runs again: the last stop, not the status, says that the bill had ended."""
    with world_of(Machine(), tmp_path) as world:
        session = world.open()
        recorded = ACCEPTED._replace(receipt={"accepted": now(3600)})
        world.machine.last_stop = now(3590)
        assert session.confirm("stop", TICKET, recorded).status == "done"
        world.machine.last_stop = now(9000)  # an earlier stop proves nothing
        assert session.confirm("stop", TICKET, recorded).status == "accepted"


def test_the_operation_dates_the_stop_as_well(tmp_path: pathlib.Path) -> None:
    """Without a receipt, the operation says from when a stop counts."""
    with world_of(Machine(looks_while_ending=0), tmp_path, on_project=OPERATIONS) as world:
        session = world.open()
        outcome = session.execute("stop", session.facts("stop"), TICKET)
        assert session.confirm("stop", TICKET, outcome).status == "done"
        world.machine.status = "RUNNING"
        after = session.confirm("stop", TICKET, outcome)
    assert after.status == "done"
    assert "started again" in after.detail


def test_a_clock_that_is_slow_ends_no_bill(world: World) -> None:
    """The machine was stopped yesterday and started again; today's request is dated by Google's clock, not by its own."""
    world.machine.last_stop = now(1800)
    world.api.faults.append(Fault("nothing", ".stop"))
    session = world.open()
    outcome = session.execute("stop", session.facts("stop"), TICKET)
    slow = {"accepted": now(7200)}  # as a clock that is two hours late writes it
    outcome = outcome._replace(receipt=accepted(slow, outcome.proof, outcome.receipt.get("accepted", "")))
    after = session.confirm("stop", TICKET, outcome)
    assert (after.status, "Google Cloud shows RUNNING" in after.detail) == ("accepted", True)


def test_a_stopped_machine_that_was_to_be_deleted_keeps_its_disks(world: World) -> None:
    """Computing ended, and people learn what is still billed."""
    session = world.open()
    world.machine.status = "TERMINATED"
    after = session.confirm("terminate", TICKET, ACCEPTED)
    assert after.status == "done"
    assert "not deleted" in after.detail


def test_another_machine_under_the_name_means_that_this_one_is_gone(world: World) -> None:
    """Names are used again, ids are not."""
    session = world.open()
    world.api.extra = {"id": "1111111111111111111"}
    assert session.confirm("terminate", TICKET, ACCEPTED).status == "done"


NOT_FOUND = b'{"error": {"code": 404, "message": "%s", "errors": [{"reason": "notFound", "message": "x"}]}}'


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"{}"),
        (200, b'{"a": "b"}'),
        (404, b"<html>404. That is an error.</html>"),
        (404, b"[]"),
        (200, b'{"id": "1", "name": "' + b"x" * LONGEST_BYTES + b'"}'),
        (404, NOT_FOUND % b"The resource 'projects/ml-project' was not found"),
        (404, NOT_FOUND % b"The resource 'projects/ml-project/zones/us-central1-a' was not found"),
    ],
)
def test_an_answer_of_somebody_else_proves_nothing(world: World, status: int, body: bytes) -> None:
    """A portal or a proxy in between, or another project: the bill is not said to have ended."""
    session = world.open()
    said = answer(body).replace(b"200 OK", b"%d X" % status)
    with speaking([said]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        after = session.confirm("stop", TICKET, ACCEPTED)
    assert after.status == "accepted"
    assert "cannot be read" in after.detail


def test_a_404_at_the_end_of_a_redirect_proves_nothing(world: World) -> None:
    """Whoever answers there is not who was asked, however much it speaks like the API."""
    session = world.open()
    words = b"The resource 'projects/ml-project/zones/us-central1-a/instances/trainer-1' was not found"
    gone = answer(NOT_FOUND % words).replace(b"200 OK", b"404 X")
    moved = answer(b"", "Location: /elsewhere").replace(b"200 OK", b"307 X")
    with speaking([moved], [gone]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        after = session.confirm("stop", TICKET._replace(deadline=0.1), ACCEPTED)
    assert after.status == "accepted"
    assert "307" in after.detail


def test_the_apis_own_word_proves_that_it_is_gone(world: World) -> None:
    """As Compute Engine writes it."""
    session = world.open()
    words = b"The resource 'projects/ml-project/zones/us-central1-a/instances/trainer-1' was not found"
    with speaking([answer(NOT_FOUND % words).replace(b"200 OK", b"404 X")]) as url:
        session.api = Api(session.api.where, AnonymousCredentials(), url)
        assert session.confirm("stop", TICKET, ACCEPTED).status == "done"


@pytest.mark.parametrize("status", ["STOPPING", "PENDING_STOP", "SUSPENDING", "DEPROVISIONING"])
def test_every_ending_status_is_seen_stopping(world: World, status: str) -> None:
    """None of them proves that the bill ended."""
    session = world.open()
    world.machine.status = status
    assert session.confirm("stop", TICKET, ACCEPTED).status == "pending"


def test_without_an_answer_the_record_stays(world: World) -> None:
    """After a deletion the machine's own right may be gone with it."""
    session = world.open()
    world.api.granted.clear()
    after = session.confirm("terminate", TICKET, ACCEPTED)
    assert (after.status, after.proof) == ("accepted", "operation-1")
    assert "cannot be read" in after.detail
    assert session.confirm("stop", TICKET, None).status == "unknown"


def test_nothing_recorded_and_still_running_is_unknown(world: World) -> None:
    """Nobody can say whether something was sent."""
    assert world.open().confirm("stop", TICKET, None).status == "unknown"


def receipt_of(world: World) -> dict[str, str]:
    """As the core makes it: the identity's details and its own words, flat."""
    who = PROVIDER.identify(world.site())
    own = {"cloud": "gcp", "instance": who.instance, "zone": who.zone, "action": "stop", "request": "operation-1"}
    return {**who.details, **own, "accepted": now(600)}


@pytest.fixture
def key(world: World, tmp_path: pathlib.Path) -> pathlib.Path:
    """A service account's key whose sign-in is the metadata stand-in's host."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path / "key.json"
    account = {
        "type": "service_account",
        "client_email": "auditor@ml-project.iam.gserviceaccount.com",
        "private_key": pem.decode(),
        "token_uri": f"{world.api.url}/token",
    }
    path.write_text(json.dumps(account), encoding="utf-8")
    return path


def test_a_receipt_is_verified_from_another_machine(world: World, key: pathlib.Path) -> None:
    """Which has no metadata server: its own credentials speak."""
    receipt = receipt_of(world)
    before = len(world.metadata.requests)
    site = world.site({"GOOGLE_APPLICATION_CREDENTIALS": str(key)})._replace(dmi={})
    running = PROVIDER.verify(site, receipt)
    world.machine.status = "TERMINATED"
    closed = PROVIDER.verify(site, receipt)
    assert (running.status, running.proof) == ("accepted", "operation-1")
    assert "Google Cloud shows RUNNING" in running.detail
    assert closed.status == "done"
    assert closed.detail.startswith("closed")
    assert len(world.metadata.requests) == before


def test_a_machine_of_google_verifies_as_itself(world: World, tmp_path: pathlib.Path) -> None:
    """Another machine of the project, without anybody's login."""
    world.machine.status = "TERMINATED"
    assert PROVIDER.verify(world.site({"HOME": str(tmp_path)}), receipt_of(world)).status == "done"


def test_a_container_that_hides_the_firmware_verifies_as_the_machine(world: World, tmp_path: pathlib.Path) -> None:
    """Where the configuration names both the cloud and its metadata server."""
    world.settings["provider"] = "gcp"
    world.machine.status = "TERMINATED"
    site = world.site({"HOME": str(tmp_path)})._replace(dmi={})
    assert PROVIDER.verify(site, receipt_of(world)).status == "done"


def test_verifying_needs_credentials(world: World, tmp_path: pathlib.Path) -> None:
    """The words name the command; no metadata address is probed."""
    site = world.site({"HOME": str(tmp_path)})._replace(dmi={})
    with pytest.raises(CloudError) as caught:
        PROVIDER.verify(site, receipt_of(world))
    assert caught.value.code == "credentials_missing"
    assert "gcloud auth application-default login" in caught.value.hint


def test_a_receipt_without_a_machine_is_refused(world: World) -> None:
    """No machine is guessed."""
    with pytest.raises(CloudError, match="names no machine"):
        PROVIDER.verify(world.site(), {"cloud": "gcp", "instance": "1"})
