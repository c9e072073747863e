output "schedules" {
  description = "The ids of the schedules, by your name of the machine."
  value       = { for name, one in azurerm_dev_test_global_vm_shutdown_schedule.this : name => one.id }
}
