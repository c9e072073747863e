# A dry run on a machine that you already have: it watches, warns, and stops nothing.
#
# Running it costs money for the machine; `terraform destroy` ends that.
#
# What a change does: of metadata, in place, without a restart; the machine takes it at its next boot.
# metadata_startup_script would replace the machine at each change: leave it out. A change of the service account or of its
# scopes stops the machine, and needs allow_stopping_for_update.

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

module "costguard" {
  source = "../.."

  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256
}

resource "google_compute_instance" "gpu" {
  project      = var.project
  name         = "gpu"
  zone         = "europe-west4-a"
  machine_type = "g2-standard-4"
  metadata     = module.costguard.metadata

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
}
