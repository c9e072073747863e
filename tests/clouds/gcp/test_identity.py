"""Which machine this is, what is announced, and what each trouble of the metadata server says."""

import pathlib
import socket
import time

import pytest

from costguard.cloud.api import CloudError, Site, resume_command, start_command
from costguard_gcp import PROVIDER
from costguard_gcp.metadata import Metadata
from costguard_gcp.testing import ComputeApi, Machine, Request
from tests.clouds.gcp.conftest import World, world_of
from tests.clouds.wire import answer, bytewise, speaking


def identify_error(world: World, site: Site | None = None) -> CloudError:
    with pytest.raises(CloudError) as caught:
        PROVIDER.identify(site or world.site())
    assert caught.value.hint
    return caught.value


def test_identity_needs_two_facts_that_agree(world: World) -> None:
    """The firmware, and the metadata server."""
    who = PROVIDER.identify(world.site())
    assert (who.cloud, who.instance, who.region, who.zone) == (
        "gcp",
        "8465230493847120987",
        "us-central1",
        "us-central1-a",
    )
    assert (who.type, who.market) == ("g2-standard-8", "on-demand")
    assert who.details["resource"] == "projects/ml-project/zones/us-central1-a/instances/trainer-1"
    assert ["firmware" in who.evidence[0], "metadata" in who.evidence[1]] == [True, True]


def test_a_spot_machine_says_so(world: World) -> None:
    """The market decides about the price that is shown."""
    world.machine.model = "SPOT"
    assert PROVIDER.identify(world.site()).market == "spot"


@pytest.mark.parametrize("product", ["HVM domU", "Standard PC (Q35 + ICH9, 2009)"])
def test_foreign_firmware_is_never_asked_about(world: World, product: str) -> None:
    """A guest inside a machine of Google Cloud reaches that machine's metadata server. It must not stop its host."""
    world.settings["provider"] = "gcp"
    error = identify_error(world, world.site()._replace(dmi={"product_name": product}))
    assert error.trouble == "changed"
    assert product in str(error)
    assert world.metadata.requests == []


def test_hidden_firmware_needs_the_configuration_and_the_host_name(world: World) -> None:
    """In a container that hides it, the kernel's host name is the second fact."""
    hidden = world.site()._replace(dmi={})
    assert identify_error(world, hidden).trouble == "changed"
    assert world.metadata.requests == []
    world.settings["provider"] = "gcp"
    who = PROVIDER.identify(world.site()._replace(dmi={}))
    assert "host name `trainer-1`" in who.evidence[0]
    named = pathlib.Path(world.site().procfs, "sys/kernel/hostname")
    configured = world.site()._replace(dmi={})
    named.write_text("somebody-else\n", encoding="utf-8")
    assert "somebody-else" in str(identify_error(world, configured))


def test_every_request_carries_the_header(world: World) -> None:
    """The stand-in refuses others with 403, as the real server does."""
    PROVIDER.identify(world.site())
    assert {one.headers["metadata-flavor"] for one in world.metadata.requests} == {"Google"}
    assert {one.headers["host"] for one in world.metadata.requests} == {"metadata.google.internal"}


def test_a_proxy_of_the_environment_is_not_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token must not pass through one."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert PROVIDER.identify(world.site()).instance == str(world.machine.number)


@pytest.mark.parametrize("name", ["GCE_METADATA_HOST", "GCE_METADATA_ROOT", "GCE_METADATA_IP"])
def test_the_sdks_own_overrides_are_honoured(world: World, name: str) -> None:
    """Whoever redirects the SDK redirects costguard."""
    world.settings["metadata_endpoint"] = ""
    site = world.site({name: world.metadata.url.removeprefix("http://")})
    assert PROVIDER.identify(site).instance == str(world.machine.number)


def test_a_short_maintenance_of_the_server_passes(world: World) -> None:
    """503 for less than a second is documented."""
    world.metadata.unavailable = 2
    assert PROVIDER.identify(world.site()).instance == str(world.machine.number)


def test_silence_is_told_as_silence(world: World) -> None:
    """A container without a way to the server sees a time-out, not an error."""
    world.metadata.silent = 1.5
    error = identify_error(world)
    assert (error.trouble, error.code) == ("unreachable", "timeout")
    assert "container" in error.hint
    assert len(world.metadata.requests) <= 1, "a time-out is not worth another one"


