"""The stand-in is strict: what the API's own description does not allow, it does not allow either."""

import http.client
import json

import pytest

from costguard_gcp.testing import Fault, NotInDiscoveryError
from costguard_gcp.testing.discovery import compute_v1
from tests.clouds.gcp.conftest import World

ME = "/compute/v1/projects/ml-project/zones/us-central1-a/instances/trainer-1"


def ask(world: World, method: str, path: str, body: bytes = b"", token: str | None = None) -> tuple[int, str]:
    """Status, and the reason of an error."""
    connection = http.client.HTTPConnection(world.api.url.removeprefix("http://"), timeout=5)
    connection.request(method, path, body, {"Authorization": f"Bearer {token or world.api.token}"})
    answer = connection.getresponse()
    found = json.loads(answer.read() or b"{}")
    connection.close()
    return answer.status, found.get("error", {}).get("errors", [{}])[0].get("reason", "")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", f"{ME}/stop", b"", 200, ""),
        ("POST", f"{ME}/stop?requestId=00000000-0000-4000-8000-000000000001", b"", 200, ""),
        ("POST", f"{ME}/stop?force=true", b"", 400, "invalid"),
        ("POST", f"{ME}/stop?discardLocalSsd=yes", b"", 400, "invalid"),
        ("DELETE", f"{ME}?discardLocalSsd=true", b"", 400, "invalid"),
        ("POST", f"{ME}/stop", b"{}", 400, "invalid"),
        ("POST", f"{ME}/testIamPermissions", b'{"permission": []}', 400, "invalid"),
        ("POST", f"{ME}/testIamPermissions", b"nonsense", 400, "invalid"),
        ("PUT", f"{ME}/stop", b"", 404, "notFound"),
        ("POST", f"{ME}/halt", b"", 404, "notFound"),
        ("GET", "/compute/v1/projects/ml-project/zones/US/instances/trainer-1", b"", 404, "notFound"),
        ("GET", ME.replace("trainer-1", "trainer-2"), b"", 404, "notFound"),
        ("GET", ME.replace("trainer-1", "8465230493847120987"), b"", 200, ""),
        ("GET", f"{ME}?prettyPrint=false&%24alt=json%3Benum-encoding%3Dint", b"", 200, ""),
    ],
)
def test_requests_are_checked(world: World, method: str, path: str, body: bytes, status: int, reason: str) -> None:
    """Paths, parameters and bodies as the document has them."""
    assert ask(world, method, path, body) == (status, reason)


def test_a_wrong_token_is_401(world: World) -> None:
    """As at the real API."""
    assert ask(world, "GET", ME, token="stolen") == (401, "authError")


def test_one_request_id_is_carried_out_once(world: World) -> None:
    """What makes repeating safe."""
    path = f"{ME}/stop?requestId=00000000-0000-4000-8000-000000000001"
    assert [ask(world, "POST", path)[0] for _ in range(3)] == [200, 200, 200]
    assert world.api.effects == ["stop"]


def test_suspending_with_gpus_fails_inside_the_operation(world: World) -> None:
    """The API's answer is 200; who does not look into it believes that it worked."""
    assert ask(world, "POST", f"{ME}/suspend") == (200, "")
    assert world.api.effects == []


def test_a_fault_hits_its_method_only(world: World) -> None:
    """So often as it says, and nothing else."""
    world.api.faults.append(Fault("error_503", ".stop"))
    assert ask(world, "GET", ME)[0] == 200
    assert ask(world, "POST", f"{ME}/stop")[0] == 503
    assert ask(world, "POST", f"{ME}/stop")[0] == 200


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "ASLEEP"},
        {"id": 8465230493847120987},
        {"deletionProtection": "false"},
        {"colour": "blue"},
        {"disks": {"boot": True}},
        {"guestAccelerators": [{"acceleratorCount": "1"}]},
        [],
    ],
)
def test_answers_are_checked_too(answer: object) -> None:
    """A stand-in that invents fields would let the plug-in rely on them."""
    route = compute_v1().route("GET", ME)
    assert route is not None
    assert route.id == "compute.instances.get"
    with pytest.raises(NotInDiscoveryError):
        compute_v1().check_answer(route, answer)
