"""`costguard permissions CLOUD --secret NAME`: one right for one secret, asked for by itself."""

import json

import pytest
from click.testing import CliRunner, Result

from costguard.cli.main import main

NAMES = {"aws": "prod/team", "gcp": "team", "azure": "vault-1/team"}
RIGHTS = {
    "aws": "secretsmanager:GetSecretValue",
    "gcp": "secretmanager.versions.access",
    "azure": "Microsoft.KeyVault/vaults/secrets/getSecret/action",
}


def ask(*typed: str) -> Result:
    return CliRunner().invoke(main, ["permissions", *typed])


@pytest.mark.parametrize("cloud", NAMES)
def test_the_right_is_off_by_default_and_limited_to_one_secret(cloud: str) -> None:
    """In words, as a policy alone, and as JSON."""
    assert RIGHTS[cloud] not in ask(cloud, "--tag").output
    shown = ask(cloud, "--secret", NAMES[cloud])
    assert (shown.exit_code, RIGHTS[cloud] in shown.output) == (0, True), shown.output
    assert f"costguard permissions {cloud} --secret {NAMES[cloud]} --policy > " in shown.output
    policy = ask(cloud, "--secret", NAMES[cloud], "--policy").output.rstrip("\n")
    found = json.loads(ask(cloud, "--secret", NAMES[cloud], "--json").output)
    assert found["policy"].rstrip("\n") == policy
    assert (found["secret"], found["permissions"][0]["name"]) == (NAMES[cloud], RIGHTS[cloud])
    assert RIGHTS[cloud] in policy
    assert NAMES[cloud].rpartition("/")[2] in policy + found["commands"]
    assert policy in shown.output


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("aws", "--secret", "a b"), "'a b' is no secret of AWS"),
        (("aws", "--secret", ""), "is no secret of AWS"),
        (("aws", "--secret", "team", "--tag"), "allowed: --secret without --action and --tag"),
        (("aws", "--secret", "team", "--action", "stop"), "allowed: --secret without --action and --tag"),
    ],
)
def test_what_does_not_fit_is_refused(typed: tuple[str, ...], words: str) -> None:
    """Exit code 2."""
    done = ask(*typed)
    assert (done.exit_code, words in done.output) == (2, True), done.output
