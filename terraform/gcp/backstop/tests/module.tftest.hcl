# No account is needed.
mock_provider "google" {}

variables {
  project               = "my-project"
  machines              = { gpu = { zone = "europe-west4-a", name = "gpu-1", id = "1234567890" }, other = { zone = "europe-west4-b", name = "gpu-2", id = "987" } }
  notification_channels = ["projects/my-project/notificationChannels/1"]
}

run "it_tells_and_has_no_right" {
  command = plan

  assert {
    condition     = length(google_cloud_scheduler_job.stops) + length(google_service_account.stops) + length(google_compute_instance_iam_member.stops) + length(google_project_iam_custom_role.stops) == 0
    error_message = "By default people are told, and nothing may stop anything."
  }

  assert {
    condition     = length(google_logging_metric.heartbeats) + length(google_monitoring_alert_policy.silent) == 0 && output.heartbeat_policy == null
    error_message = "Heartbeats are watched only where guards write them."
  }

  assert {
    condition     = alltrue([for one in google_monitoring_alert_policy.quiet.conditions : strcontains(one.condition_threshold[0].filter, "instance_id=one_of(\"1234567890\",\"987\")") && one.condition_threshold[0].duration == "21600s" && one.condition_threshold[0].evaluation_missing_data == "EVALUATION_MISSING_DATA_INACTIVE"])
    error_message = "Each condition is about these machines, for six hours, and a gap is not quiet."
  }

  assert {
    condition     = length(google_monitoring_alert_policy.quiet.conditions) == 3 && google_monitoring_alert_policy.quiet.combiner == "AND_WITH_MATCHING_RESOURCE"
    error_message = "Processors and both ways of the network of one machine are quiet."
  }
}

run "a_stop_at_its_hour" {
  command = apply

  variables {
    stop_at   = "0 22 * * 5"
    time_zone = "Europe/Berlin"
    region    = "europe-west1"
  }

  assert {
    condition     = google_cloud_scheduler_job.stops["gpu"].http_target[0].uri == "https://compute.googleapis.com/compute/v1/projects/my-project/zones/europe-west4-a/instances/gpu-1/stop" && google_cloud_scheduler_job.stops["gpu"].http_target[0].http_method == "POST"
    error_message = "It asks Compute Engine to stop this machine."
  }

  assert {
    condition     = google_cloud_scheduler_job.stops["gpu"].http_target[0].oauth_token[0].service_account_email == google_service_account.stops[0].email
    error_message = "As its own account."
  }

  assert {
    condition     = google_project_iam_custom_role.stops[0].permissions == toset(["compute.instances.stop"]) && google_compute_instance_iam_member.stops["other"].instance_name == "gpu-2" && google_compute_instance_iam_member.stops["other"].role == google_project_iam_custom_role.stops[0].name
    error_message = "It may stop these machines, and nothing else."
  }

  assert {
    condition     = length(google_monitoring_alert_policy.fails) == 1
    error_message = "A stop that is refused is told."
  }
}

run "heartbeats" {
  command = plan

  variables {
    stale_after_minutes = 45
  }

  assert {
    condition     = google_logging_metric.heartbeats[0].name == "costguard_backstop_heartbeats" && strcontains(google_logging_metric.heartbeats[0].filter, "instance_id=one_of(\"1234567890\",\"987\")") && strcontains(google_logging_metric.heartbeats[0].filter, "protoPayload.methodName=~\"compute\\.instances\\.setLabels$\"")
    error_message = "What is counted is that these machines' labels are written."
  }

  assert {
    condition     = google_monitoring_alert_policy.silent["45"].conditions[0].condition_prometheus_query_language[0].query == "max by (instance_id) (compute_googleapis_com:instance_uptime_total{monitored_resource=\"gce_instance\",instance_id=~\"1234567890|987\"}) > 2700 unless on (instance_id) sum by (instance_id) (increase(logging_googleapis_com:user_costguard_backstop_heartbeats{monitored_resource=\"gce_instance\",instance_id=~\"1234567890|987\"}[45m])) > 0"
    error_message = "Told is who has run for so long, and wrote none in that time: not who was just started, and not who is off."
  }

  assert {
    condition     = google_monitoring_alert_policy.silent["45"].notification_channels == tolist(["projects/my-project/notificationChannels/1"]) && google_monitoring_alert_policy.silent["45"].alert_strategy[0].notification_channel_strategy[0].renotify_interval == "86400s"
    error_message = "People are told, and daily again."
  }

  assert {
    condition     = length(google_cloud_scheduler_job.stops) + length(google_service_account.stops) + length(google_compute_instance_iam_member.stops) + length(google_project_iam_custom_role.stops) == 0
    error_message = "Silence is unknown: it stops nothing."
  }
}

run "local_disks" {
  command = plan

  variables {
    stop_at           = "0 22 * * *"
    region            = "europe-west1"
    discard_local_ssd = true
  }

  assert {
    condition     = endswith(google_cloud_scheduler_job.stops["gpu"].http_target[0].uri, "/stop?discardLocalSsd=true")
    error_message = "What becomes of local SSDs is said."
  }
}

run "a_schedule_without_a_region" {
  command = plan
  variables { stop_at = "0 22 * * *" }
  expect_failures = [output.jobs]
}

run "every_minute" {
  command = plan
  variables {
    stop_at = "* * * * *"
    region  = "europe-west1"
  }
  expect_failures = [var.stop_at]
}

run "every_hour" {
  command = plan
  variables {
    stop_at = "0 * * * *"
    region  = "europe-west1"
  }
  expect_failures = [var.stop_at]
}

run "what_is_wrong" {
  command = plan
  variables {
    project               = "123456789"
    machines              = {}
    notification_channels = ["ops@example.org"]
    quiet_hours           = 48
    stale_after_minutes   = 12
    name                  = "Backstop"
    region                = "europe-west4-a"
    time_zone             = "W. Europe Standard Time"
  }
  expect_failures = [var.project, var.machines, var.notification_channels, var.quiet_hours, var.stale_after_minutes, var.name, var.region, var.time_zone]
}
