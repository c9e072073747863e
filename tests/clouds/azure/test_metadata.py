"""The metadata service: what it takes, what it refuses, and how each trouble is told."""

import json
import socket
import time

import pytest

from costguard.cloud.api import CloudError, Site
from costguard_azure import Azure, metadata
from costguard_azure.testing import FakeAzure
from tests.clouds.wire import answer, bytewise, speaking


def failed(site: Site) -> CloudError:
    with pytest.raises(CloudError) as caught:
        metadata.compute(site)
    return caught.value


def test_every_request_is_as_the_service_wants_it(azure: FakeAzure) -> None:
    """Its header, its version, nothing of a proxy."""
    metadata.compute(azure.site())
    metadata.token(azure.site(), "https://management.azure.com/")
    assert [entry.status for entry in azure.log] == [200, 200]
    assert all(entry.headers["metadata"] == "true" for entry in azure.log)
    assert not any("x-forwarded-for" in entry.headers for entry in azure.log)


def test_a_proxy_of_the_environment_is_not_used(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address belongs to the machine's own host."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert metadata.compute(azure.site())["vmId"] == azure.world.vm_id


def test_throttling_is_waited_for(azure: FakeAzure) -> None:
    """429 twice: asked again, more slowly."""
    azure.faults.add("instance", "throttle", times=2, seconds=0.1)
    began = time.monotonic()
    metadata.compute(azure.site())
    assert [entry.status for entry in azure.log] == [429, 429, 200]
    assert time.monotonic() - began >= 0.2


def test_a_service_that_is_being_updated(azure: FakeAzure) -> None:
    """410 for a token goes away."""
    azure.faults.add("token", "error", times=2, status=410, code="Gone")
    assert metadata.token(azure.site(), "https://management.azure.com/")[0] in azure.world.tokens


@pytest.mark.parametrize(
    ("status", "trouble", "words"),
    [
        (400, "internal", "X-Forwarded-For"),
        (401, "denied", "security rules"),
        (403, "denied", "security rules"),
        (404, "gone", "no such metadata"),
        (302, "internal", "redirect"),
        (418, "internal", "418"),
    ],
)
def test_each_answer_has_its_own_words(azure: FakeAzure, status: int, trouble: str, words: str) -> None:
    """Asked once: none of them gets better by asking again."""
    azure.faults.add("instance", "error", status=status, code="words")
    error = failed(azure.site())
    assert error.trouble == trouble
    assert words in f"{error} {error.hint}"
    assert len(azure.log) == 1


def test_throttled_for_good(azure: FakeAzure) -> None:
    """Another program asks all the time."""
    azure.faults.add("instance", "throttle", times=99, seconds=1.5)
    error = failed(azure.site())
    assert (error.trouble, error.code) == ("throttled", "429")


@pytest.mark.parametrize("kind", ["garbage", "error"])
def test_somebody_else_answers(azure: FakeAzure, kind: str) -> None:
    """A hotel's page is not Azure."""
    if kind == "garbage":
        azure.faults.add("instance", "garbage")
        assert failed(azure.site()).code == "garbage"
    else:
        azure.faults.add("instance", "error", status=200, code="no document")
        assert failed(azure.site()).code == "garbage"


def test_the_connection_is_cut(azure: FakeAzure) -> None:
    """Once is tried again."""
    azure.faults.add("instance", "cut_before")
    assert metadata.compute(azure.site())["vmId"] == azure.world.vm_id


def test_switched_off_and_hop_limit_are_told_apart(azure: FakeAzure) -> None:
    """Nothing listens, or nothing answers: two messages, both with what to do in a container."""
    with socket.socket() as taken, socket.socket() as silent:
        taken.bind(("127.0.0.1", 0))
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        off = failed(azure.site(metadata_endpoint=f"http://127.0.0.1:{taken.getsockname()[1]}"))
        quiet = failed(azure.site(metadata_endpoint=f"http://127.0.0.1:{silent.getsockname()[1]}"))
    assert (off.code, quiet.code) == ("connection refused", "timeout")
    assert "switched off" in str(off)
    assert "container" in off.hint
    assert "container" in quiet.hint
    assert off.technical
    assert quiet.technical


def test_the_identity_is_missing(azure: FakeAzure) -> None:
    """400 Identity not found: with the command that gives the machine one."""
    azure.world.managed_identity = False
    with pytest.raises(CloudError) as caught:
        metadata.token(azure.site(), "https://management.azure.com/")
    assert caught.value.trouble == "credentials"
    assert "az vm identity assign" in caught.value.hint
    assert len(azure.log) == 1


def test_one_of_several_identities(azure: FakeAzure) -> None:
    """The configured client id is asked for; a wrong one is named."""
    metadata.token(azure.site(identity=azure.world.client_id), "https://management.azure.com/")
    assert azure.log[-1].query["client_id"] == azure.world.client_id
    with pytest.raises(CloudError, match="bbbb"):
        metadata.token(azure.site(identity="bbbb"), "https://management.azure.com/")


def test_where_it_is_asked() -> None:
    """The configuration, then the environment, then the cloud's own address; tokens have azure-identity's variable."""
    base = Site({}, {}, {})
    own = base._replace(environ={"COSTGUARD_AZURE_METADATA_ENDPOINT": "http://env"})
    pod = base._replace(environ={"AZURE_POD_IDENTITY_AUTHORITY_HOST": "http://pod"})
    both = own._replace(settings={"metadata_endpoint": "http://config"})
    asked = [metadata.endpoint(site) for site in (base, own, pod, both)]
    tokens = [metadata.token_endpoint(site) for site in (base, own, pod, both)]
    assert asked == [metadata.DEFAULT, "http://env", metadata.DEFAULT, "http://config"]
    assert tokens == [metadata.DEFAULT, "http://env", "http://pod", "http://config"]


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1:1", "http://127.0.0.1:99999", "http://", "127.0.0.1", "http://[::1"]
)
def test_an_address_that_is_none(azure: FakeAzure, address: str) -> None:
    """Said before anything is asked."""
    error = failed(azure.site(metadata_endpoint=address))
    assert error.trouble == "refused"
    assert "http://" in error.hint
    assert azure.log == []


