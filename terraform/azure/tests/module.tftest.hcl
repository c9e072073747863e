# No account is needed.
mock_provider "azurerm" {}

run "creates_nothing_by_default" {
  command = plan

  assert {
    condition     = length(azurerm_role_definition.self) + length(azurerm_role_assignment.self) + length(azurerm_user_assigned_identity.this) == 0
    error_message = "By default there are rights to assign, and nothing else."
  }

  assert {
    condition     = contains(output.role_actions, "Microsoft.Compute/virtualMachines/deallocate/action") && !contains(output.role_actions, "Microsoft.Compute/virtualMachines/delete")
    error_message = "The machine may deallocate itself, and not more."
  }

  assert {
    condition     = strcontains(base64decode(output.user_data), "'--extra' 'azure'")
    error_message = "User data is in base64."
  }
}

run "the_role_on_the_machine_itself" {
  command = plan

  variables {
    create_role   = true
    role_scope    = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu"
    kill_action   = "terminate"
    heartbeat_tag = true
    channels      = { team = "secret:vault/team" }
    secret_ids    = { team = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/vault/secrets/team" }
    machines = {
      gpu = {
        id           = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachines/gpu"
        principal_id = "66666666-2222-3333-4444-555555555555"
      }
    }
  }

  assert {
    condition     = contains(azurerm_role_definition.self[0].permissions[0].actions, "Microsoft.Compute/virtualMachines/delete") && contains(azurerm_role_definition.self[0].permissions[0].actions, "Microsoft.Resources/tags/write")
    error_message = "The role has the rights of the action and of tags."
  }

  assert {
    condition     = endswith(azurerm_role_assignment.self["gpu"].scope, "/virtualMachines/gpu") && endswith(azurerm_role_assignment.secret["gpu team"].scope, "/secrets/team")
    error_message = "Each role is assigned on one thing."
  }

  assert {
    condition     = length(azurerm_role_definition.secret[0].assignable_scopes) == 2
    error_message = "The vault is in another resource group."
  }
}

run "members_of_a_uniform_scale_set" {
  command = plan
  variables { uniform_scale_set = true }

  assert {
    condition     = contains(output.role_actions, "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/deallocate/action")
    error_message = "Their rights have another name."
  }
}

run "an_identity_when_asked_for" {
  command = plan

  variables {
    role_scope      = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu"
    location        = "westeurope"
    create_identity = true
  }

  assert {
    condition     = azurerm_user_assigned_identity.this[0].resource_group_name == "gpu"
    error_message = "It stands in the group of the role."
  }
}

run "a_group_for_a_machine" {
  command = plan
  variables { machines = { gpu = { id = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu", principal_id = "66666666-2222-3333-4444-555555555555" } } }
  expect_failures = [var.machines]
}

run "a_name_for_a_principal" {
  command = plan
  variables { machines = { gpu = { id = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachines/gpu", principal_id = "gpu" } } }
  expect_failures = [var.machines]
}

run "an_assignment_without_a_role" {
  command = plan
  variables { machines = { gpu = { id = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachines/gpu", principal_id = "66666666-2222-3333-4444-555555555555" } } }
  expect_failures = [output.role_id]
}

run "an_identity_without_a_place" {
  command = plan
  variables {
    create_identity = true
    role_scope      = "/subscriptions/11111111-2222-3333-4444-555555555555"
  }
  expect_failures = [output.identity_id]
}

run "a_name_for_a_scope" {
  command = plan
  variables { role_scope = "gpu" }
  expect_failures = [var.role_scope]
}

run "an_address_for_an_id" {
  command = plan
  variables { secret_ids = { team = "https://vault.vault.azure.net/secrets/team/1" } }
  expect_failures = [var.secret_ids]
}

run "a_role_without_a_place" {
  command = plan
  variables { create_role = true }
  expect_failures = [output.role_id]
}
