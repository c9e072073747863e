output "schedules" {
  description = "The ids of the schedules, by your name of the machine."
  value       = { for name, one in azurerm_dev_test_global_vm_shutdown_schedule.this : name => one.id }

  precondition {
    condition     = var.stop_at != null || var.heartbeats != null
    error_message = "This would do nothing: set stop_at, heartbeats, or both."
  }
}

output "heartbeat_rule" {
  description = "The id of the rule that tells of machines that run and are silent; null where heartbeats are not watched."
  value       = one(azurerm_monitor_scheduled_query_rules_alert_v2.silent[*].id)
}
