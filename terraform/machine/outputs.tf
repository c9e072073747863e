output "script" {
  description = "The script that puts costguard on the machine, configures and starts it. It may run at each boot: it changes only what has changed."
  value       = local.script

  precondition {
    condition     = length(local.problems) == 0
    error_message = "costguard would not start with this: ${join(" ", local.problems)}"
  }
}

output "part" {
  description = "The same as a part of cloud-init's user data: content_type, filename and content, as the data source cloudinit_config takes them."
  value       = { content_type = "text/x-shellscript", filename = "costguard", content = local.script }
}

output "user_data" {
  description = "User data for cloud-init: this part alone, or with those of `other_user_data` as a multi-part text."
  value       = length(var.other_user_data) == 0 ? local.script : local.multipart
}

output "config" {
  description = "The configuration that the machine gets as /etc/costguard/config.toml."
  value       = local.config
}

output "policy_key" {
  description = "Which policy of permissions.json fits these settings: the actions that go through the cloud, and whether tags are written."
  value = join("+", concat(
    coalescelist(sort(tolist(setintersection(local.actions, ["hibernate", "stop", "terminate"]))), ["none"]),
    lookup(var.settings, "heartbeat.tag", "false") == "true" || lookup(var.settings, "sink.tag", "false") == "true" ? ["tag"] : [],
  ))
}
