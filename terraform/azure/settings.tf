# Written by `make docs` from costguard/config/schema.py; changes here are lost.
# A variable that is null leaves the option at costguard's own default.

variable "mode" {
  description = "`dry-run` warns and plans, and changes nothing: no hook, signal, command, tag, record or call has an effect. `live` acts. Allowed: dry-run or live. Default: dry-run."
  type        = string
  default     = null

  validation {
    condition     = var.mode == null || contains(["dry-run", "live"], coalesce(var.mode, "-"))
    error_message = "`mode` is one of: dry-run or live."
  }
}

variable "kill_action" {
  description = "What to do with an idle machine. `end_task` ends the task of a cluster in which costguard runs, and no machine. `end_process` only ends costguard itself, with exit code 0. Allowed: stop, terminate, hibernate (cloud); shutdown, reboot (guest); end_task (cluster); end_process; command. Default: stop."
  type        = string
  default     = null

  validation {
    condition     = var.kill_action == null || contains(["stop", "terminate", "hibernate", "shutdown", "reboot", "end_process", "end_task", "command"], coalesce(var.kill_action, "-"))
    error_message = "`kill_action` is one of: stop, terminate, hibernate (cloud); shutdown, reboot (guest); end_task (cluster); end_process; command."
  }
}

variable "fallback" {
  description = "Tried in this order after a technical failure; a refusal is never bypassed. Allowed: a list without repetition of stop, terminate, hibernate (cloud); shutdown, reboot (guest); end_task (cluster); end_process; command. Default: nothing."
  type        = list(string)
  default     = null
}

variable "kill_duration" {
  description = "How long the machine must be idle before people are warned; for one that serves, 4h or more. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d, at least 3 intervals; live machine actions at least 10m. Default: 60m."
  type        = string
  default     = null
}

variable "kill_threshold" {
  description = "Load below this is idle. Load is the busiest engine of the GPU: compute, encoder, decoder, JPEG, optical flow. Allowed: a share such as 0.05 or 5%, more than 0% and at most 100%. Default: 5%."
  type        = string
  default     = null
}

variable "grace" {
  description = "Time from a delivered warning to the action. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d. Default: 10m."
  type        = string
  default     = null
}

variable "boot_grace" {
  description = "costguard does nothing by itself for this long after boot or resume. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d; live machine actions at least 10m. Default: 20m."
  type        = string
  default     = null
}

variable "unused_after" {
  description = "After this much running time without any work the machine counts as unused; a reboot does not reset it, a changed policy does. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d, or off; live machine actions at least 10m. Default: 4h."
  type        = string
  default     = null
}

variable "price_per_hour" {
  description = "What the machine costs, for the money in messages and for budgets. Without it messages use the cloud's Spot or list price, marked as an estimate. Allowed: a positive amount, or unknown. Default: unknown."
  type        = string
  default     = null
}

variable "currency" {
  description = "The currency of price and budget. Allowed: three capital letters (ISO 4217). Default: USD."
  type        = string
  default     = null
}

variable "deadline_lifetime" {
  description = "Running time, summed over reboots, after which the machine is stopped. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d, more than 0s, or off. Default: off."
  type        = string
  default     = null
}

variable "deadline_lease" {
  description = "When the machine is stopped. Allowed: a date and time with its offset (RFC 3339), such as 2027-01-31T18:00:00+01:00, or off. Default: off."
  type        = string
  default     = null
}

variable "deadline_budget" {
  description = "Money to spend in each budget_period; needs price_per_hour. Allowed: a positive amount, or off. Default: off."
  type        = string
  default     = null
}

variable "deadline_budget_period" {
  description = "The period of the budget. A budget without its period is an error. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d, at least 1h; or off without a budget. Default: off."
  type        = string
  default     = null
}

variable "cloud_local_data" {
  description = "Local disks lose their data when the machine stops. `keep` refuses while one may be in use; `discard` stops anyway. Allowed: keep or discard. Default: keep."
  type        = string
  default     = null

  validation {
    condition     = var.cloud_local_data == null || contains(["keep", "discard"], coalesce(var.cloud_local_data, "-"))
    error_message = "`cloud.local_data` is one of: keep or discard."
  }
}

