"""The stand-ins are strict: what Azure would refuse is refused, and the SDK's own client works with them."""

import http.client
import json
import subprocess
import sys

import pytest

from costguard_azure.machine import AzureMachine
from costguard_azure.testing import FakeAzure


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/metadata/instance?api-version=2021-12-13", {}, 400),
        ("/metadata/instance?api-version=2021-12-13", {"Metadata": "true", "X-Forwarded-For": "10.0.0.1"}, 400),
        ("/metadata/instance", {"Metadata": "true"}, 400),
        ("/metadata/instance?api-version=1999-01-01", {"Metadata": "true"}, 400),
        ("/metadata/instance?api-version=2021-12-13&more=1", {"Metadata": "true"}, 400),
        ("/metadata/other?api-version=2021-12-13", {"Metadata": "true"}, 404),
        ("/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://evil", {"Metadata": "true"}, 400),
        ("/metadata/instance?api-version=2021-12-13", {"Metadata": "true"}, 200),
    ],
)
def test_metadata(azure: FakeAzure, target: str, headers: dict[str, str], status: int) -> None:
    """Header, version, parameters, path."""
    connection = http.client.HTTPConnection(str(azure.settings["metadata_endpoint"]).removeprefix("http://"))
    connection.request("GET", target, headers=headers)
    assert connection.getresponse().status == status
    connection.close()


def test_five_a_second(azure: FakeAzure) -> None:
    """The sixth at once is too many."""
    statuses = []
    for _ in range(6):
        connection = http.client.HTTPConnection(str(azure.settings["metadata_endpoint"]).removeprefix("http://"))
        connection.request("GET", "/metadata/instance?api-version=2021-12-13", headers={"Metadata": "true"})
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses == [200] * 5 + [429]


@pytest.mark.parametrize(
    ("method", "tail", "status", "code"),
    [
        ("GET", "?api-version=1999-01-01", 400, "InvalidApiVersionParameter"),
        ("GET", "", 400, "MissingApiVersionParameter"),
        ("GET", "?api-version=2026-04-01&other=1", 400, "InvalidParameter"),
        ("POST", "/deallocate?api-version=2026-04-01&hibernate=yes", 400, "InvalidParameter"),
        ("POST", "/explode?api-version=2026-04-01", 404, "ResourceNotFound"),
        ("PUT", "?api-version=2026-04-01", 405, "HttpMethodNotSupported"),
    ],
)
def test_resource_manager(
    azure: FakeAzure, machine: AzureMachine, method: str, tail: str, status: int, code: str
) -> None:
    """Version, parameters, path, method."""
    from azure.core.rest import HttpRequest

    session = machine._session
    response = session._arm.send_request(HttpRequest(method, f"{session.endpoint}{azure.world.id}{tail}"))
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("style", ["async", "location"])
def test_the_sdks_poller_follows_both_styles(azure: FakeAzure, machine: AzureMachine, style: str) -> None:
    """With the right to see operations, which a role on one machine does not have."""
    azure.world.style = style
    azure.world.rights = ["*"]
    virtual_machines = machine._session.compute.virtual_machines
    poller = virtual_machines.begin_deallocate("lab", "trainer", polling_interval=0)
    poller.result(timeout=20)
    assert poller.done()
    assert azure.world.power == "deallocated"
    assert azure.sent("operation")


def test_a_role_on_one_machine_does_not_see_operations(azure: FakeAzure, machine: AzureMachine) -> None:
    """Why the plug-in asks the instance view instead."""
    from azure.core.exceptions import HttpResponseError

    poller = machine._session.compute.virtual_machines.begin_deallocate("lab", "trainer", polling_interval=0)
    with pytest.raises(HttpResponseError) as caught:
        poller.result(timeout=20)
    assert caught.value.status_code == 403
    assert azure.world.power == "deallocated"


def test_deallocations_share_a_small_bucket(azure: FakeAzure, machine: AzureMachine) -> None:
    """Twelve at once for one machine, then 429 with Retry-After."""
    vms = machine._session.compute.virtual_machines
    from azure.core.exceptions import HttpResponseError

    for _ in range(12):
        vms.begin_deallocate("lab", "trainer", polling=False)
    with pytest.raises(HttpResponseError) as caught:
        vms.begin_deallocate("lab", "trainer", polling=False)
    assert caught.value.status_code == 429
    assert caught.value.response.headers["Retry-After"] == "15"


def test_it_serves_other_programs() -> None:
    """``python -m costguard_azure.testing`` says where it is, and ends with its input."""
    program = subprocess.Popen(
        [sys.executable, "-m", "costguard_azure.testing"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    where = json.loads(program.stdout.readline())
    assert where["settings"]["api_endpoint"].startswith("https://127.0.0.1:")
    program.communicate(timeout=20)
    assert program.returncode == 0
