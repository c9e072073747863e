"""The way to the Resource Manager: certificates, tokens, clouds, and who may see a token."""

import time

import pytest

from costguard.cloud.api import CloudError, Identity, Ticket
from costguard_azure import Azure, resource
from costguard_azure.machine import AzureMachine
from costguard_azure.session import Credential
from costguard_azure.testing import FakeAzure


def identity(azure: FakeAzure, **details: str) -> Identity:
    who = Azure().identify(azure.site())
    return who._replace(details={**who.details, **details})


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_an_authority_of_ones_own(azure: FakeAzure, variable: str) -> None:
    """The usual variables name it."""
    site = azure.site()._replace(environ={variable: f"{azure.folder}/ca.pem"})
    machine = AzureMachine(site, identity(azure))
    assert machine.facts("stop").vm is not None
    machine.close()


def test_a_certificate_that_nobody_trusts(azure: FakeAzure) -> None:
    """Technical, soon, and no request gets through."""
    machine = AzureMachine(azure.site()._replace(environ={}), identity(azure))
    session = machine._session
    with pytest.raises(CloudError) as caught:
        session.get("/subscriptions", "2022-12-01", "asking")
    machine.close()
    assert caught.value.trouble == "unreachable"
    assert "certificate" in str(caught.value).lower()
    assert not [entry for entry in azure.log if entry.server == "arm"]


def test_a_token_is_never_sent_in_the_clear(azure: FakeAzure) -> None:
    """Plain http is for loopback alone: anything else is refused before it is sent."""
    machine = AzureMachine(azure.site(api_endpoint="http://management.example"), identity(azure))
    with pytest.raises(CloudError) as caught:
        machine._session.get("/subscriptions", "2022-12-01", "asking")
    machine.close()
    assert "non-TLS" in str(caught.value)


def test_plain_loopback_is_allowed(azure: FakeAzure) -> None:
    """There it cannot leave the machine: the request reaches whatever listens."""
    machine = AzureMachine(azure.site(api_endpoint=str(azure.settings["metadata_endpoint"])), identity(azure))
    with pytest.raises(CloudError):
        machine._session.get("/subscriptions", "2022-12-01", "asking")
    machine.close()
    assert azure.log[-1].path == "/subscriptions"


def test_a_token_is_kept_and_renewed(azure: FakeAzure) -> None:
    """One token for many requests; a new one some minutes before its end."""
    credential = Credential(azure.site(), "https://management.azure.com/")
    first = credential.get_token()
    assert credential.get_token() == first
    azure.world.token_seconds = 200.0
    credential.forget()
    short = credential.get_token()
    assert credential.get_token() != short
    assert len(azure.sent("token")) == 3


def test_an_old_token_that_works_beats_none(azure: FakeAzure) -> None:
    """The metadata service is away while a token has some minutes left."""
    azure.world.token_seconds = 200.0
    credential = Credential(azure.site(), "https://management.azure.com/")
    first = credential.get_token()
    azure.faults.add("token", "error", times=9, status=403, code="forbidden")
    assert credential.get_token() == first


def test_a_token_that_has_ended_already(azure: FakeAzure) -> None:
    """The clock of this machine is ahead: named as such."""
    azure.world.token_seconds = -3600.0
    with pytest.raises(CloudError) as caught:
        Credential(azure.site(), "https://management.azure.com/").get_token()
    assert caught.value.trouble == "clock"
    assert "timedatectl" in caught.value.hint


def test_a_token_that_was_revoked_is_replaced(azure: FakeAzure) -> None:
    """Continuous access evaluation: the cloud names claims, the old token is no use."""
    credential = Credential(azure.site(), "https://management.azure.com/")
    first = credential.get_token()
    assert credential.get_token(claims="{}") != first


