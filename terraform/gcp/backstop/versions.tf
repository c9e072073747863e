terraform {
  # Tried with Terraform 1.11, and the schema of the provider 6.50.
  required_version = ">= 1.5.7, < 2.0.0"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0, < 8.0"
    }
  }
}
