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

  group_name = try(regex("(?i)/resourceGroups/([^/]+)$", var.role_scope)[0], null)

  # Each machine reads each secret.
  readers = { for pair in setproduct(keys(var.machines), keys(var.secret_ids)) : join(" ", pair) => { machine = pair[0], secret = pair[1] } }
}

resource "azurerm_role_definition" "self" {
  count = var.create_role ? 1 : 0

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
  count = var.create_role && length(var.secret_ids) > 0 ? 1 : 0

  name        = "${var.role_name} secret"
  scope       = var.role_scope
  description = "Lets a machine read the addresses of its channels. Assign it to the machine's own identity, with one secret as scope."

  permissions {
    data_actions = local.declared.secret
  }

  # A vault may be in another resource group.
  assignable_scopes = distinct(concat([var.role_scope], [for id in values(var.secret_ids) : split("/providers/", id)[0]]))
}

resource "azurerm_role_assignment" "secret" {
  for_each = local.readers

  scope              = var.secret_ids[each.value.secret]
  role_definition_id = one(azurerm_role_definition.secret[*].role_definition_resource_id)
  principal_id       = var.machines[each.value.machine].principal_id
  principal_type     = "ServicePrincipal"
}
