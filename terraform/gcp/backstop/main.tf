locals {
  ids   = join(",", [for one in values(var.machines) : "\"${one.id}\""])
  which = "resource.type=\"gce_instance\" AND resource.labels.instance_id=one_of(${local.ids})"

  # As the guard's own idea of rest on AWS: half a core, and 5 MB within five minutes.
  quiet = {
    cpu      = { metric = "instance/cpu/usage_time", aligner = "ALIGN_RATE", period = 60, below = 0.5, words = "less than half a core in use" }
    received = { metric = "instance/network/received_bytes_count", aligner = "ALIGN_DELTA", period = 300, below = 5000000, words = "less than 5 MB received in five minutes" }
    sent     = { metric = "instance/network/sent_bytes_count", aligner = "ALIGN_DELTA", period = 300, below = 5000000, words = "less than 5 MB sent in five minutes" }
  }

  stopped = var.stop_at == null ? {} : var.machines
  watched = var.stale_after_minutes == null ? [] : [var.stale_after_minutes]

  # In PromQL. Whoever has just started owes no heartbeat yet, and one that is off is not seen at all.
  heartbeats = replace("${var.name}-heartbeats", "-", "_")
  these      = "{monitored_resource=\"gce_instance\",instance_id=~\"${join("|", [for one in values(var.machines) : one.id])}\"}"
}

# A guard that is well stops such a machine, or somebody holds it.
resource "google_monitoring_alert_policy" "quiet" {
  project               = var.project
  display_name          = "${var.name}: quiet for ${var.quiet_hours} h, and still running"
  combiner              = "AND_WITH_MATCHING_RESOURCE"
  notification_channels = var.notification_channels

  dynamic "conditions" {
    for_each = local.quiet

    content {
      display_name = conditions.value.words

      condition_threshold {
        filter          = "metric.type=\"compute.googleapis.com/${conditions.value.metric}\" AND ${local.which}"
        comparison      = "COMPARISON_LT"
        threshold_value = conditions.value.below
        duration        = "${floor(var.quiet_hours * 3600)}s"

        # A gap is no rest: a machine that has just started, or cannot be seen, is told by nobody.
        evaluation_missing_data = "EVALUATION_MISSING_DATA_INACTIVE"

        aggregations {
          alignment_period     = "${conditions.value.period}s"
          per_series_aligner   = conditions.value.aligner
          cross_series_reducer = "REDUCE_SUM"
          group_by_fields      = ["resource.label.project_id", "resource.label.zone", "resource.label.instance_id"]
        }
      }
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "The provider's metrics of this machine were quiet for ${var.quiet_hours} hours, and it runs. Is its guard alive? `costguard status` on the machine says why it is up; nobody there: `gcloud compute instances stop`. A job on the GPU alone looks the same from outside."
  }

  alert_strategy {
    notification_prompts = ["OPENED"]
  }
}

# A label cannot be watched; that it was written can: each change of labels stands in the log of admin activity, which nobody can switch off.
resource "google_logging_metric" "heartbeats" {
  count = length(local.watched)

  project     = var.project
  name        = local.heartbeats
  description = "Changes of an instance's labels: costguard's heartbeats"
  filter      = "log_id(\"cloudaudit.googleapis.com/activity\") AND ${local.which} AND protoPayload.methodName=~\"compute\\.instances\\.setLabels$\" AND NOT severity>=ERROR"

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
}

# Silence is unknown, and unknown is never idle: people are told, and nothing is stopped.
resource "google_monitoring_alert_policy" "silent" {
  for_each = toset([for minutes in local.watched : tostring(minutes)])

  project               = var.project
  display_name          = "${var.name}: no heartbeat for ${each.key} min, and still running"
  combiner              = "OR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "runs, and wrote no heartbeat for ${each.key} minutes"

    condition_prometheus_query_language {
      query               = "max by (instance_id) (compute_googleapis_com:instance_uptime_total${local.these}) > ${each.key * 60} unless on (instance_id) sum by (instance_id) (increase(logging_googleapis_com:user_${one(google_logging_metric.heartbeats[*].name)}${local.these}[${each.key}m])) > 0"
      duration            = "600s" # a metric of logs may be ten minutes late
      evaluation_interval = "60s"
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "The guard of this machine is dead, or cannot write the machine's labels. Nothing ends its bill now. `costguard doctor` on the machine says what is wrong; nobody there: `gcloud compute instances stop`."
  }

  alert_strategy {
    notification_prompts = ["OPENED"]

    notification_channel_strategy {
      notification_channel_names = var.notification_channels
      renotify_interval          = "86400s"
    }
  }
}

resource "google_service_account" "stops" {
  count = var.stop_at == null ? 0 : 1

  project      = var.project
  account_id   = var.name
  display_name = "Stops machines at the hour that their owner set"
}

resource "google_project_iam_custom_role" "stops" {
  count = var.stop_at == null ? 0 : 1

  project     = var.project
  role_id     = replace(var.name, "-", "_")
  title       = "${var.name}, stops"
  description = "Stops one machine. Bind it to the machine, not to the project."
  permissions = ["compute.instances.stop"]
}

resource "google_compute_instance_iam_member" "stops" {
  for_each = local.stopped

  project       = var.project
  zone          = each.value.zone
  instance_name = each.value.name
  role          = one(google_project_iam_custom_role.stops[*].name)
  member        = "serviceAccount:${one(google_service_account.stops[*].email)}"
}

# Compute Engine's own instance schedules need a right on every machine of the project, and a run limit of Terraform's makes
# the machine anew. This touches nothing of the machine.
resource "google_cloud_scheduler_job" "stops" {
  for_each = local.stopped

  project          = var.project
  region           = var.region
  name             = "${var.name}-${each.key}"
  description      = "Stops ${each.value.name}, whatever it does"
  schedule         = var.stop_at
  time_zone        = var.time_zone
  attempt_deadline = "60s"

  retry_config {
    retry_count          = 5
    min_backoff_duration = "30s"
  }

  http_target {
    http_method = "POST"
    uri         = "https://compute.googleapis.com/compute/v1/projects/${var.project}/zones/${each.value.zone}/instances/${each.value.name}/stop${var.discard_local_ssd == null ? "" : "?discardLocalSsd=${var.discard_local_ssd}"}"

    oauth_token {
      service_account_email = one(google_service_account.stops[*].email)
      scope                 = "https://www.googleapis.com/auth/compute"
    }
  }
}

# Who watches the watcher: a stop that Compute Engine has refused.
resource "google_monitoring_alert_policy" "fails" {
  count = var.stop_at == null ? 0 : 1

  project               = var.project
  display_name          = "${var.name}: a stop at its hour has failed"
  combiner              = "OR"
  notification_channels = var.notification_channels

  conditions {
    display_name = "the schedule logs an error"

    condition_matched_log {
      filter = "resource.type=\"cloud_scheduler_job\" AND resource.labels.job_id=~\"^${var.name}-\" AND severity>=ERROR"
    }
  }

  alert_strategy {
    notification_rate_limit {
      period = "3600s"
    }
  }
}
