"""The examples for Azure, planned from nothing with the provider's schema: what is unknown before the first apply stops no plan."""

from pathlib import Path

import pytest

from terraform.checks.conftest import WHEEL, Terraform

SUBSCRIPTION = "/subscriptions/11111111-2222-3333-4444-555555555555"
GIVEN = {
    "subnet_id": f"{SUBSCRIPTION}/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/net/subnets/gpu",
    "ssh_key": "ssh-ed25519 AAAA ops",
    **WHEEL,
}
SECRET = f"{SUBSCRIPTION}/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/my-vault/secrets/costguard-team"
MACHINE = {"azurerm_linux_virtual_machine.gpu", "azurerm_network_interface.gpu", "azurerm_resource_group.gpu"}


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("minimal", {}, MACHINE),
        (
            "complete",
            {"secret_id": SECRET},
            MACHINE
            | {
                'module.costguard.azurerm_role_assignment.secret["gpu team"]',
                'module.costguard.azurerm_role_assignment.self["gpu"]',
                "module.costguard.azurerm_role_definition.secret[0]",
                "module.costguard.azurerm_role_definition.self[0]",
            },
        ),
        (
            "group",
            {},
            {
                "azurerm_orchestrated_virtual_machine_scale_set.workers",
                "azurerm_resource_group.gpu",
                "azurerm_role_assignment.workers",
                "module.costguard.azurerm_role_definition.self[0]",
                "module.costguard.azurerm_user_assigned_identity.this[0]",
            },
        ),
    ],
)
def test_an_example_is_planned_from_nothing(modules: Path, name: str, given: dict[str, str], made: set[str]) -> None:
    """It creates these and nothing else."""
    terraform = Terraform(modules / "azure/examples" / name, {})
    terraform.run("init")
    assert terraform.changes(**GIVEN, **given) == dict.fromkeys(made, "create")