variable "cloud_group" {
  description = "For a member of a group that replaces its machines: `notify` only tells people; `leave` first takes the machine out of the group. Allowed: notify or leave. Default: notify."
  type        = string
  default     = null

  validation {
    condition     = var.cloud_group == null || contains(["notify", "leave"], coalesce(var.cloud_group, "-"))
    error_message = "`cloud.group` is one of: notify or leave."
  }
}

variable "heartbeat_url" {
  description = "A web address that gets a small JSON object (instance, state, date). Allowed: a URL that begins with http:// or https://, or nothing. Default: nothing."
  type        = string
  default     = null
}

variable "heartbeat_every" {
  description = "Time between two heartbeats. Allowed: a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d, from 30s to 1d. Default: 5m."
  type        = string
  default     = null
}

variable "heartbeat_token_file" {
  description = "A file with the bearer token for `url`. Allowed: an absolute path, or nothing. Default: nothing."
  type        = string
  default     = null
}

variable "heartbeat_tag" {
  description = "In live mode, also write date and state to the instance tag `costguard-heartbeat`, at most every 10 minutes because clouds limit changes; needs one more right: `costguard permissions CLOUD --tag`. Allowed: true or false. Default: false."
  type        = bool
  default     = null
}

variable "sink_url" {
  description = "A web address that takes one JSON object for each step. With PUT each has a name of its own: `{instance}/{incident}/{attempt}-{step}-{time}.json` after an address that ends in `/`, or these placeholders in it. Allowed: a URL that begins with http:// or https://, or nothing; with PUT one that keeps every record apart. Default: nothing."
  type        = string
  default     = null
}

variable "sink_method" {
  description = "How to send to `url`: POST to a webhook; PUT to an object store, where no record overwrites another. Allowed: POST or PUT. Default: POST."
  type        = string
  default     = null

  validation {
    condition     = var.sink_method == null || contains(["POST", "PUT"], coalesce(var.sink_method, "-"))
    error_message = "`sink.method` is one of: POST or PUT."
  }
}

variable "sink_token_file" {
  description = "A file with the bearer token for `url`. Allowed: an absolute path, or nothing. Default: nothing."
  type        = string
  default     = null
}

variable "sink_syslog" {
  description = "A syslog server that listens on TCP. Allowed: host:port with a port from 1 to 65535, an IPv6 address in brackets ([2001:db8::1]:601), or nothing. Default: nothing."
  type        = string
  default     = null
}

variable "sink_tag" {
  description = "In live mode, also write the incident to the instance tag `costguard-incident`, which needs one more right: `costguard permissions CLOUD --tag`. A tag ends with a terminated machine. Allowed: true or false. Default: false."
  type        = bool
  default     = null
}

variable "notify_local_only" {
  description = "Allow live mode without a channel: warnings then reach only people at a terminal of this machine. Allowed: true or false. Default: false."
  type        = bool
  default     = null
}

variable "channels" {
  description = "Places beyond the machine that get messages: a name of yours, and where its addresses stand (file:/PATH, env:NAME, credential:NAME, secret:NAME). Never the addresses themselves: user data can be read on the machine."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.channels) : can(regex("^[a-z][a-z0-9_-]{0,31}$", name)) && !contains(["terminal", "wall", "task"], name)])
    error_message = "A channel's name begins with a small letter and has only small letters, digits, - and _, at most 32; it is not that of a channel of the machine (terminal, wall, task). Rename it."
  }

  validation {
    condition     = alltrue([for where in values(var.channels) : can(regex("^(file:/\\S+|env:[A-Za-z_]\\w*|credential:[\\w.-]+|secret:[A-Za-z0-9_+=.@:/-]+)$", where))])
    error_message = "A channel says where its addresses stand: file:/PATH, env:NAME, credential:NAME or secret:NAME. The addresses are secrets and belong there, not into user data."
  }
}

variable "channel_levels" {
  description = "The lowest level of message that a channel gets, by its name: info (as without one), warning or critical."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for level in values(var.channel_levels) : contains(["info", "warning", "critical"], level)])
    error_message = "A level is info, warning or critical."
  }
}

