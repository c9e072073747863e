output "metadata" {
  description = "Entries for metadata of google_compute_instance or of an instance template: merge them with yours. startup-script, which runs at each boot and changes only what has changed; with other_user_data instead user-data, which runs once and needs an image with cloud-init (Ubuntu)."
  value       = length(var.other_user_data) == 0 ? { startup-script = module.machine.script } : { user-data = module.machine.user_data }
}

output "startup_script" {
  description = "The script alone, to put your own text after it. What comes after it runs whatever becomes of costguard."
  value       = module.machine.script
}

output "user_data" {
  description = "For the entry user-data of metadata, on images with cloud-init (Ubuntu): takes the place of the startup script, and runs once."
  value       = module.machine.user_data
}

output "config" {
  description = "The configuration that the machine gets as /etc/costguard/config.toml."
  value       = module.machine.config
}

output "permissions" {
  description = "The rights of the least role. Bind it to the machine itself, for its own service account; the access scope must be cloud-platform."
  value       = local.permissions
}

output "role" {
  description = "The custom role that was created; null without create_role."
  value       = one(google_project_iam_custom_role.self[*].name)

  precondition {
    condition     = var.create_role || (length(var.instances) == 0 && var.group == null && length(var.secret_emails) == 0)
    error_message = "There is no role to bind: set create_role = true, or leave instances, group and secret_emails out."
  }

  precondition {
    condition     = !local.leaves || var.group != null || !var.create_role
    error_message = "cloud_group = \"leave\" needs the right to leave: set group."
  }

  precondition {
    condition     = var.group == null || var.project != null
    error_message = "The condition for a group names the project: set project."
  }
}

output "service_account_email" {
  description = "The service account that was created; null without create_identity."
  value       = one(google_service_account.this[*].email)
}
