output "alert_policy" {
  description = "The policy that tells of machines that are quiet and run."
  value       = google_monitoring_alert_policy.quiet.name
}

output "heartbeat_policy" {
  description = "The policy that tells of machines that run and are silent; null where heartbeats are not watched."
  value       = one([for policy in google_monitoring_alert_policy.silent : policy.name])
}

output "jobs" {
  description = "The schedules that stop, by your name of the machine: `gcloud scheduler jobs pause` leaves one out."
  value       = { for name, job in google_cloud_scheduler_job.stops : name => job.name }

  precondition {
    condition     = var.stop_at == null || var.region != null
    error_message = "A schedule lives somewhere: set region, such as europe-west1."
  }
}
