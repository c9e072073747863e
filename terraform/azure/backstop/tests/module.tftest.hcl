# No account is needed.
mock_provider "azurerm" {}

variables {
  machines = { gpu = { id = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachines/gpu", location = "westeurope" } }
  stop_at  = "2200"
  email    = "ops@example.org;team@example.org"
}

run "people_are_told_before" {
  command = plan

  assert {
    condition     = azurerm_dev_test_global_vm_shutdown_schedule.this["gpu"].daily_recurrence_time == "2200" && azurerm_dev_test_global_vm_shutdown_schedule.this["gpu"].enabled && endswith(azurerm_dev_test_global_vm_shutdown_schedule.this["gpu"].virtual_machine_id, "/virtualMachines/gpu")
    error_message = "The machine is stopped at its hour."
  }

  assert {
    condition     = azurerm_dev_test_global_vm_shutdown_schedule.this["gpu"].notification_settings[0].enabled && azurerm_dev_test_global_vm_shutdown_schedule.this["gpu"].notification_settings[0].time_in_minutes == 60
    error_message = "People are told an hour before."
  }
}

run "a_webhook_will_do" {
  command = plan
  variables {
    email       = null
    webhook_url = "https://hooks.example.org/costguard"
  }
}

run "nobody_is_told" {
  command = plan
  variables { email = null }
  expect_failures = [azurerm_dev_test_global_vm_shutdown_schedule.this]
}

run "a_member_of_a_scale_set" {
  command = plan
  variables {
    machines = { one = { id = "/subscriptions/1/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachineScaleSets/x/virtualMachines/0", location = "westeurope" } }
  }
  expect_failures = [var.machines]
}

run "what_is_wrong" {
  command = plan
  variables {
    stop_at      = "22:00"
    timezone     = "Europe/Berlin"
    warn_minutes = 5
    email        = "ops"
    webhook_url  = "http://hooks.example.org"
  }
  expect_failures = [var.stop_at, var.timezone, var.warn_minutes, var.email, var.webhook_url]
}
