# A dry run on an instance that you already have: it watches, warns, and stops nothing.
#
# Running it costs money for the instance; `terraform destroy` ends that.
#
# What a change does: of user_data, nothing to this instance (ignore_changes below; without it EC2 would stop and start the
# instance, and cloud-init would still not run it again). So change /etc/costguard/config.toml on the machine, or replace it.
# Of iam_instance_profile: in place.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0, < 7.0"
    }
  }
}

variable "ami" {
  description = "An image with cloud-init: Ubuntu 22.04 or 24.04, Debian 12, Amazon Linux 2023, or a deep-learning image on one of them."
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

  wheel           = var.wheel
  wheel_sha256    = var.wheel_sha256
  create_identity = true # only because this instance has no role of its own
}

resource "aws_instance" "gpu" {
  ami                  = var.ami
  instance_type        = "g5.xlarge"
  iam_instance_profile = module.costguard.instance_profile_name
  user_data            = module.costguard.user_data

  lifecycle {
    ignore_changes = [user_data, user_data_base64]
  }
}

output "instance_id" {
  description = "The guarded instance."
  value       = aws_instance.gpu.id
}
