"""The examples for Google Cloud, planned from nothing with the provider's schema: what is unknown before the first apply stops no plan."""

from pathlib import Path

import pytest

from terraform.checks.conftest import WHEEL, Terraform

KEEPS = {"project": "my-project", **WHEEL}


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("minimal", {"google_compute_instance.gpu"}),
        (
            "complete",
            {
                "google_compute_instance.gpu",
                "google_secret_manager_secret.team",
                "google_service_account.gpu",
                'module.costguard.google_compute_instance_iam_member.self["gpu"]',
                "module.costguard.google_project_iam_custom_role.secret[0]",
                "module.costguard.google_project_iam_custom_role.self[0]",
                'module.costguard.google_secret_manager_secret_iam_member.reads["gpu"]',
            },
        ),
        (
            "group",
            {
                "google_compute_instance_group_manager.workers",
                "google_compute_instance_template.workers",
                "google_service_account.workers",
                "module.costguard.google_project_iam_custom_role.group[0]",
                "module.costguard.google_project_iam_custom_role.self[0]",
                "module.costguard.google_project_iam_member.group[0]",
                "module.costguard.google_project_iam_member.leaves[0]",
            },
        ),
    ],
)
def test_an_example_is_planned_from_nothing(modules: Path, name: str, made: set[str]) -> None:
    """It creates these and nothing else."""
    terraform = Terraform(modules / "gcp/examples" / name, {})
    terraform.run("init")
    assert terraform.changes(**KEEPS) == dict.fromkeys(made, "create")
