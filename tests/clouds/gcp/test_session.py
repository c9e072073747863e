"""How the SDK is used: loaded late, over a secure connection, to the configured endpoint, never for long."""

import datetime as dt
import pathlib
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

import pytest
import trustme

from costguard.cloud.access import HostPaths
from costguard.cloud.api import CloudError
from costguard_gcp import PROVIDER
from costguard_gcp import disks as gcp_disks
from costguard_gcp.testing import Fault, LocalSsd, Machine, firmware
from tests.clouds.gcp.conftest import TICKET, World, world_of

LONG_AGO = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def test_the_resident_part_loads_no_sdk() -> None:
    """Identity, notices, tags, prices, permissions: everything that the guard's readers and `--help` need."""
    heavy = "{'google', 'requests', 'urllib3', 'cryptography'}"
    modules = "identity, disks, metadata, notices, permissions, prices"
    program = f"import sys; from costguard_gcp import PROVIDER, {modules}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


USED = """
import sys
from importlib.abc import MetaPathFinder

class Whole(MetaPathFinder):  # as of a library whose clients use more of the package than there is while they load
    def find_spec(self, name, path=None, target=None):
        package = sys.modules.get("google.cloud.compute_v1")
        if name.endswith(".services.instances") and not hasattr(package, "AddressesClient"):
            raise ImportError(name)

if sys.argv[1] == "whole":
    sys.meta_path.insert(0, Whole())
from costguard_gcp.sdk import compute
loaded = "google.cloud.compute_v1.services.addresses" in sys.modules
from google.cloud import compute_v1
same = [getattr(compute, name) is getattr(compute_v1, name) for name in ("InstancesClient", "Instance")]
print(loaded, *same, hasattr(compute_v1, "AddressesClient"))
"""


def test_a_secret_is_read_without_the_sdk() -> None:
    """Every message reads the addresses of its channels; the SDK has no client for them."""
    program = (
        "import sys; from costguard_gcp import secret_store\n"
        "try: secret_store._access('http://127.0.0.1:1/', 't', 5.0)\n"
        "except Exception as error: print(error.trouble, 'google.cloud.compute_v1.types' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unreachable", "False"]


@pytest.mark.parametrize("kind", ["parts", "whole"])
def test_what_is_not_used_of_the_sdk_is_loaded_only_where_it_has_to_be(kind: str) -> None:
    """On a slow machine all of it takes as long as a plan may; whoever asks for the package himself gets the whole."""
    done = subprocess.run([sys.executable, "-c", USED, kind], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(kind == "whole"), "True", "True", "True"]


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> trustme.CA:
    """A certificate authority that the SDK trusts, in the way that its users name one."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    return made


def served_by(certificate: trustme.LeafCert, folder: pathlib.Path) -> Iterator[World]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with world_of(Machine(), folder, context=context) as world:
        yield world


def test_the_whole_way_over_tls(authority: trustme.CA, tmp_path: pathlib.Path) -> None:
    """As it runs in the cloud, but for the name."""
    for world in served_by(authority.issue_cert("localhost"), tmp_path):
        assert world.api.url.startswith("https://localhost:")
        assert world.act("stop").status == "accepted"


def test_a_wrong_clock_is_named(authority: trustme.CA, tmp_path: pathlib.Path) -> None:
    """To a clock that is wrong every certificate looks expired."""
    old = authority.issue_cert("localhost", not_before=LONG_AGO, not_after=LONG_AGO + dt.timedelta(days=1))
    for world in served_by(old, tmp_path):
        with pytest.raises(CloudError) as caught:
            world.open().facts("stop")
        assert (caught.value.trouble, caught.value.code) == ("clock", "clock_skew")
        assert "timedatectl" in caught.value.hint


def test_a_stranger_gets_no_token(tmp_path: pathlib.Path) -> None:
    """A certificate that nobody vouches for: no request is made, and the words speak of TLS."""
    for world in served_by(trustme.CA().issue_cert("localhost"), tmp_path):
        with pytest.raises(CloudError) as caught:
            world.open().facts("stop")
        assert caught.value.code == "tls"
        assert world.api.requests == []


@pytest.mark.parametrize("given", ["http://example.com", "http://10.0.0.1:8080"])
def test_a_token_is_never_sent_in_clear(world: World, given: str) -> None:
    """Plain http is for loopback alone."""
    world.settings["api_endpoint"] = given
    with pytest.raises(CloudError) as caught:
        world.open()
    assert (caught.value.trouble, caught.value.code) == ("refused", "endpoint")


def test_an_api_that_is_not_there_is_technical(world: World) -> None:
    """Facts without the API would be no facts."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        world.settings["api_endpoint"] = f"http://127.0.0.1:{one.getsockname()[1]}"
        with pytest.raises(CloudError) as caught:
            world.open().facts("stop")
    assert (caught.value.trouble, caught.value.technical) == ("unreachable", True)


