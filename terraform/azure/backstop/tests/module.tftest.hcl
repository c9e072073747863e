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

  assert {
    condition     = length(azurerm_monitor_scheduled_query_rules_alert_v2.silent) + length(azurerm_user_assigned_identity.watches) + length(azurerm_role_assignment.watches) + length(azurerm_role_assignment.evaluates) == 0
    error_message = "Heartbeats are watched only where guards write them."
  }
}

run "heartbeats_alone" {
  command = apply

  variables {
    stop_at = null
    email   = null
    heartbeats = {
      action_group_ids    = ["/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/ops/providers/Microsoft.Insights/actionGroups/pager"]
      workspace_id        = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/ops/providers/Microsoft.OperationalInsights/workspaces/ops"
      resource_group_name = "ops"
      location            = "westeurope"
      stale_after_minutes = 45
    }
  }

  assert {
    condition     = length(azurerm_dev_test_global_vm_shutdown_schedule.this) == 0
    error_message = "Silence is unknown: it stops nothing."
  }

  assert {
    condition     = strcontains(azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].query, "id in~ (\"/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/gpu/providers/Microsoft.Compute/virtualMachines/gpu\")") && strcontains(azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].query, "isnull(heard) or heard < ago(45m)") && strcontains(azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].query, "PowerState/running")
    error_message = "Told is of these machines, which run and whose heartbeat is old or was never written."
  }

  assert {
    condition     = azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].operator == "GreaterThan" && azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].threshold == 0 && azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].criteria[0].resource_id_column == "id" && length(azurerm_monitor_scheduled_query_rules_alert_v2.silent[0].action[0].action_groups) == 1
    error_message = "One such machine is enough, each is told by itself, to the action group."
  }

  assert {
    condition     = azurerm_role_assignment.watches["gpu"].role_definition_name == "Reader" && endswith(azurerm_role_assignment.watches["gpu"].scope, "/virtualMachines/gpu") && azurerm_role_assignment.watches["gpu"].principal_id == azurerm_user_assigned_identity.watches[0].principal_id && azurerm_role_assignment.evaluates[0].role_definition_name == "Log Analytics Reader" && endswith(azurerm_role_assignment.evaluates[0].scope, "/workspaces/ops")
    error_message = "The rule may read these machines and evaluate its query, and nothing else."
  }
}

run "nothing_to_do" {
  command = plan
  variables { stop_at = null }
  expect_failures = [output.schedules]
}

run "what_is_wrong_with_heartbeats" {
  command = plan
  variables {
    heartbeats = {
      action_group_ids    = []
      workspace_id        = "ops"
      resource_group_name = "ops"
      location            = "westeurope"
      stale_after_minutes = 5
    }
  }
  expect_failures = [var.heartbeats]
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
