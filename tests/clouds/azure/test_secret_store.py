"""Addresses in a key vault: read once with the machine's managed identity, and said nowhere."""

import json
from pathlib import Path

import pytest

from costguard.cloud.api import CloudError, Identity, Site
from costguard_azure import PROVIDER, secret_store
from costguard_azure.secret_store import SecretStore
from costguard_azure.testing import FakeAzure
from tests.clouds.telling import CANARY, NO_PLACE, DeliveryResult, chat, tell

PAGE = Path(__file__).parents[3] / "docs" / "clouds-azure.md"
NAME = "vault-1/team"


def read(azure: FakeAzure, name: str = NAME, within: float = 8.0) -> str:
    site = azure.site(store_endpoint=azure.vault_url)
    return PROVIDER.secret_store.read(site, PROVIDER.identify(site), name, within)


def refused(azure: FakeAzure, name: str = NAME, within: float = 8.0) -> CloudError:
    with pytest.raises(CloudError) as caught:
        read(azure, name, within)
    assert CANARY not in f"{caught.value} {caught.value.hint}"
    return caught.value


def told(azure: FakeAzure, **channels: str) -> DeliveryResult:
    cloud = {"metadata_endpoint": azure.settings["metadata_endpoint"], "azure": {"store_endpoint": azure.vault_url}}
    return tell(channels, ["azure=costguard_azure"], cloud, azure.folder, environ=azure.environ)


def test_a_message_goes_to_the_addresses_of_a_secret(azure: FakeAzure) -> None:
    """Two channels with the same secret ask once."""
    with chat() as service:
        azure.world.secrets["team"] = f"# the team's\n{service.address}\n"
        done = told(azure, team=f"secret:{NAME}", pager=f"secret:{NAME}", lost="secret:vault-1/none")
        assert dict(done.reached) == {"team": "JSON", "pager": "JSON"}
        assert len(service.asked) == 2
    assert "it has no secret none" in done.failed["lost"]
    assert sorted(entry.status for entry in azure.sent("secret")) == [200, 404]


@pytest.mark.parametrize("environment", secret_store.SUFFIXES)
def test_each_cloud_has_its_own_audience(azure: FakeAzure, environment: str) -> None:
    """A token for another one is refused; the address follows the cloud, too."""
    azure.world.environment = environment
    azure.world.secrets["team"] = "json://h"
    assert read(azure) == "json://h"
    who = Identity("Azure", "i", "r", "", "", "", {"environment": environment}, ())
    where = secret_store._where(Site({}, {}, {}), who, "Vault-1/team")
    assert where.url == f"https://vault-1.{secret_store.SUFFIXES[environment]}/secrets/team"


def test_refusals_have_their_commands(azure: FakeAzure) -> None:
    """A right that is missing, an identity that is, a name that nobody has."""
    azure.world.secrets["team"] = NO_PLACE
    azure.world.reads_secrets = False
    assert f"costguard permissions azure --secret {NAME}" in refused(azure).hint
    azure.world.managed_identity = False
    error = refused(azure)
    assert (error.trouble, "az vm identity assign" in error.hint) == ("credentials", True)


@pytest.mark.parametrize(
    ("kind", "trouble"),
    [
        ("throttle", "throttled"), ("error", "internal"), ("cut_before", "unreachable"), ("garbage", "internal"),
        ("drip", "unreachable"),
    ],
)  # fmt: skip
def test_troubles_end_in_time_and_quote_nothing(azure: FakeAzure, kind: str, trouble: str) -> None:
    """Also where the service itself writes the secret into its error."""
    azure.world.secrets["team"] = NO_PLACE
    azure.faults.add("secret", kind, times=9, status=500, code="InternalError")  # type: ignore[arg-type]  # the tests spell the kinds
    error = refused(azure, within=1.6)
    assert (error.trouble, bool(error.hint)) == (trouble, True), f"{error}"


def test_what_passes_is_tried_again(azure: FakeAzure) -> None:
    """A busy vault keeps nobody from being warned."""
    azure.world.secrets["team"] = "json://h"
    azure.faults.add("secret", "throttle")
    azure.faults.add("secret", "cut_before")
    assert read(azure) == "json://h"


def test_a_vault_that_hangs_is_given_up(azure: FakeAzure) -> None:
    """In time."""
    azure.world.secrets["team"] = NO_PLACE
    azure.faults.add("secret", "slow", seconds=1.5)
    assert refused(azure, within=0.8).trouble == "unreachable"


def test_a_token_never_crosses_plain_http(azure: FakeAzure) -> None:
    """Beyond loopback, and nothing goes to a cloud that nobody knows."""
    site = azure.site(store_endpoint="http://vault.example.org")
    with pytest.raises(CloudError, match="not encrypted"):
        PROVIDER.secret_store.read(site, PROVIDER.identify(site), NAME, 5.0)
    who = PROVIDER.identify(azure.site())._replace(details={"environment": "AzureMoonCloud"})
    with pytest.raises(CloudError, match="does not know the Azure cloud AzureMoonCloud"):
        PROVIDER.secret_store.read(azure.site(), who, NAME, 5.0)


def test_the_right_is_assigned_on_one_secret() -> None:
    """And is no part of an action's role; the commands are on the page."""
    store = SecretStore()
    assert "KeyVault" not in PROVIDER.policy(("stop",), tag=True)
    role = json.loads(store.policy(NAME))
    assert (role["DataActions"], role["Actions"]) == (["Microsoft.KeyVault/vaults/secrets/getSecret/action"], [])
    page = PAGE.read_text(encoding="utf-8")
    assert store.commands("VAULT/SECRET") in page
    assert f"`{role['DataActions'][0]}`" in page


@pytest.mark.parametrize(
    "name", ["", "team", "a/b", "v1/te am", "vault-1/team\n", "vault-1/a/b", "1vault/team", "vault_1/team"]
)
def test_what_is_no_name(name: str) -> None:
    """It is never sent."""
    assert not SecretStore().valid(name)