def test_a_slow_answer_is_silence(world: World) -> None:
    """A byte now and then would hold the worker without an end."""
    begun = time.monotonic()
    with speaking(bytewise(answer(b"{}" + b" " * 100, "Metadata-Flavor: Google")), gap=0.1) as url:
        world.settings["metadata_endpoint"] = url
        error = identify_error(world)
    assert (error.trouble, error.code) == ("unreachable", "timeout")
    assert time.monotonic() - begun < 5.0  # its last byte would come after ten


def test_a_connection_that_ends_early_is_tried_again(world: World) -> None:
    """The server was restarted in between; half an answer is none."""
    whole = answer(b"ml-project", "Metadata-Flavor: Google")
    short = answer(b"ml-pro", "Metadata-Flavor: Google", missing=4)
    with speaking([b""], [short], [whole]) as url:
        world.settings["metadata_endpoint"] = url
        assert Metadata(world.site()).text("project/project-id") == "ml-project"


def test_a_closed_port_is_unreachable(world: World) -> None:
    """Other words than for silence: something answered that nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        world.settings["metadata_endpoint"] = f"127.0.0.1:{one.getsockname()[1]}"
        error = identify_error(world)
    assert (error.trouble, error.code) == ("unreachable", "no_connection")


@pytest.mark.parametrize(
    ("status", "trouble", "words"),
    [
        (403, "denied", "X-Forwarded-For"),
        (429, "throttled", "throttles"),
        (500, "internal", "500"),
        (418, "internal", "418"),
    ],
)
def test_each_refusal_has_its_words(world: World, status: int, trouble: str, words: str) -> None:
    """Each status means something else to whoever has to repair it."""
    world.metadata.refuse = status
    error = identify_error(world)
    assert (error.trouble, error.code) == (trouble, f"http_{status}")
    assert words in str(error)


def test_another_server_is_not_believed(world: World) -> None:
    """An answer without the header comes from a portal, a proxy or another cloud."""
    world.metadata.flavor = False
    error = identify_error(world)
    assert (error.trouble, error.technical) == ("changed", False)


def test_garbage_is_told(world: World) -> None:
    """What is no JSON is not guessed at."""
    world.metadata.garbage = True
    assert identify_error(world).code == "garbage"


def test_the_configuration_can_forbid_it(world: World) -> None:
    """No request leaves then."""
    world.settings["metadata"] = "never"
    assert identify_error(world).code == "metadata_never"
    assert world.metadata.requests == []


@pytest.mark.parametrize("given", ["https://127.0.0.1", "http://", "127.0.0.1:port"])
def test_a_nonsense_endpoint_is_told(world: World, given: str) -> None:
    """Before it becomes a strange network error."""
    world.settings["metadata_endpoint"] = given
    assert identify_error(world).code == "endpoint"


def test_an_id_that_changed_since_is_a_veto(world: World) -> None:
    """A restored image of a machine carries the agent's memory into another one."""
    session = world.open()
    world.machine.number += 1
    with pytest.raises(CloudError) as caught:
        session.facts("stop")
    assert (caught.value.trouble, caught.value.code) == ("changed", "not_this_machine")


def test_no_service_account_is_a_credential_trouble(tmp_path: pathlib.Path) -> None:
    """The words name the command that gives it one."""
    with world_of(Machine(account=False), tmp_path) as world:
        site = world.site()
        with pytest.raises(CloudError) as caught:
            PROVIDER.open(site, PROVIDER.identify(site))
    assert (caught.value.trouble, caught.value.code) == ("credentials", "credentials_missing")
    assert "set-service-account" in caught.value.hint


def test_quiet_times_have_no_notices(world: World) -> None:
    """A notice that is always there would stop everything."""
    assert PROVIDER.notices(world.site()) == ()


@pytest.mark.parametrize(
    ("event", "kind"),
    [("MIGRATE_ON_HOST_MAINTENANCE", "freeze"), ("TERMINATE_ON_HOST_MAINTENANCE", "stop"), ("NEW_KIND", "stop")],
)
def test_maintenance_is_announced(world: World, event: str, kind: str) -> None:
    """A kind that is not known yet is taken for the worst."""
    world.machine.maintenance = event
    (notice,) = PROVIDER.notices(world.site())
    assert (notice.kind, notice.at) == (kind, None)
    assert notice.id == f"maintenance-event:{event}"


def test_a_preemption_is_announced(world: World) -> None:
    """Both can come together; the preemption first."""
    world.machine.preempted, world.machine.maintenance = True, "TERMINATE_ON_HOST_MAINTENANCE"
    assert [notice.id.partition(":")[0] for notice in PROVIDER.notices(world.site())] == [
        "preempted",
        "maintenance-event",
    ]