def test_tags(azure: FakeAzure) -> None:
    """As they are, semicolons and all."""
    azure.world.tags = {"costguard": "off", "note": "a;b:c", "empty": ""}
    assert Azure().tags(azure.site()) == azure.world.tags


def test_a_number_is_read_as_its_text(azure: FakeAzure) -> None:
    """Every scalar is text by the book; a disk's size that is a number is not taken for unknown."""
    part = metadata.compute(azure.site())
    part["storageProfile"]["resourceDisk"]["size"] = 16777216
    body = json.dumps({"compute": part}).encode()
    with speaking([answer(body)]) as url:
        who = Azure().identify(azure.site(metadata_endpoint=url))
    assert who.details["temp_disk_kb"] == "16777216"


def test_a_slow_answer_is_a_time_out(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then would hold the worker without an end."""
    monkeypatch.setattr(metadata, "BUDGET_SECONDS", 1.0)
    with speaking(bytewise(answer(b"{}" + b" " * 100)), gap=0.1) as url:
        error = failed(azure.site(metadata_endpoint=url))
    assert (error.trouble, error.code) == ("unreachable", "timeout")


def test_a_cut_answer_is_asked_for_again(azure: FakeAzure) -> None:
    """The beginning of a document is none."""
    whole = json.dumps({"compute": metadata.compute(azure.site())}).encode()
    with speaking([answer(whole, missing=9)], [answer(whole)]) as url:
        assert metadata.compute(azure.site(metadata_endpoint=url))["vmId"] == azure.world.vm_id


def test_a_token_service_that_is_not_there_yet(azure: FakeAzure) -> None:
    """404 is what it answers while it is updated; for good it is a trouble of credentials, not a veto."""
    azure.faults.add("token", "error", times=2, status=404, code="not_found")
    assert metadata.token(azure.site(), "https://management.azure.com/")[0] in azure.world.tokens


def test_a_token_whose_end_is_a_date(azure: FakeAzure) -> None:
    """The seconds beside it say the same."""
    body = b'{"access_token": "t", "expires_on": "11/21/2026 10:00:00 PM +00:00", "expires_in": "3600"}'
    with speaking([answer(body)]) as url:
        _, ends = metadata.token(azure.site(metadata_endpoint=url), "https://management.azure.com/")
    assert 3500 < ends - time.time() <= 3600


def test_the_tokens_may_come_from_elsewhere(azure: FakeAzure) -> None:
    """azure-identity's own variable is about tokens alone, so it wins for them."""
    with speaking([answer(b'{"access_token": "elsewhere", "expires_on": "9999999999"}')]) as url:
        site = azure.site()._replace(environ={"AZURE_POD_IDENTITY_AUTHORITY_HOST": url})
        assert metadata.token(site, "https://management.azure.com/")[0] == "elsewhere"
