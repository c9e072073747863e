locals {
  watches = var.heartbeats == null ? [] : [var.heartbeats]
}

# Azure's own auto-shutdown: it deallocates, which ends the bill; no identity and no program of yours is needed.
resource "azurerm_dev_test_global_vm_shutdown_schedule" "this" {
  for_each = var.stop_at == null ? {} : var.machines

  virtual_machine_id    = each.value.id
  location              = each.value.location
  enabled               = true
  daily_recurrence_time = var.stop_at
  timezone              = var.timezone
  tags                  = var.tags

  notification_settings {
    enabled         = true
    time_in_minutes = var.warn_minutes
    email           = var.email
    webhook_url     = var.webhook_url
  }

  lifecycle {
    precondition {
      condition     = var.email != null || var.webhook_url != null
      error_message = "Nobody would be told before a machine is stopped: set email, webhook_url, or both."
    }
  }
}

# Silence is unknown, and unknown is never idle: people are told, and nothing is stopped.
resource "azurerm_monitor_scheduled_query_rules_alert_v2" "silent" {
  count = length(local.watches)

  name                    = local.watches[0].name
  resource_group_name     = local.watches[0].resource_group_name
  location                = local.watches[0].location
  display_name            = "costguard: a machine runs, and its guard is silent"
  description             = "The guard of this machine is dead, or cannot write the machine's tags. Nothing ends its bill now. costguard doctor on the machine says what is wrong; nobody there: az vm deallocate."
  scopes                  = [local.watches[0].workspace_id]
  severity                = 2
  evaluation_frequency    = "PT15M"
  window_duration         = "PT15M"
  auto_mitigation_enabled = true
  tags                    = var.tags

  criteria {
    # Azure Resource Graph knows the tags and the power state of each machine; what is not running writes nothing.
    query = <<-KQL
      arg("").Resources
      | where type =~ "microsoft.compute/virtualmachines" and id in~ (${join(", ", [for one in values(var.machines) : "\"${one.id}\""])})
      | where tostring(properties.extended.instanceView.powerState.code) =~ "PowerState/running"
      | extend heard = todatetime(tostring(split(tostring(tags["costguard-heartbeat"]), " ")[0]))
      | where isnull(heard) or heard < ago(${local.watches[0].stale_after_minutes}m)
      | project id = tolower(id), name, heard
    KQL

    resource_id_column      = "id"
    time_aggregation_method = "Count"
    operator                = "GreaterThan"
    threshold               = 0

    failing_periods {
      number_of_evaluation_periods             = 1
      minimum_failing_periods_to_trigger_alert = 1
    }
  }

  action {
    action_groups = local.watches[0].action_group_ids
  }

  identity {
    type         = "UserAssigned"
    identity_ids = azurerm_user_assigned_identity.watches[*].id
  }

  # Azure tries the query when the rule is made.
  depends_on = [azurerm_role_assignment.watches, azurerm_role_assignment.evaluates]
}

resource "azurerm_user_assigned_identity" "watches" {
  count = length(local.watches)

  name                = local.watches[0].name
  resource_group_name = local.watches[0].resource_group_name
  location            = local.watches[0].location
  tags                = var.tags
}

resource "azurerm_role_assignment" "watches" {
  for_each = var.heartbeats == null ? {} : var.machines

  scope                = each.value.id
  role_definition_name = "Reader"
  principal_id         = one(azurerm_user_assigned_identity.watches[*].principal_id)
  principal_type       = "ServicePrincipal"
}

resource "azurerm_role_assignment" "evaluates" {
  count = length(local.watches)

  scope                = local.watches[0].workspace_id
  role_definition_name = "Log Analytics Reader"
  principal_id         = one(azurerm_user_assigned_identity.watches[*].principal_id)
  principal_type       = "ServicePrincipal"
}
