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
        (("aws", "--secret", "a b"), "'a b' is not the name of a secret in AWS"),
        (("aws", "--secret", ""), "is not the name of a secret in AWS"),
        (("aws", "--secret", "team", "--tag"), "allowed: --secret without --action and --tag"),
        (("aws", "--secret", "team", "--action", "stop"), "allowed: --secret without --action and --tag"),
    ],
)
def test_what_does_not_fit_is_refused(typed: tuple[str, ...], words: str) -> None:
    """Exit code 2."""
    done = ask(*typed)
    assert (done.exit_code, words in done.output) == (2, True), done.output


def test_a_scheduler_of_tasks_has_rights_too() -> None:
    """Kubernetes a Role, printed as it is applied; what only machines have is refused."""
    shown = ask("kubernetes")
    assert (shown.exit_code, "patch deployments.apps/scale" in shown.output) == (0, True), shown.output
    policy = ask("kubernetes", "--policy").output.rstrip("\n")
    assert policy in shown.output
    assert "kind: Role\n" in policy
    found = json.loads(ask("kubernetes", "--json").output)
    assert (found["actions"], found["policy"].rstrip("\n")) == (["end_task"], policy)
    assert "kubectl apply" in found["commands"]
    for option in (("--tag",), ("--secret", "x"), ("--action", "stop")):
        refused = ask("kubernetes", *option)
        assert (refused.exit_code, "ends tasks and no machines" in refused.output) == (2, True), refused.output


def test_a_scheduler_without_policies_says_what_it_needs() -> None:
    """Slurm knows owners alone."""
    shown = ask("slurm")
    assert (shown.exit_code, "owner of the job" in shown.output, "commands" in shown.output) == (0, True, False)
    refused = ask("slurm", "--policy")
    assert (refused.exit_code, "Slurm has no policies" in refused.output) == (2, True), refused.output


def test_all_plug_ins_are_listed() -> None:
    """Those of clouds, and those for tasks."""
    assert {"aws", "kubernetes", "slurm"} <= {line.split()[0] for line in ask().output.splitlines()}
    found = json.loads(ask("--json").output)
    assert ("kubernetes" in found["schedulers"], "kubernetes" in found["clouds"]) == (True, False)