def test_only_our_own_attributes_leave_the_metadata_server(world: World) -> None:
    """Others hold start-up scripts, keys and passwords."""
    world.machine.attributes.update(
        {"costguard": "off", "costguard-hold": "2026-12-01T00:00Z", "startup-script": "secret"}
    )
    assert PROVIDER.tags(world.site()) == {"costguard": "off", "costguard-hold": "2026-12-01T00:00Z"}


def test_absent_values_are_none(world: World) -> None:
    """404 is the normal answer for what is not there."""
    client = Metadata(world.site())
    assert client.text("instance/attributes/absent") is None
    assert client.tree("instance/absent/") == {}


def test_the_stand_in_waits_for_a_change(world: World) -> None:
    """The long poll of the real server: it answers when the value differs from the tag, or when time is up."""
    server, machine = world.metadata, world.machine
    first = server._answer(_asked("instance/preempted"))
    machine.preempted = True
    query = {"wait_for_change": "true", "last_etag": first.headers["ETag"], "timeout_sec": "5"}
    begun = time.monotonic()
    assert server._answer(_asked("instance/preempted", query)).body == b"TRUE"
    assert time.monotonic() - begun < 4.0  # of five
    assert server._answer(_asked("instance/preempted", {**query, "last_etag": "", "timeout_sec": "0"})).body == b"TRUE"


def test_the_stand_in_hides_tokens_in_recursive_answers(world: World) -> None:
    """As strict as the real one, in three ways."""
    assert "token" not in Metadata(world.site()).tree("instance/")["serviceAccounts"]["default"]
    assert world.metadata._answer(_asked("instance/", headers={})).status == 403
    assert world.metadata._answer(_asked("instance/", {"nonsense": "1"})).status == 400
    assert b"scheduling/" in world.metadata._answer(_asked("instance/")).body


def _asked(path: str, query: dict[str, str] | None = None, headers: dict[str, str] | None = None) -> Request:
    given = {"metadata-flavor": "Google"} if headers is None else headers
    return Request("GET", f"/computeMetadata/v1/{path}", query or {}, given, b"", 0.0, 1)


def test_prices_are_estimates_with_a_source(world: World) -> None:
    """Unknown stays unknown: a new type, a prepaid machine, and a market nobody knows; for Spot it is a limit."""
    who = PROVIDER.identify(world.site())
    price = PROVIDER.price(who)
    assert price is not None
    assert (price.amount, price.currency, price.region) == (0.853624, "USD", "us-central1")
    assert price.date.startswith("20")
    assert price.source
    assert PROVIDER.price(who._replace(market="spot")) == price._replace(kind="limit")
    assert PROVIDER.price(who._replace(market="reserved")) is None
    assert PROVIDER.price(who._replace(market="")) is None
    assert PROVIDER.price(who._replace(type="a4-highgpu-8g")) is None


@pytest.mark.parametrize(
    ("gpus", "amount"),
    [({"nvidia-tesla-t4": 1}, 0.729998), ({"nvidia-tesla-t4": 4}, None), ({"other": 1}, None), ({}, None)],
)
def test_the_price_of_an_n1_machine_counts_its_gpus(
    tmp_path: pathlib.Path, gpus: dict[str, int], amount: float | None
) -> None:
    """They do not stand in the type's name; the bus shows them. A price without them would be a lie."""
    with world_of(Machine(type="n1-standard-8", gpus=gpus), tmp_path) as world:
        price = PROVIDER.price(PROVIDER.identify(world.site()))
    assert (price.amount if price else None) == amount


def test_the_api_is_not_needed_for_any_of_this(world: World) -> None:
    """The cloud reader is resident and loads no SDK."""
    PROVIDER.identify(world.site())
    PROVIDER.notices(world.site())
    PROVIDER.tags(world.site())
    assert isinstance(world.api, ComputeApi)
    assert world.api.requests == []


def test_the_command_that_starts_it_again_names_this_machine(world: World) -> None:
    """As the gcloud CLI takes it."""
    command = start_command(PROVIDER, PROVIDER.identify(world.site()))
    assert command == "gcloud compute instances start trainer-1 --zone us-central1-a --project ml-project"


def test_a_machine_that_hibernates_is_resumed(world: World) -> None:
    """Compute Engine starts no suspended machine."""
    command = resume_command(PROVIDER, PROVIDER.identify(world.site()))
    assert command == "gcloud compute instances resume trainer-1 --zone us-central1-a --project ml-project"
