"""Credentials: found, missing, broken; and where the SDK may not look."""

import json
from collections.abc import Callable

import pytest

from costguard.cloud.api import CloudError
from costguard_aws import PROVIDER
from costguard_aws.session import Session
from costguard_aws.testing import FakeMachine
from costguard_aws.testing.machine import ROLE
from tests.clouds.aws.conftest import opened

ROLES = f"meta-data/iam/security-credentials/{ROLE}"


def error_of(ask: Callable[[], object]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        ask()
    assert caught.value.hint
    return caught.value


def change(here: FakeMachine, **values: str) -> None:
    here.imds.values[ROLES] = json.dumps({**json.loads(here.imds.values[ROLES]), **values})


def test_the_instance_role(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the metadata service, past every proxy of the environment."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")  # the API may have a proxy; this one has none
    with opened(here) as session:
        assert session.facts("stop").permitted is True
    assert ROLES in here.imds.paths()


def test_credentials_of_the_environment_come_first(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own order."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOWN")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own")
    with opened(here) as session:
        assert session.facts("stop").permitted is True
    assert ROLES not in here.imds.paths()


def test_no_role(here: FakeMachine) -> None:
    """Named, with what to attach."""
    del here.imds.values[ROLES]
    error = error_of(lambda: opened(here).__enter__())
    assert (error.trouble, error.code) == ("credentials", "credentials_missing")
    assert "instance profile" in error.hint


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"Code": "AssumeRoleUnauthorizedAccess"}, "AssumeRoleUnauthorizedAccess"),
        ({"Expiration": "soon"}, "credentials_garbage"),
    ],
)
def test_a_role_that_gives_nothing(here: FakeMachine, values: dict[str, str], code: str) -> None:
    """The metadata service's own word for it."""
    change(here, **values)
    error = error_of(lambda: opened(here).__enter__())
    assert (error.trouble, error.code) == ("credentials", code)


def test_old_credentials_are_left_to_aws(here: FakeMachine) -> None:
    """The service sometimes hands out old ones that AWS still takes; whether it does, AWS says."""
    change(here, Expiration="2020-01-01T00:00:00Z")
    with opened(here) as session:
        assert session.facts("stop").permitted is True
        here.api.fail("expired", "*", 100)
        error = error_of(lambda: session.facts("stop"))
    assert (error.trouble, error.code) == ("credentials", "credentials_expired")
    assert "expired" in str(error)


def test_a_session_outlives_its_role(here: FakeMachine) -> None:
    """A renewal that fails before the end of the credentials is tried again; until then they serve."""
    change(here, Expiration="2020-01-01T00:00:00Z")
    with opened(here) as session:
        here.imds.off = True
        assert session.facts("stop").permitted is True


def test_off_ec2_no_metadata_address_is_asked(here: FakeMachine) -> None:
    """On a laptop that verifies a receipt, the address of the platform belongs to nobody, or to somebody else."""
    site = here.site()._replace(dmi={"sys_vendor": "LENOVO"}, settings={"api_endpoint": here.api.url})
    error = error_of(lambda: Session(site, "us-east-1"))
    assert error.code == "credentials_missing"
    assert "aws configure" in error.hint
    assert "aws sso login" in error.hint


def test_a_region_that_is_none(here: FakeMachine) -> None:
    """Whatever the SDK makes of it becomes a CloudError."""
    site = here.site(api_endpoint="")
    assert error_of(lambda: Session(site, "no region")).trouble == "internal"


def test_endpoints_of_the_environment(here: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own overrides hold where costguard's setting is empty."""
    for name, value in here.environ().items():
        monkeypatch.setenv(name, value)
    site = here.site()._replace(settings={}, environ=here.environ())
    machine = PROVIDER.open(site, PROVIDER.identify(site))
    try:
        assert machine.facts("stop").permitted is True
    finally:
        machine.close()  # type: ignore[attr-defined]  # of this plug-in
