variable "name" {
  description = "The name of all that is created."
  type        = string
  default     = "costguard-backstop"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_-]{1,48}$", var.name))
    error_message = "name has 1 to 48 letters, digits, _ and -."
  }
}

variable "topic_arn" {
  description = "The SNS topic that people hear: subscribe mail, a pager or a chat to it."
  type        = string

  validation {
    condition     = can(regex("^arn:[a-z0-9-]+:sns:[a-z0-9-]+:\\d{12}:[A-Za-z0-9_-]+$", var.topic_arn))
    error_message = "topic_arn is the ARN of a topic of SNS: set aws_sns_topic.x.arn."
  }
}

variable "mode" {
  description = "dry-run: it tells, and says what it would stop. live: it stops what its owner tagged for that."
  type        = string
  default     = "dry-run"
  nullable    = false

  validation {
    condition     = contains(["dry-run", "live"], var.mode)
    error_message = "mode is dry-run or live."
  }
}

variable "every_minutes" {
  description = "Time between two looks, 5 to 60."
  type        = number
  default     = 15
  nullable    = false

  validation {
    condition     = var.every_minutes >= 5 && var.every_minutes <= 60 && floor(var.every_minutes) == var.every_minutes
    error_message = "every_minutes is a whole number from 5 to 60."
  }
}

variable "stale_after_minutes" {
  description = "A heartbeat that was not seen for so long is told. Twice the longer of heartbeat.every and 10 minutes, or more; at least 30."
  type        = number
  default     = 60
  nullable    = false

  validation {
    condition     = var.stale_after_minutes >= 30 && floor(var.stale_after_minutes) == var.stale_after_minutes
    error_message = "stale_after_minutes is a whole number, at least 30: the guard writes its tag every 10 minutes at most."
  }
}

variable "quiet_hours" {
  description = "Processors and network must have been quiet for so long before anything is stopped, 2 to 24."
  type        = number
  default     = 6
  nullable    = false

  validation {
    condition     = var.quiet_hours >= 2 && var.quiet_hours <= 24
    error_message = "quiet_hours is 2 to 24."
  }
}

variable "limit" {
  description = "At most so many stops at one look, 1 to 10."
  type        = number
  default     = 2
  nullable    = false

  validation {
    condition     = var.limit >= 1 && var.limit <= 10 && floor(var.limit) == var.limit
    error_message = "limit is a whole number from 1 to 10."
  }
}

variable "many_share" {
  description = "When three or more machines, and more than this share of those watched, are silent at once, none is stopped. At most 0.5."
  type        = number
  default     = 0.25
  nullable    = false

  validation {
    condition     = var.many_share > 0 && var.many_share <= 0.5
    error_message = "many_share is more than 0 and at most 0.5."
  }
}

variable "tags" {
  description = "Tags of what this module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}
