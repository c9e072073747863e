"""Addresses in Google Secret Manager: read once with the machine's own account, and said nowhere."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.cloud.api import CloudError
from costguard.testing.web import Answer
from costguard_gcp import PROVIDER
from costguard_gcp.secret_store import SecretStore
from costguard_gcp.testing import SecretApi
from costguard_gcp.testing.secret_store import BUSY, DENIED, DISABLED, NO_VERSION, Refusal
from tests.clouds.gcp.conftest import World
from tests.clouds.telling import CANARY, NO_PLACE, DeliveryResult, chat, tell

PAGE = Path(__file__).parents[3] / "docs" / "clouds-gcp.md"
TEAM = "projects/ml-project/secrets/team"
PROXY = Answer(403, b"<html>c4n4ry0f7h3s70r3</html>")


@pytest.fixture
def store(world: World) -> Iterator[SecretApi]:
    with SecretApi(world.machine) as api:
        world.settings["store_endpoint"] = api.url
        yield api


def read(world: World, name: str = "team", within: float = 8.0) -> str:
    site = world.site()
    return PROVIDER.secret_store.read(site, PROVIDER.identify(site), name, within)


def refused(world: World, name: str = "team", within: float = 8.0) -> CloudError:
    with pytest.raises(CloudError) as caught:
        read(world, name, within)
    assert CANARY not in f"{caught.value} {caught.value.hint}"
    return caught.value


def told(world: World, store: SecretApi, **channels: str) -> DeliveryResult:
    site = world.site()
    cloud = {
        "metadata_endpoint": world.metadata.url,
        "api_endpoint": world.api.url,
        "gcp": {"store_endpoint": store.url},
    }
    root = site.procfs.removesuffix("/proc")
    return tell(channels, ["gcp=costguard_gcp"], cloud, root, environ={}, sysfs=site.sysfs)


def test_a_message_goes_to_the_addresses_of_a_secret(world: World, store: SecretApi) -> None:
    """Two channels with the same secret ask once."""
    with chat() as service:
        store.secrets[TEAM] = f"# the team's\n{service.address}\n"
        done = told(world, store, team="secret:team", pager="secret:team", lost="secret:none")
        assert dict(done.reached) == {"team": "JSON", "pager": "JSON"}
        assert len(service.asked) == 2
    assert "there is no such secret" in done.failed["lost"]
    assert sorted(request.status for request in store.requests) == [200, 404]


def test_a_secret_of_another_project_has_its_whole_name(world: World, store: SecretApi) -> None:
    """Without one it is of the machine's own."""
    store.secrets |= {TEAM: "own", "projects/shared/secrets/team": "other"}
    assert (read(world), read(world, "projects/shared/secrets/team")) == ("own", "other")


@pytest.mark.parametrize(
    ("said", "trouble", "hint"),
    [
        (DENIED, "denied", "costguard permissions gcp --secret team"),
        (DISABLED, "denied", "gcloud services enable secretmanager.googleapis.com"),
        (NO_VERSION, "refused", "gcloud secrets versions list team"),
        (BUSY, "throttled", "run it again"),
        (Refusal(500, "INTERNAL", f"while handling {NO_PLACE}"), "internal", "run it again"),
        (Refusal(401, "UNAUTHENTICATED", "invalid"), "credentials", "service account"),
        (PROXY, "unreachable", "NO_PROXY"),
        (Answer(200, b"<html>c4n4ry0f7h3s70r3</html>"), "unreachable", "NO_PROXY"),
        (Answer(200, b'{"payload": {"data": "c4n4ry0f7h3s70r3"}}'), "refused", "plain text"),
        (Answer(200, b'{"payload": "c4n4ry0f7h3s70r3"}'), "internal", "cloud.api_endpoint"),
        (Answer(302, b"", {"Location": "http://127.0.0.1:9/"}), "unreachable", "NO_PROXY"),
        (Answer(0, cut=True), "unreachable", "firewall"),
        (Answer(200, b"{" * 9, drips=True), "unreachable", "firewall"),
    ],
)  # fmt: skip
def test_troubles_have_words_and_quote_nothing(
    world: World, store: SecretApi, said: Refusal | Answer, trouble: str, hint: str
) -> None:
    """Also where the service itself writes the secret into its error."""
    store.secrets[TEAM] = NO_PLACE
    store.said += [said] * 9
    error = refused(world, within=1.6)
    assert (error.trouble, hint in error.hint) == (trouble, True), f"{error} | {error.hint}"


def test_what_passes_is_tried_again(world: World, store: SecretApi) -> None:
    """A busy service keeps nobody from being warned."""
    store.secrets[TEAM] = "json://h"
    store.said += [BUSY, Answer(0, cut=True)]
    assert read(world) == "json://h"


def test_an_endpoint_that_hangs_is_given_up(world: World, store: SecretApi) -> None:
    """In time."""
    store.silent = 1.5
    assert refused(world, within=0.8).trouble == "unreachable"


def test_a_machine_without_account_or_scope(world: World, store: SecretApi) -> None:
    """Each has its command; the scope for Compute Engine is not enough."""
    world.machine.scopes = ("https://www.googleapis.com/auth/compute",)
    assert "--scopes=cloud-platform" in refused(world).hint
    world.machine.account = False
    assert (refused(world).trouble, store.secrets) == ("credentials", {})


def test_a_token_never_crosses_plain_http(world: World) -> None:
    """Beyond loopback."""
    world.settings["store_endpoint"] = "http://secrets.example.org"
    assert "not encrypted" in str(refused(world))


def test_the_right_is_bound_to_one_secret() -> None:
    """And is no part of an action's role; the commands are on the page."""
    store = SecretStore()
    assert "secretmanager" not in PROVIDER.policy(("stop",), tag=True)
    assert "- secretmanager.versions.access\n" in store.policy("team")
    (binding,) = [line for line in store.commands("projects/p/secrets/team").splitlines() if "add-iam" in line]
    assert binding.startswith("gcloud secrets add-iam-policy-binding team --project=p ")
    page = PAGE.read_text(encoding="utf-8")
    assert "`secretmanager.versions.access`" in page
    assert store.commands("SECRET").replace("SECRET", "NAME", 1).splitlines()[1] in page


@pytest.mark.parametrize(
    "name", ["", "a b", "team\n", "a/b", "../x", "projects/p/secrets/", "projects/p/x/team", "x" * 256]
)
def test_what_is_no_name(name: str) -> None:
    """It is never sent."""
    assert not SecretStore().valid(name)
