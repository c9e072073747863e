# Azure's own auto-shutdown: it deallocates, which ends the bill; no identity and no program of yours is needed.
resource "azurerm_dev_test_global_vm_shutdown_schedule" "this" {
  for_each = var.machines

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
