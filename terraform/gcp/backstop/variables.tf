variable "project" {
  description = "The project of the machines."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project is the id of a project, not its name or number: such as my-project-123."
  }
}

variable "name" {
  description = "The name of all that is created: 6 to 30 small letters, digits and -."
  type        = string
  default     = "costguard-backstop"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.name))
    error_message = "name has 6 to 30 small letters, digits and -, and begins with a letter."
  }
}

variable "machines" {
  description = "The machines to watch: a name of yours, with zone, name and id. They have to exist: set google_compute_instance.x.zone, .name and .instance_id. No members of a group, which would make them anew."
  type        = map(object({ zone = string, name = string, id = string }))

  validation {
    condition     = length(var.machines) > 0 && alltrue([for key, one in var.machines : can(regex("^[a-z0-9-]{1,40}$", key)) && can(regex("^[a-z0-9-]+-[a-z]$", one.zone)) && can(regex("^[0-9]+$", one.id))])
    error_message = "machines has at least one; your name for it has small letters, digits and -; zone is a zone, such as europe-west4-a; id is the number: set google_compute_instance.x.instance_id."
  }
}

variable "notification_channels" {
  description = "Who is told: ids of notification channels of Cloud Monitoring."
  type        = list(string)

  validation {
    condition     = length(var.notification_channels) > 0 && alltrue([for one in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[^/]+$", one))])
    error_message = "notification_channels has at least one, as projects/PROJECT/notificationChannels/NUMBER: set google_monitoring_notification_channel.x.name."
  }
}

variable "quiet_hours" {
  description = "People are told of a machine whose processors and network were quiet for so long, 1 to 23. Longer than kill_duration and grace together, or they hear of machines whose guard is well."
  type        = number
  default     = 6
  nullable    = false

  validation {
    condition     = var.quiet_hours >= 1 && var.quiet_hours <= 23
    error_message = "quiet_hours is 1 to 23."
  }
}

variable "stale_after_minutes" {
  description = "People are told of a machine that runs, and whose guard wrote no heartbeat for so long, 30 to 1380; twice the longer of heartbeat.every and 10 minutes, or more. Needs heartbeat_tag = true on the machines, in live mode. Null: heartbeats are not watched."
  type        = number
  default     = null

  validation {
    condition     = var.stale_after_minutes == null || try(var.stale_after_minutes >= 30 && var.stale_after_minutes <= 1380 && floor(var.stale_after_minutes) == var.stale_after_minutes, false)
    error_message = "stale_after_minutes is a whole number from 30 to 1380: a guard writes at most every 10 minutes."
  }
}

variable "stop_at" {
  description = "When these machines are stopped, whatever they do and without a warning: a schedule as of cron, such as 0 22 * * 5 (Fridays at 22:00). Null: never, people are only told."
  type        = string
  default     = null

  validation {
    condition     = var.stop_at == null || can(regex("^\\s*(\\S+\\s+){4}\\S+\\s*$", var.stop_at)) && !can(regex("^\\s*[*]", coalesce(var.stop_at, "-"))) && can(regex("^\\s*\\S+\\s+[0-9]+\\s", coalesce(var.stop_at, "-")))
    error_message = "stop_at has five words, minute and hour of them numbers: 0 22 * * 5 is Fridays at 22:00."
  }
}

variable "time_zone" {
  description = "The time zone of stop_at, such as Europe/Berlin."
  type        = string
  default     = "Etc/UTC"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z]+(/[A-Za-z0-9_+-]+)*$", var.time_zone))
    error_message = "time_zone is a name such as Europe/Berlin, not W. Europe Standard Time."
  }
}

variable "region" {
  description = "Where the schedule lives: one with Cloud Scheduler, such as europe-west1. Needed for stop_at."
  type        = string
  default     = null

  validation {
    condition     = var.region == null || can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is a region, such as europe-west1, not a zone."
  }
}

variable "discard_local_ssd" {
  description = "What becomes of local SSDs at a stop. Compute Engine refuses to stop a machine that has one while this is null: true loses their data, false keeps it where that is possible."
  type        = bool
  default     = null
}
