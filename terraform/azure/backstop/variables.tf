variable "machines" {
  description = "The machines to stop and to watch: a name of yours, with the machine's id and location. They have to exist: set azurerm_linux_virtual_machine.x.id and .location. No scale sets, nor their members."
  type        = map(object({ id = string, location = string }))

  validation {
    condition     = length(var.machines) > 0 && alltrue([for one in values(var.machines) : can(regex("(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Compute/virtualMachines/[^/]+$", one.id))])
    error_message = "machines has at least one; id is that of a virtual machine: set azurerm_linux_virtual_machine.x.id. Azure stops no member of a scale set at an hour."
  }
}

variable "stop_at" {
  description = "The hour of each day at which the machines are deallocated, whatever they do: 2200 is 22:00. Null: never, people are only told."
  type        = string
  default     = null

  validation {
    condition     = var.stop_at == null || can(regex("^([01][0-9]|2[0-3])[0-5][0-9]$", var.stop_at))
    error_message = "stop_at has four digits: 2200 is 22:00."
  }
}

variable "heartbeats" {
  description = "Who is told of a machine that runs, and whose tag costguard-heartbeat is older than stale_after_minutes (30 to 1440; twice the longer of heartbeat.every and 10 minutes, or more): action groups, and where the rule lives: its resource group and location, and a Log Analytics workspace in which it is evaluated. Needs heartbeat_tag = true on the machines, in live mode. Null: heartbeats are not watched."
  type        = object({ action_group_ids = list(string), workspace_id = string, resource_group_name = string, location = string, name = optional(string, "costguard-backstop"), stale_after_minutes = optional(number, 60) })
  default     = null

  validation {
    condition     = var.heartbeats == null || try(length(var.heartbeats.action_group_ids) > 0 && alltrue([for id in var.heartbeats.action_group_ids : can(regex("(?i)/providers/microsoft.insights/actionGroups/[^/]+$", id))]), false)
    error_message = "heartbeats.action_group_ids has at least one: set azurerm_monitor_action_group.x.id."
  }

  validation {
    condition     = var.heartbeats == null || can(regex("(?i)/providers/Microsoft.OperationalInsights/workspaces/[^/]+$", var.heartbeats.workspace_id))
    error_message = "heartbeats.workspace_id is that of a Log Analytics workspace: set azurerm_log_analytics_workspace.x.id."
  }

  validation {
    condition     = var.heartbeats == null || try(var.heartbeats.stale_after_minutes >= 30 && var.heartbeats.stale_after_minutes <= 1440 && floor(var.heartbeats.stale_after_minutes) == var.heartbeats.stale_after_minutes, false)
    error_message = "heartbeats.stale_after_minutes is a whole number from 30 to 1440: a guard writes at most every 10 minutes."
  }
}

variable "timezone" {
  description = "The time zone of stop_at, by its Windows name, such as W. Europe Standard Time."
  type        = string
  default     = "UTC"
  nullable    = false

  validation {
    condition     = !strcontains(var.timezone, "/")
    error_message = "timezone is a Windows name, such as W. Europe Standard Time, not Europe/Berlin."
  }
}

variable "warn_minutes" {
  description = "People are told so long before, 15 to 120; the mail has links that leave this day out, or move it by an hour or two."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.warn_minutes >= 15 && var.warn_minutes <= 120 && floor(var.warn_minutes) == var.warn_minutes
    error_message = "warn_minutes is a whole number from 15 to 120."
  }
}

variable "email" {
  description = "Who is told: addresses of mail, with ; between them."
  type        = string
  default     = null

  validation {
    condition     = var.email == null || can(regex("^[^@\\s;]+@[^@\\s;]+(;[^@\\s;]+@[^@\\s;]+)*$", var.email))
    error_message = "email is one address or several with ; between them: ops@example.org;team@example.org."
  }
}

variable "webhook_url" {
  description = "Who is told: a web address that takes a POST, such as that of a Logic App. It stands in Terraform's state."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.webhook_url == null || can(regex("^https://\\S+$", var.webhook_url))
    error_message = "webhook_url begins with https://."
  }
}

variable "tags" {
  description = "Tags of what this module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}
