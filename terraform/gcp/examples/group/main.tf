# A managed instance group whose idle members leave it: the group wants one fewer.
#
# Running it costs money for the machines; `terraform destroy` ends that.
#
# What a change does: a template cannot be changed, so a setting makes a new one (create_before_destroy) and the group is set
# to it in place. With OPPORTUNISTIC no machine restarts; new ones have it. PROACTIVE would replace those that run.

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

resource "google_service_account" "workers" {
  project    = var.project
  account_id = "gpu-workers"
}

module "costguard" {
  source = "../.."

  project      = var.project
  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256
  role_id      = "costguardWorkers"
  create_role  = true
  group        = { zone = "europe-west4-a", prefix = "gpu-workers-", email = google_service_account.workers.email }

  mode        = "dry-run" # "live" needs channels
  cloud_group = "leave"
}

resource "google_compute_instance_template" "workers" {
  project      = var.project
  name_prefix  = "gpu-workers-"
  machine_type = "g2-standard-4"
  metadata     = module.costguard.metadata

  disk {
    source_image = "debian-cloud/debian-12"
  }

  network_interface {
    network = "default"
  }

  scheduling {
    on_host_maintenance = "TERMINATE"
  }

  service_account {
    email  = google_service_account.workers.email
    scopes = ["cloud-platform"]
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_instance_group_manager" "workers" {
  project            = var.project
  name               = "gpu-workers"
  zone               = "europe-west4-a"
  base_instance_name = "gpu-workers"
  target_size        = 1

  version {
    instance_template = google_compute_instance_template.workers.self_link_unique
  }

  update_policy {
    type                  = "OPPORTUNISTIC"
    minimal_action        = "REPLACE"
    max_surge_fixed       = 0
    max_unavailable_fixed = 1
  }

  lifecycle {
    ignore_changes = [target_size] # members lower it as they leave
  }
}
