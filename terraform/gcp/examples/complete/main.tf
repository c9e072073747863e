# Live, with most of what can be set, on a machine with a service account of its own.
#
# Running it costs money for the machine and the secret; `terraform destroy` ends that.
#
# What a change does: of metadata, in place, taken at the next boot; of roles and bindings, in place.

terraform {
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0, < 8.0"
    }
  }
}

variable "project" {
  description = "The id of your project."
  type        = string
}

variable "wheel" {
  description = "Where you put the wheel that `make wheel` builds."
  type        = string
}

variable "wheel_sha256" {
  description = "What sha256sum prints for it."
  type        = string
}

resource "google_service_account" "gpu" {
  project    = var.project
  account_id = "gpu-training"
}

# Its text (one address a line, see docs/notify.md) is put in by hand, so that it is in no state:
#   gcloud secrets versions add costguard-team --data-file=team.urls
resource "google_secret_manager_secret" "team" {
  project   = var.project
  secret_id = "costguard-team"

  replication {
    auto {}
  }
}

module "costguard" {
  source = "../.."

  project      = var.project
  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256

  create_role   = true
  instances     = { gpu = { zone = google_compute_instance.gpu.zone, name = google_compute_instance.gpu.name, email = google_service_account.gpu.email } }
  secret        = google_secret_manager_secret.team.secret_id
  secret_emails = { gpu = google_service_account.gpu.email }

  mode              = "live"
  kill_action       = "stop"
  kill_duration     = "45m"
  price_per_hour    = "0.71"
  channels          = { team = "secret:costguard-team" }
  deadline_lifetime = "14d"
  heartbeat_url     = "https://beat.example.org/costguard"
  heartbeat_tag     = true
  sink_url          = "https://records.example.org/costguard/"
  sink_method       = "PUT"
  settings          = { "hold.max" = "8h" }
}

resource "google_compute_instance" "gpu" {
  project      = var.project
  name         = "gpu"
  zone         = "europe-west4-a"
  machine_type = "g2-standard-4"

  metadata = merge(module.costguard.metadata, {
    enable-oslogin = "TRUE"
    startup-script = "${module.costguard.startup_script}\n/opt/mine/start\n"
  })

  boot_disk {
    initialize_params {
      image = "debian-cloud/debian-12"
    }
  }

  network_interface {
    network = "default"
  }

  scheduling {
    on_host_maintenance = "TERMINATE"
  }

  service_account {
    email  = google_service_account.gpu.email
    scopes = ["cloud-platform"]
  }
}
