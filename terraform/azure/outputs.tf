output "user_data" {
  description = "In base64, for user_data of azurerm_linux_virtual_machine and of the scale sets; cloud-init takes it where there is no custom_data. A change is made in place."
  value       = base64encode(module.machine.user_data)

  precondition {
    condition     = length(base64encode(module.machine.user_data)) <= 65536
    error_message = "User data of Azure has at most 64 KB in base64: make other_user_data smaller, or put it on the image."
  }
}

output "custom_data" {
  description = "The same, for machines that have to use custom_data. A change of it replaces the machine: add ignore_changes = [custom_data]."
  value       = base64encode(module.machine.user_data)
}

output "part" {
  description = "costguard's part alone, for the data source cloudinit_config: content_type, filename, content."
  value       = module.machine.part
}

output "config" {
  description = "The configuration that the machine gets as /etc/costguard/config.toml."
  value       = module.machine.config
}

output "role_actions" {
  description = "The actions of the least role. Assign it to the machine's own identity, with the machine as scope."
  value       = local.actions
}

output "role_id" {
  description = "The id of the role that was created; null without create_role."
  value       = one(azurerm_role_definition.self[*].role_definition_resource_id)

  precondition {
    condition     = var.create_role || (length(var.machines) == 0 && length(var.secret_ids) == 0)
    error_message = "There is no role to assign: set create_role = true, or leave machines and secret_ids out."
  }

  precondition {
    condition     = !var.create_role || var.role_scope != null
    error_message = "A role is created somewhere: set role_scope to the id of a resource group or a subscription."
  }
}

output "identity_id" {
  description = "The id of the identity that was created; null without create_identity."
  value       = one(azurerm_user_assigned_identity.this[*].id)

  precondition {
    condition     = !var.create_identity || (local.group_name != null && var.location != null)
    error_message = "An identity is created in a resource group: set role_scope to the id of one, and location."
  }
}

output "identity_principal_id" {
  description = "Its principal, for machines; null without create_identity."
  value       = one(azurerm_user_assigned_identity.this[*].principal_id)
}

output "identity_client_id" {
  description = "Its client id, for settings = { \"cloud.azure.identity\" = … } where a machine has several; null without create_identity."
  value       = one(azurerm_user_assigned_identity.this[*].client_id)
}