variable "settings" {
  description = "Any other option, by its path as `costguard run --set` takes it: { \"hold.max\" = \"8h\" }. docs/configuration.md lists them. A list is written `a,b` or as JSON."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setintersection(keys(var.settings), ["mode", "kill_action", "fallback", "kill_duration", "kill_threshold", "grace", "boot_grace", "unused_after", "price_per_hour", "currency", "deadline.lifetime", "deadline.lease", "deadline.budget", "deadline.budget_period", "cloud.local_data", "cloud.group", "heartbeat.url", "heartbeat.every", "heartbeat.token_file", "heartbeat.tag", "sink.url", "sink.method", "sink.token_file", "sink.syslog", "sink.tag", "notify.local_only"])) == 0
    error_message = "These have variables of their own, which say it better: mode, kill_action, fallback, kill_duration, kill_threshold, grace, boot_grace, unused_after, price_per_hour, currency, deadline_lifetime, deadline_lease, deadline_budget, deadline_budget_period, cloud_local_data, cloud_group, heartbeat_url, heartbeat_every, heartbeat_token_file, heartbeat_tag, sink_url, sink_method, sink_token_file, sink_syslog, sink_tag, notify_local_only."
  }
}

variable "wheel" {
  description = "Where the wheel of costguard is: https://…/costguard_agent-….whl, or its absolute path on the image. Null: costguard is on the image already."
  type        = string
  default     = null
}

variable "wheel_sha256" {
  description = "The SHA-256 of the wheel, which `sha256sum` prints: 64 hexadecimal digits. The machine refuses any other file."
  type        = string
  default     = null
}

variable "wheels" {
  description = "Where pip finds what costguard needs, instead of the package index that the machine is set to: an https:// address or an absolute path of a .tar.gz of wheels, or the absolute path of a folder of wheels on the image."
  type        = string
  default     = null
}

variable "wheels_sha256" {
  description = "The SHA-256 of the .tar.gz of `wheels`; a folder has none."
  type        = string
  default     = null
}

variable "python" {
  description = "An interpreter of costguard's own for images without Python 3.11 or newer in reach: an https:// address or absolute path of a .tar.gz with bin/python3 in it. Null: the image's, or one from its distribution."
  type        = string
  default     = null
}

variable "python_sha256" {
  description = "The SHA-256 of `python`."
  type        = string
  default     = null
}

variable "other_user_data" {
  description = "What else the machine's user data does: texts that begin with #! or #cloud-config. They run beside costguard's part, and neither waits for the other's success."
  type        = list(string)
  default     = []
  nullable    = false
}

locals {
  given = {
    "mode"                   = var.mode
    "kill_action"            = var.kill_action
    "fallback"               = var.fallback == null ? null : jsonencode(var.fallback)
    "kill_duration"          = var.kill_duration
    "kill_threshold"         = var.kill_threshold
    "grace"                  = var.grace
    "boot_grace"             = var.boot_grace
    "unused_after"           = var.unused_after
    "price_per_hour"         = var.price_per_hour
    "currency"               = var.currency
    "deadline.lifetime"      = var.deadline_lifetime
    "deadline.lease"         = var.deadline_lease
    "deadline.budget"        = var.deadline_budget
    "deadline.budget_period" = var.deadline_budget_period
    "cloud.local_data"       = var.cloud_local_data
    "cloud.group"            = var.cloud_group
    "heartbeat.url"          = var.heartbeat_url
    "heartbeat.every"        = var.heartbeat_every
    "heartbeat.token_file"   = var.heartbeat_token_file
    "heartbeat.tag"          = var.heartbeat_tag == null ? null : tostring(var.heartbeat_tag)
    "sink.url"               = var.sink_url
    "sink.method"            = var.sink_method
    "sink.token_file"        = var.sink_token_file
    "sink.syslog"            = var.sink_syslog
    "sink.tag"               = var.sink_tag == null ? null : tostring(var.sink_tag)
    "notify.local_only"      = var.notify_local_only == null ? null : tostring(var.notify_local_only)
  }
  all_settings = merge(
    { for path, value in local.given : path => value if value != null },
    { for name, where in var.channels : "notify.channels.${name}.urls" => where },
    { for name, level in var.channel_levels : "notify.channels.${name}.level" => level },
    var.settings,
  )
}
