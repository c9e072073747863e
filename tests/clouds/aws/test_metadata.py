"""The client of the metadata service, against a strict one."""

import socket
import time
from collections.abc import Callable, Mapping

import pytest

from costguard.cloud.api import CloudError, Site
from costguard_aws import metadata
from costguard_aws.metadata import Imds as Client
from costguard_aws.testing import Imds

NITRO = {"sys_vendor": "Amazon EC2"}


def client(imds: Imds) -> Client:
    return Client(imds.url, timeout=0.2)


def trouble(ask: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(CloudError) as caught:
        ask()
    assert caught.value.hint
    return caught.value.trouble, caught.value.code


def test_one_token_serves_many_questions(imds: Imds) -> None:
    """A poll must not cost a token each time."""
    imds.values["meta-data/instance-id"] = "i-1"
    asker = client(imds)
    assert [asker.text("meta-data/instance-id") for _ in range(3)] == ["i-1"] * 3
    assert imds.paths("PUT") == ["api/token"]


def test_a_lost_token_is_renewed_once(imds: Imds) -> None:
    """After a suspension the service has forgotten it; nobody is bothered with that."""
    imds.values["x"] = "1"
    asker = client(imds)
    asker.text("x")
    imds.expire_tokens()
    assert asker.text("x") == "1"
    assert [asked.status for asked in imds.log] == [200, 200, 401, 200, 200]


def test_what_is_absent_is_none(imds: Imds) -> None:
    """404 is the normal answer where nothing is announced."""
    assert client(imds).text("meta-data/spot/instance-action") is None
    assert client(imds).json("meta-data/spot/instance-action") is None


def test_a_busy_service_is_asked_again(imds: Imds) -> None:
    """Two refusals for being busy cost a little time, no answer."""
    imds.values["x"] = "1"
    imds.busy = 2
    assert client(imds).text("x") == "1"


def switched_off(imds: Imds) -> None:
    imds.off = True


def hop_limit(imds: Imds) -> None:
    imds.token_lost = True


def silent(imds: Imds) -> None:
    imds.silent = True


def throttled(imds: Imds) -> None:
    imds.busy = 100


def proxied(imds: Imds) -> None:
    imds.off = imds.proxied = True


def binary(imds: Imds) -> None:
    imds.garbage["x"] = b"\xff\xfe"


def endless(imds: Imds) -> None:
    imds.garbage["x"] = b"1" * 300_000


@pytest.mark.parametrize(
    ("break_it", "expected"),
    [
        (switched_off, ("unreachable", "imds_off")),
        (hop_limit, ("unreachable", "imds_hop_limit")),
        (silent, ("unreachable", "imds_no_answer")),
        (throttled, ("throttled", "imds_throttled")),
        (proxied, ("unreachable", "imds_proxy")),
        (binary, ("internal", "imds_garbage")),
        (endless, ("internal", "imds_garbage")),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_trouble_has_its_own_words(
    imds: Imds, break_it: Callable[[Imds], None], expected: tuple[str, str]
) -> None:
    """A person must be able to tell a switched-off service from a container, a proxy or a busy one."""
    break_it(imds)
    assert trouble(lambda: client(imds).text("x")) == expected


def test_text_that_is_no_json_is_no_answer(imds: Imds) -> None:
    """Never half a document."""
    imds.values["x"] = '{"instanceId": "i-'
    assert trouble(lambda: client(imds).json("x")) == ("internal", "imds_garbage")


def test_nobody_there() -> None:
    """A refused connection is not a time-out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert trouble(lambda: Client(url).text("x")) == ("unreachable", "imds_absent")


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1", "169.254.169.254", "ftp://x", "http://"])
def test_an_endpoint_that_is_none(endpoint: str) -> None:
    """Said before anything is sent."""
    assert trouble(lambda: Client(endpoint)) == ("unreachable", "imds_endpoint")


@pytest.mark.parametrize(
    ("settings", "environ", "expected"),
    [
        ({}, {}, "http://169.254.169.254"),
        ({}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE": "IPv6"}, "http://[fd00:ec2::254]"),
        ({}, {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"}, "http://127.0.0.1:1"),
        (
            {"metadata_endpoint": "http://127.0.0.2"},
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://x"},
            "http://127.0.0.2",
        ),
        ({"metadata_endpoint": "http://127.0.0.2"}, {"AWS_EC2_METADATA_DISABLED": "true"}, "http://127.0.0.2"),
    ],
)
def test_where_it_asks(settings: Mapping[str, object], environ: Mapping[str, str], expected: str) -> None:
    """The own setting, then the SDK's overrides, then the address of the platform."""
    assert metadata.of(Site(NITRO, settings, environ)).endpoint == expected


@pytest.mark.parametrize(
    ("settings", "environ"), [({"metadata": "never"}, {}), ({}, {"AWS_EC2_METADATA_DISABLED": "TRUE"})]
)
def test_switched_off_by_the_owner(settings: Mapping[str, object], environ: Mapping[str, str]) -> None:
    """Then nothing is sent at all."""
    assert trouble(lambda: metadata.of(Site(NITRO, settings, environ))) == ("unreachable", "imds_off")


def test_no_proxy_of_the_environment_is_used(imds: Imds, monkeypatch: pytest.MonkeyPatch) -> None:
    """A corporate proxy would answer for another machine."""
    imds.values["x"] = "1"
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert client(imds).text("x") == "1"


def test_a_redirect_is_not_followed(imds: Imds) -> None:
    """The answer of another address is not this machine's."""
    imds.redirect = "http://127.0.0.1:9/"
    assert trouble(lambda: client(imds).text("x")) == ("internal", "imds_garbage")


def test_tags(imds: Imds) -> None:
    """Where the instance shows them; a key with signs is asked for as one name."""
    assert client(imds).tags() == {}
    imds.values |= {"meta-data/tags/instance/costguard": "off", "meta-data/tags/instance/team": "vision lab"}
    assert client(imds).tags() == {"costguard": "off", "team": "vision lab"}


def test_an_answer_that_drips_ends_in_time(imds: Imds) -> None:
    """Each byte comes within the time-out and the whole never does: nobody waits for it."""
    imds.values["x"] = "v" * 100
    imds.drip = 0.1
    begin = time.monotonic()
    assert trouble(lambda: client(imds).text("x")) == ("unreachable", "imds_slow")
    assert time.monotonic() - begin < 3.0


@pytest.mark.parametrize("cut", [1, 10])
def test_half_an_answer_is_none(imds: Imds, cut: int) -> None:
    """A connection that broke in the middle of an id must not name another machine."""
    imds.values["meta-data/instance-id"] = "i-0123456789abcdef0"
    asker = client(imds)
    asker.text("meta-data/instance-id")
    imds.cut = cut
    assert trouble(lambda: asker.text("meta-data/instance-id")) == ("unreachable", "imds_broken")


def test_a_token_with_the_end_of_a_line(imds: Imds) -> None:
    """Some services in its place write one."""
    imds.values["x"] = "1"
    imds.token_end = "\n"
    assert client(imds).text("x") == "1"


def test_an_address_with_a_path(imds: Imds) -> None:
    """The SDK takes one too: a service that forwards to this one keeps it below a folder."""
    imds.prefix = "/for/i-1"
    imds.values["x"] = "1"
    assert Client(imds.url + "/for/i-1/", timeout=0.2).text("x") == "1"
    assert trouble(lambda: client(imds).text("x")) == ("internal", "imds_garbage")