def test_facts_survive_throttling_and_a_short_outage(world: World) -> None:
    """A plan that fails at every hiccup would alarm people for nothing."""
    world.api.faults += [Fault("throttle_403", "instances.get"), Fault("error_503", "testIamPermissions")]
    session = world.open()
    assert session.plan("stop", session.facts("stop")).verdict == "go"


def test_a_fact_that_hangs_once_is_asked_for_again(world: World) -> None:
    """One lost packet is no reason to be without a plan."""
    session = world.open()
    world.api.faults.append(Fault("slow", "instances.get", seconds=4.5))
    assert session.facts("stop").vm is not None


def test_the_sdk_repeats_nothing_by_itself(world: World) -> None:
    """Its own retries know neither the deadline nor the other machines that are throttled."""
    session = world.open()
    world.api.faults.append(Fault("error_503", "instances.get", times=99))
    with pytest.raises(CloudError) as caught:
        session.api.instance()
    assert caught.value.trouble == "internal"
    assert len(world.api.requests) == 1


def test_facts_are_read_only(world: World) -> None:
    """Two requests, both without an effect."""
    session = world.open()
    session.facts("terminate")
    assert [(one.method, one.path.rpartition("/")[2]) for one in world.api.requests] == [
        ("GET", "trainer-1"),
        ("POST", "testIamPermissions"),
    ]


def test_an_answer_with_unknown_fields_is_no_trouble(world: World) -> None:
    """The API is newer than the SDK, one day."""
    world.api.extra = {"description": "trainer", "canIpForward": True}
    session = world.open()
    assert session.plan("stop", session.facts("stop")).verdict == "go"


def test_a_disabled_api_is_named(world: World) -> None:
    """A project without the Compute Engine API switched on for it: the owner can do something."""
    session = world.open()
    world.api.denial = ("accessNotConfigured", "Compute Engine API has not been used in project 123 before")
    world.api.faults.append(Fault("deny", "instances.get", 9))
    decided = session.plan("stop", session.facts("stop"))
    assert decided.verdict == "refuse"
    assert "switched off" in decided.findings[0].text
    assert "gcloud services enable" in decided.findings[0].hint


@pytest.mark.parametrize(
    ("disks", "expected", "state"),
    [
        ([LocalSsd()], 1, "unused"),
        ([LocalSsd(), LocalSsd(mounted=True)], 2, "used"),
        ([LocalSsd(), LocalSsd(mounted=True, empty=True)], 2, "empty"),
        ([LocalSsd()], 2, "unknown"),
        ([], 0, "unused"),
    ],
)
def test_local_disks_in_use(disks: list[LocalSsd], expected: int, state: str, tmp_path: pathlib.Path) -> None:
    """One in use is enough; one that cannot be seen is unknown."""
    assert use(tmp_path, disks, expected) == state


