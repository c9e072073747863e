"""Answers that are not what the reference shows: other case, further pages, a portal in between, a cut connection."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any

import pytest

from costguard.cloud.api import CloudError, Ticket
from costguard.cloud.http import LONGEST_BYTES
from costguard_azure import Azure, arm, resource
from costguard_azure.act import execute
from costguard_azure.facts import gather
from costguard_azure.machine import AzureMachine
from costguard_azure.session import Session, Token
from costguard_azure.testing import FakeAzure
from tests.clouds.wire import answer, speaking


class Known:
    """A credential that asks nobody."""

    def get_token(self, *_scopes: str, **_options: object) -> Token:
        return Token("t", 9_999_999_999)

    def forget(self) -> None: ...


def vm_of(azure: FakeAzure, document: Mapping[str, Any]) -> Any:
    """The machine as it is read from a document that answers every question."""
    site = azure.site()
    who = Azure().identify(site)
    machine = resource.parse(azure.world.id)
    assert machine is not None
    with speaking([answer(json.dumps(document).encode())]) as url:
        session = Session(azure.site(api_endpoint=url), machine, resource.PUBLIC, Known())
        return gather(session, site, who).vm


def test_words_count_in_any_case(azure: FakeAzure) -> None:
    """The Resource Manager takes its own words in any case, and some tools write them so."""
    set_id = f"{azure.world.id.rpartition('/virtualMachines/')[0]}/virtualMachineScaleSets/AKS-POOL-1-VMSS"
    body = {
        "vmId": azure.world.vm_id.upper(),
        "priority": "spot",
        "storageProfile": {"osDisk": {"name": "os", "deleteOption": "DELETE", "diffDiskSettings": {"option": "local"}}},
        "virtualMachineScaleSet": {"id": set_id},
    }
    vm = vm_of(azure, {"properties": body})
    assert (vm.vm_id, vm.spot, vm.ephemeral_os, vm.disks_deleted) == (azure.world.vm_id, True, True, ("os",))
    assert vm.owner[0] == "Azure Kubernetes Service"


def test_a_right_on_the_second_page_counts(azure: FakeAzure, machine: AzureMachine) -> None:
    """Without it the machine would be refused its own stop; the token goes to the same address alone."""
    site, who = azure.site(), Azure().identify(azure.site())
    parsed = resource.parse(azure.world.id)
    assert parsed is not None
    vm = {"properties": {"vmId": azure.world.vm_id}}
    last = {"value": [{"actions": ["*"], "notActions": []}]}
    for elsewhere in (False, True):
        pages: list[list[bytes]] = [[answer(json.dumps(vm).encode())], [], [answer(json.dumps(last).encode())]]
        with speaking(*pages) as url:
            following = "http://127.0.0.1:9/more?x=1" if elsewhere else f"{url}/more?api-version=1&$skiptoken=2"
            pages[1].append(answer(json.dumps({"value": [], "nextLink": following}).encode()))
            session = Session(azure.site(api_endpoint=url), parsed, resource.PUBLIC, Known())
            facts = gather(session, site, who)
        plan = machine.plan("stop", facts)
        codes = {finding.code for finding in plan.findings}
        assert ("permission_unknown" in codes) is elsewhere
        assert "not_permitted" not in codes


@pytest.mark.parametrize("operation", ["get", "permissions", "locks"])
def test_a_question_whose_answer_was_lost_is_asked_again(
    azure: FakeAzure, machine: AzureMachine, operation: str
) -> None:
    """It has no effect, so nothing speaks against it; only a request with one has to be careful."""
    azure.faults.add(operation, "cut_after")
    facts = machine.facts("stop")
    assert facts.vm is not None
    assert facts.unknown == {}


def test_a_portals_404_is_not_the_machines_end(azure: FakeAzure) -> None:
    """Only the Resource Manager's own word says that a machine does not exist."""
    receipt = {"resource_id": azure.world.id, "vm_id": azure.world.vm_id, "action": "stop"}
    for said in (answer(b"<html>").replace(b"200 OK", b"404 X"), answer(b"{}"), answer(b'{"properties": {}}')):
        with speaking([said]) as url, pytest.raises(CloudError) as caught:
            Azure().verify(azure.site(api_endpoint=url), receipt)
        assert caught.value.technical
        assert "az vm get-instance-view" in caught.value.hint


