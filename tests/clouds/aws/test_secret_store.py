"""Addresses in AWS Secrets Manager: read once with the instance's own role, by the real SDK, and said nowhere."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from costguard.cloud.api import CloudError
from costguard_aws import PROVIDER
from costguard_aws.secret_store import SecretStore
from costguard_aws.testing import FakeMachine, Kept
from tests.clouds.aws.conftest import Launch
from tests.clouds.telling import CANARY, NO_PLACE, DeliveryResult, chat, tell

PAGE = Path(__file__).parents[3] / "docs" / "clouds-aws.md"
ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:team-a1B2c3"
DENIED = ("AccessDeniedException", "User: arn:… is not authorized to perform it on resource: team")
KMS = ("AccessDeniedException", "Access to KMS is not allowed")
DELETED = ("InvalidRequestException", "You can't perform this operation: it was marked for deletion.")
MARKED = "this operation: it was marked for deletion"


def read(here: FakeMachine, name: str, within: float = 8.0) -> str:
    site = here.site()
    return PROVIDER.secret_store.read(site, PROVIDER.identify(site), name, within)


def refused(here: FakeMachine, name: str = "team", within: float = 8.0) -> CloudError:
    with pytest.raises(CloudError) as caught:
        read(here, name, within)
    assert CANARY not in f"{caught.value} {caught.value.hint}"
    return caught.value


def told(here: FakeMachine, **channels: str) -> DeliveryResult:
    return tell(channels, ["aws=costguard_aws"], {}, here.root, environ=here.environ())


def test_a_message_goes_to_the_addresses_of_a_secret(here: FakeMachine) -> None:
    """Two channels with the same secret ask once; a channel beside them needs none."""
    with chat() as service:
        here.api.secrets["prod/team"] = Kept("us-east-1", f"# the team's\n{service.address}\n")
        done = told(here, team="secret:prod/team", pager="secret:prod/team", other="env:CHAT")
        assert dict(done.reached) == {"team": "JSON", "pager": "JSON"}
        assert len(service.asked) == 2
    assert "CHAT is not set" in done.failed["other"]
    assert [request.answered for request in here.api.log if request.action == "GetSecretValue"] == [200]


def test_the_installed_command_says_what_came_of_it(here: FakeMachine, tmp_path: Path) -> None:
    """`notify test` names the cause for each channel, `doctor` and `config show` the reference; nobody the secret, no file either."""
    here.api.secrets["denied"] = Kept("us-east-1", NO_PLACE, DENIED)
    file = tmp_path / "config.toml"
    tables = "".join(f'[notify.channels.{name}]\nurls = "secret:{name}"\n' for name in ("team", "denied"))
    file.write_text(f'[notify]\nlocal = []\n{tables}[host]\nsysfs = "{here.root}/sys"\nprocfs = "{here.root}/proc"\n')
    given = ["--config", str(file)]

    def run(*typed: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "costguard", *typed, *given],
            capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **here.environ()},
        )  # fmt: skip
        return done.stdout + done.stderr

    with chat() as service:
        here.api.secrets["team"] = Kept("us-east-1", service.address)
        state = ("--state-dir", str(tmp_path / "state"))
        said = [run("notify", "test", *state), run("config", "show"), run("doctor", *state)]
        assert len(service.asked) == 1
    assert "ok      team" in said[0]
    assert (
        "FAILED  denied  the secret denied cannot be read: AWS Secrets Manager in us-east-1: AWS denies it" in said[0]
    )
    assert 'urls = "secret:team"' in said[1]
    assert "team: took a test on" in said[2]
    assert CANARY not in "".join(said)
    assert not any(CANARY.encode() in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (Kept("us-east-1", NO_PLACE, DENIED), "costguard permissions aws --secret team"),
        (Kept("us-east-1", NO_PLACE, KMS), "kms:Decrypt"),
        (Kept("us-east-1", NO_PLACE, DELETED), MARKED),
        (Kept("eu-west-1", NO_PLACE), "one of another region needs its whole ARN"),
        (Kept("us-east-1", NO_PLACE, binary=True), "as bytes, not as text"),
        (Kept("us-east-1", f"# {CANARY}\n"), "contains no address"),
    ],
)
def test_each_refusal_names_the_secret_and_what_to_do(here: FakeMachine, kept: Kept, words: str) -> None:
    """In what the worker says of the channel."""
    here.api.secrets["team"] = kept
    done = told(here, team="secret:team")
    assert "the secret team c" in done.failed["team"]
    assert words in done.failed["team"]


def test_an_arn_names_its_region(here: FakeMachine) -> None:
    """There the role asks, signed for that region."""
    here.api.secrets[ARN] = Kept("eu-west-1", "json://h")
    assert read(here, ARN) == "json://h"
    del here.api.secrets[ARN]
    assert "in eu-west-1: it has no such secret" in str(refused(here, ARN))


@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("internal", "internal"), ("throttle", "throttled"), ("cut_before", "unreachable"), ("silent", "unreachable"),
        ("page", "unreachable"), ("blocked", "unreachable"), ("drip", "unreachable"), ("expired", "credentials"),
    ],
)  # fmt: skip
def test_troubles_on_the_way_end_in_time_and_quote_nothing(here: FakeMachine, fault: str, trouble: str) -> None:
    """Also where the service itself writes the secret into its error."""
    here.api.secrets["team"] = Kept("us-east-1", NO_PLACE)
    here.api.fail(fault, "GetSecretValue", 99)  # type: ignore[arg-type]  # the tests spell the kinds
    error = refused(here, within=1.5)
    assert (error.trouble, bool(error.hint)) == (trouble, True)


def test_what_passes_is_tried_again(here: FakeMachine) -> None:
    """A busy service keeps nobody from being warned."""
    here.api.secrets["team"] = Kept("us-east-1", "json://h")
    here.api.fail("throttle", "GetSecretValue")
    here.api.fail("internal", "GetSecretValue")
    assert read(here, "team") == "json://h"


def test_without_a_role_it_says_so(launch: Launch) -> None:
    """With what to attach."""
    here = launch()
    here.imds.values = {path: value for path, value in here.imds.values.items() if "/iam/" not in path}
    error = refused(here)
    assert (error.trouble, "instance profile" in error.hint) == ("credentials", True)


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("prod/team", "arn:*:secretsmanager:*:*:secret:prod/team-??????"),
        (ARN, ARN),
        (ARN.removesuffix("-a1B2c3"), ARN.removesuffix("-a1B2c3") + "-??????"),
    ],
)
def test_the_policy_is_for_one_secret(name: str, resource: str) -> None:
    """No other right, no other secret, and nothing of it in the policy of an action; the commands take it as a file."""
    (statement,) = json.loads(SecretStore().policy(name))["Statement"]
    assert (statement["Action"], statement["Resource"]) == (["secretsmanager:GetSecretValue"], resource)
    assert "secretsmanager" not in PROVIDER.policy(("stop",), tag=True)
    lines = [shlex.split(line, comments=True) for line in SecretStore().commands(name).splitlines()]
    (document,) = [json.loads(word) for line in lines for word in line if word.startswith("{")]
    assert document["Statement"][0]["Action"] == ["kms:Decrypt"]


@pytest.mark.parametrize(
    "name", ["", "a b", "team\n", "a:b", "arn:aws:s3:eu-west-1:123456789012:secret:x", "x" * 513, "$(id)"]
)
def test_what_is_no_name(name: str) -> None:
    """It is never sent, and never stands in a command."""
    assert not SecretStore().valid(name)


def test_its_rights_stand_on_the_page() -> None:
    """As the other ones do."""
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{right.name}`" in text for right in SecretStore().permissions("team"))
    assert "secret:NAME" in text