@pytest.mark.parametrize("sign", ["holder", "mount of the machine", "a count that makes no sense"])
def test_a_local_disk_that_is_part_of_something(sign: str, tmp_path: pathlib.Path) -> None:
    """A member of a RAID is not mounted itself."""
    sysfs, procfs = firmware(tmp_path, Machine(local_ssds=[LocalSsd()]))
    if sign == "holder":
        pathlib.Path(sysfs, "block/nvme0n1/holders/md0").mkdir()
    elif sign == "mount of the machine":  # which this process does not see, in a name space of its own
        pathlib.Path(procfs, "1").mkdir(exist_ok=True)
        pathlib.Path(procfs, "1/mounts").write_text("/dev/nvme0n1 /data ext4 rw 0 0\n", encoding="utf-8")
        pathlib.Path(procfs, "1/root").mkdir()
    else:
        pathlib.Path(sysfs, "block/nvme0n1/stat").write_text("nonsense\n", encoding="utf-8")
    assert gcp_disks.use(HostPaths(procfs, sysfs, ""), 1).state == "used"
    assert gcp_disks.use(HostPaths(procfs, sysfs + "/absent", ""), 1).state == "unknown"


def use(folder: pathlib.Path, disks: list[LocalSsd], expected: int) -> str:
    sysfs, procfs = firmware(folder, Machine(local_ssds=disks))
    return gcp_disks.use(HostPaths(procfs, sysfs, ""), expected).state


def test_ids_cannot_break_a_header(world: World) -> None:
    """Ids come from the guard; a line break in one would be a header of its own."""
    session = world.open()
    facts = session.facts("stop")
    ticket = TICKET._replace(incident="a\r\nx-evil: 1", attempt="é")
    assert session.execute("stop", facts, ticket).status == "accepted"
    sent = world.api.calls("/stop")[0]
    assert "x-evil" not in sent.headers
    assert sent.headers["x-goog-request-reason"] == "costguard incident ax-evil: 1, attempt "


def test_the_providers_permissions_are_what_the_calls_need(world: World) -> None:
    """The stand-in denies what is not granted: with exactly these rights everything works, without any one it does not."""
    needed = [one.name for one in PROVIDER.permissions(["stop"]) if one.needed]
    assert needed == ["compute.instances.get", "compute.instances.stop"]
    for missing in needed:
        world.api.granted = set(needed) - {missing}
        session = world.open()
        assert session.plan("stop", session.facts("stop")).verdict == "refuse"
    world.api.granted = set(needed)
    assert world.act("stop").status == "accepted"


def test_the_policy_is_generated_from_the_permissions() -> None:
    """A role as gcloud takes it; the commands bind it to the machine alone."""
    text = PROVIDER.policy(["stop", "terminate"])
    role = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    needed = [one.name for one in PROVIDER.permissions(["stop", "terminate"]) if one.needed]
    assert role == needed
    assert "compute.instances.suspend" not in text
    commands = PROVIDER.commands(["stop", "terminate"])
    assert "gcloud compute instances add-iam-policy-binding INSTANCE" in commands
    assert "gcloud iam roles create costguardSelf" in commands
    assert "gcloud projects" not in commands
    assert "gcloud iam service-accounts create ACCOUNT --project=PROJECT" in commands


@pytest.mark.parametrize(
    ("universe", "host"), [("", "compute.googleapis.com"), ("apis.example", "compute.apis.example")]
)
def test_a_cloud_that_a_partner_runs_has_a_domain_of_its_own(universe: str, host: str, world: World) -> None:
    """The metadata says which; a token goes nowhere else."""
    world.machine.universe = universe
    world.settings["api_endpoint"] = ""
    session = world.open()
    assert session.api._instances.api_endpoint == host
    world.settings.pop("api_endpoint")
    assert world.open().facts("stop").vm is not None


def test_a_domain_that_is_none_is_not_believed(world: World) -> None:
    """Nobody gets a token for it."""
    world.machine.universe = "<html>"
    with pytest.raises(CloudError) as caught:
        world.open()
    assert caught.value.code == "garbage"