def test_netrc_does_not_replace_the_token(azure: FakeAzure, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``default`` line there is for other programs."""
    path = f"{azure.folder}/netrc"
    with open(path, "w", encoding="ascii") as file:
        file.write("default login me password secret\n")
    monkeypatch.setenv("NETRC", path)
    machine = AzureMachine(azure.site(), identity(azure))
    assert machine.facts("stop").vm is not None
    machine.close()


def test_no_identity_is_found_when_the_session_opens(azure: FakeAzure) -> None:
    """During the countdown, not at its end."""
    azure.world.managed_identity = False
    with pytest.raises(CloudError) as caught:
        AzureMachine(azure.site(), identity(azure))
    assert caught.value.trouble == "credentials"


@pytest.mark.parametrize(
    ("environment", "audience"),
    [
        ("AzurePublicCloud", "https://management.azure.com/"),
        ("AzureUSGovernmentCloud", "https://management.core.usgovcloudapi.net/"),
        ("AzureChinaCloud", "https://management.chinacloudapi.cn/"),
    ],
)
def test_each_cloud_has_its_own_audience(azure: FakeAzure, environment: str, audience: str) -> None:
    """The SDK's own table says the same."""
    from azure.core import AzureClouds
    from azure.mgmt.core.tools import get_arm_endpoints

    azure.world.environment = environment
    machine = AzureMachine(azure.site(), identity(azure))
    machine.close()
    assert azure.log[-1].query["resource"] == audience
    theirs = {
        "AzurePublicCloud": AzureClouds.AZURE_PUBLIC_CLOUD,
        "AzureUSGovernmentCloud": AzureClouds.AZURE_US_GOVERNMENT,
        "AzureChinaCloud": AzureClouds.AZURE_CHINA_CLOUD,
    }[environment]
    known = get_arm_endpoints(theirs)
    assert known["resource_manager"].rstrip("/") == resource.CLOUDS[environment].endpoint
    assert known["credential_scopes"] == [f"{audience.rstrip('/')}/.default"]


def test_a_cloud_that_nobody_knows(azure: FakeAzure) -> None:
    """No guess where its Resource Manager could be."""
    with pytest.raises(CloudError, match="AzureMoonCloud"):
        AzureMachine(azure.site(), identity(azure, environment="AzureMoonCloud"))


@pytest.mark.parametrize(
    ("code", "trouble"), [("ExpiredAuthenticationToken", "credentials"), ("InvalidAuthenticationToken", "credentials")]
)
def test_tokens_that_are_not_taken(azure: FakeAzure, code: str, trouble: str) -> None:
    """Asked once more with a new token, then told."""
    machine = AzureMachine(azure.site(), identity(azure))
    azure.faults.add("get", "error", times=9, status=401, code=code)
    with pytest.raises(CloudError) as caught:
        machine.facts("stop")
    machine.close()
    assert (caught.value.trouble, caught.value.code) == (trouble, code)
    assert len(azure.sent("get")) == 2
    assert len(azure.sent("token")) == 2


def test_the_token_stands_in_no_words(azure: FakeAzure) -> None:
    """Neither in errors nor in outcomes."""
    machine = AzureMachine(azure.site(), identity(azure))
    azure.faults.add("deallocate", "error", status=400, code="InvalidParameter")
    outcome = machine.execute("stop", machine.facts("stop"), Ticket("i", "a", 5.0))
    machine.close()
    assert outcome.status == "refused"
    assert not [token for token in azure.world.tokens if token in repr(outcome)]


def test_facts_end_when_throttled_for_long(azure: FakeAzure) -> None:
    """A minute of Retry-After is not slept through: told as throttled, at once."""
    machine = AzureMachine(azure.site(), identity(azure))
    azure.faults.add("get", "throttle", times=9, seconds=60)
    began = time.monotonic()
    with pytest.raises(CloudError) as caught:
        machine.facts("stop")
    machine.close()
    assert caught.value.trouble == "throttled"
    assert time.monotonic() - began < 2.0
