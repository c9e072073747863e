module "machine" {
  source = "../machine"

  extra           = "azure"
  settings        = local.all_settings
  wheel           = var.wheel
  wheel_sha256    = var.wheel_sha256
  wheels          = var.wheels
  wheels_sha256   = var.wheels_sha256
  python          = var.python
  python_sha256   = var.python_sha256
  other_user_data = var.other_user_data
}

# permissions.json is written from the rights that costguard itself declares; `costguard permissions azure` prints the same.
locals {
  declared = jsondecode(file("${path.module}/permissions.json"))
  kind     = var.uniform_scale_set ? "virtualMachineScaleSets/virtualMachines" : "virtualMachines"
  leaves   = lookup(local.all_settings, "cloud.group", "notify") == "leave"
  actions  = concat(local.declared.roles[local.kind][module.machine.policy_key], local.leaves ? local.declared.group : [])

  creates_role   = var.role_scope != null
  creates_secret = local.creates_role && var.secret_id != null
  group_name     = try(regex("(?i)/resourceGroups/([^/]+)$", coalesce(var.role_scope, "-"))[0], null)
}

resource "azurerm_role_definition" "self" {
  count = local.creates_role ? 1 : 0

  name        = var.role_name
  scope       = var.role_scope
  description = "Lets a machine see itself and end its own bill. Assign it to the machine's own identity, with the machine as scope."

  permissions {
    actions = local.actions
  }

  assignable_scopes = [var.role_scope]
}

resource "azurerm_role_assignment" "self" {
  for_each = var.machines

  scope              = each.value.id
  role_definition_id = one(azurerm_role_definition.self[*].role_definition_resource_id)
  principal_id       = each.value.principal_id
  principal_type     = "ServicePrincipal"
}

resource "azurerm_user_assigned_identity" "this" {
  count = var.create_identity ? 1 : 0

  name                = replace(var.role_name, "/[^A-Za-z0-9_-]+/", "-")
  resource_group_name = local.group_name
  location            = var.location
}

resource "azurerm_role_definition" "secret" {
  count = local.creates_secret ? 1 : 0

  name        = "${var.role_name} secret"
  scope       = var.role_scope
  description = "Lets a machine read the addresses of its channels. Assign it to the machine's own identity, with one secret as scope."

  permissions {
    data_actions = local.declared.secret
  }

  # The vault may be in another resource group.
  assignable_scopes = distinct([var.role_scope, split("/providers/", var.secret_id)[0]])
}

resource "azurerm_role_assignment" "secret" {
  for_each = { for name, machine in var.machines : name => machine if local.creates_secret }

  scope              = var.secret_id
  role_definition_id = azurerm_role_definition.secret[0].role_definition_resource_id
  principal_id       = each.value.principal_id
  principal_type     = "ServicePrincipal"
}
