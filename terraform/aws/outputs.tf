output "user_data" {
  description = "For user_data of aws_instance; with other_user_data a multi-part text of all parts."
  value       = module.machine.user_data

  precondition {
    condition     = length(base64encode(module.machine.user_data)) * 3 / 4 <= 16384
    error_message = "User data of EC2 has at most 16384 bytes, and this has ${floor(length(base64encode(module.machine.user_data)) * 3 / 4)}: make other_user_data smaller, or put it on the image."
  }

  precondition {
    condition     = !local.leaves || length(var.group_names) > 0
    error_message = "cloud_group = \"leave\" needs the right to leave: set group_names to the names of the Auto Scaling groups."
  }

  precondition {
    condition     = var.secret != null || length([for where in values(var.channels) : where if startswith(where, "secret:")]) == 0
    error_message = "A channel reads a secret, and nothing allows it: set secret to its name or ARN."
  }
}

output "user_data_base64" {
  description = "The same for user_data of aws_launch_template and user_data_base64 of aws_instance."
  value       = base64encode(module.machine.user_data)
}

output "part" {
  description = "costguard's part alone, for the data source cloudinit_config: content_type, filename, content."
  value       = module.machine.part
}

output "config" {
  description = "The configuration that the instance gets as /etc/costguard/config.toml."
  value       = module.machine.config
}

output "policy" {
  description = "The least policy as JSON, for every partition: the instance may end itself, and nothing else. Attach it to the role that the instance already has."
  value       = local.policy
}

output "role_name" {
  description = "The role that was created; null without create_identity."
  value       = one(aws_iam_role.this[*].name)
}

output "role_arn" {
  description = "Its ARN; null without create_identity."
  value       = one(aws_iam_role.this[*].arn)
}

output "instance_profile_name" {
  description = "For iam_instance_profile of the instance; null without create_identity."
  value       = one(aws_iam_instance_profile.this[*].name)
}