def test_a_wrong_clock_is_told_in_words(azure: FakeAzure, machine: AzureMachine) -> None:
    """By the date of the answer that refuses the token."""
    facts = machine.facts("stop")
    late = formatdate(time.time() + 7200.0, usegmt=True)
    body = json.dumps({"error": {"code": "InvalidAuthenticationToken", "message": "not yet valid"}}).encode()
    said = answer(body, "Content-Type: application/json", f"Date: {late}").replace(b"200 OK", b"401 X")
    with speaking([said]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        with pytest.raises(CloudError) as caught:
            session.once("asking", lambda: arm.send(session, "stop", lambda _: None))
    assert caught.value.trouble == "clock"
    assert "this machine's clock is 2 h behind" in str(caught.value)


def test_a_page_is_no_acceptance(azure: FakeAzure, machine: AzureMachine) -> None:
    """200 from a portal in between: nobody knows whether Azure heard it."""
    facts = machine.facts("stop")
    with speaking([answer(b"<html>sign in</html>", "Content-Type: text/html")]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        outcome = execute(session, "stop", facts, Ticket("i", "a", 2.0))
    assert outcome.status == "unknown"


@pytest.mark.parametrize(
    "said",
    [
        answer(b"OK", "Content-Type: text/plain"),
        answer(b"{}", "Content-Type: application/json"),
        answer(b"<html>sign in</html>", "Content-Type: application/json"),
        answer(b""),
    ],
)
def test_an_answer_without_azures_number_is_no_acceptance(azure: FakeAzure, machine: AzureMachine, said: bytes) -> None:
    """Whatever stands in between may say 200; Azure numbers each of its answers."""
    facts = machine.facts("stop")
    with speaking([said]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        outcome = execute(session, "stop", facts, Ticket("i", "a", 2.0))
    assert outcome.status == "unknown"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"no"', b'{"error": "no"}'])
@pytest.mark.parametrize(
    ("status", "trouble"),
    [(204, "internal"), *((status, "unreachable") for status in (302, 307, 400, 403, 404, 407, 409))],
)
def test_what_is_not_in_azures_words_is_blamed_on_what_stands_between(
    azure: FakeAzure, machine: AzureMachine, status: int, trouble: str, body: bytes
) -> None:
    """No role and no page of the documentation helps against a proxy, and it is no veto of Azure."""
    facts = machine.facts("stop")
    with speaking([answer(body, "Location: http://127.0.0.1:9/").replace(b"200 OK", f"{status} X".encode())]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        with pytest.raises(CloudError) as caught:
            session.once("asking", lambda: arm.send(session, "stop", lambda _: None))
    assert (caught.value.trouble, caught.value.in_doubt) == (trouble, status < 300)
    assert "proxy" in caught.value.hint


@pytest.mark.parametrize("status", [302, 400, 403, 404, 407])
def test_what_a_proxy_refuses_is_no_veto(azure: FakeAzure, machine: AzureMachine, status: int) -> None:
    """It hides the machine, too: technical, so that the fall-back list may follow."""
    facts = machine.facts("stop")
    with speaking([answer(b"<html>").replace(b"200 OK", b"%d X" % status)]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        outcome = execute(session, "stop", facts, Ticket("i", "a", 1.0))
    assert (outcome.status, outcome.proof) == ("failed", "")
    assert "NO_PROXY" in outcome.detail


def test_what_a_proxy_refused_may_have_been_heard(azure: FakeAzure, machine: AzureMachine) -> None:
    """It passed the request on and refused to pass the answer back: the look shows it."""
    facts = machine.facts("stop")
    view = answer(json.dumps({"statuses": [{"code": "PowerState/deallocating"}]}).encode())
    with speaking([answer(b"<html>").replace(b"200 OK", b"403 X")], [view]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        outcome = execute(session, "stop", facts, Ticket("i", "a", 2.0))
    assert outcome.status == "accepted"
    assert "deallocating" in outcome.detail


def test_a_refusal_with_azures_number_is_a_veto(azure: FakeAzure, machine: AzureMachine) -> None:
    """Without a word of its own, but Azure has answered."""
    facts = machine.facts("stop")
    with speaking([answer(b"", "x-ms-request-id: r-1").replace(b"200 OK", b"400 X")]) as url:
        session = Session(azure.site(api_endpoint=url), facts.machine, resource.PUBLIC, Known())
        outcome = execute(session, "stop", facts, Ticket("i", "a", 2.0))
    assert (outcome.status, outcome.proof) == ("refused", "")


@pytest.mark.parametrize("status", [200, 403])
def test_an_answer_without_an_end_is_not_read(azure: FakeAzure, machine: AzureMachine, status: int) -> None:
    """Unpacked, too: a thousandth of it is on the wire."""
    where = machine.facts("stop").machine
    body = gzip.compress(b" " * (LONGEST_BYTES + 1))
    with speaking([answer(body, "Content-Encoding: gzip").replace(b"200 OK", b"%d X" % status)]) as url:
        session = Session(azure.site(api_endpoint=url), where, resource.PUBLIC, Known())
        for ask in (lambda: arm.machine(session), lambda: session.get("/x", "1", "asking")):
            with pytest.raises(CloudError) as caught:
                session.once("asking", ask)
            assert caught.value.technical
            assert "more than 8 MB" in str(caught.value)


def test_the_sdk_writes_nothing_among_the_answers(azure: FakeAzure) -> None:
    """It logs what it cannot read, with a traceback, onto the terminal of whoever asked."""
    program = (
        "import logging; from costguard_azure.session import Session; from costguard_azure import resource;"
        "from costguard.cloud.api import Site;"
        f"Session(Site({{}}, {{}}, {{}}), resource.parse({azure.world.id!r}), resource.PUBLIC, object());"
        "logging.getLogger('azure.core').warning('noise')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
