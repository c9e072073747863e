# Live, with most of what can be set, on an instance whose role and user data are yours already.
#
# Running it costs money for the instance and the secret; `terraform destroy` ends that.
#
# What a change does: of user_data, nothing to this instance (ignore_changes); of the policy and the secret, in place.
# Without ignore_changes a change of user_data stops and starts the instance. With user_data_replace_on_change = true it
# would replace it: leave that out.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0, < 7.0"
    }
  }
}

variable "ami" {
  description = "An image with cloud-init."
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

variable "kill_duration" {
  description = "How long it must be idle."
  type        = string
  default     = "45m"
}

# What you have: a role with rights of your own, and its profile.
resource "aws_iam_role" "training" {
  name = "training"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_instance_profile" "training" {
  name = "training"
  role = aws_iam_role.training.name
}

# Its text (one address a line, see docs/notify.md) is put in by hand or by another tool, so that it is in no state:
#   aws secretsmanager put-secret-value --secret-id costguard/team --secret-string file://team.urls
resource "aws_secretsmanager_secret" "team" {
  name                    = "costguard/team"
  recovery_window_in_days = 0 # else its name is taken for a month after destroy
}

module "costguard" {
  source = "../.."

  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256
  roles        = [aws_iam_role.training.name]
  secret       = aws_secretsmanager_secret.team.arn

  mode           = "live"
  kill_action    = "stop"
  kill_duration  = var.kill_duration
  grace          = "15m"
  price_per_hour = "1.006"
  channels       = { team = "secret:${aws_secretsmanager_secret.team.name}" }

  deadline_lifetime = "14d"
  heartbeat_url     = "https://beat.example.org/costguard"
  heartbeat_every   = "5m"
  heartbeat_tag     = true
  sink_url          = "https://records.example.org/costguard/"
  sink_method       = "PUT"
  sink_tag          = true
  settings          = { "hold.max" = "8h", "admin.minimum_grace" = "5m" }

  other_user_data = ["#cloud-config\npackages: [htop]\n"]
}

resource "aws_instance" "gpu" {
  ami                  = var.ami
  instance_type        = "g5.xlarge"
  iam_instance_profile = aws_iam_instance_profile.training.name
  user_data            = module.costguard.user_data

  metadata_options {
    http_tokens            = "required"
    instance_metadata_tags = "enabled" # the tags costguard and costguard-hold are then obeyed
  }

  lifecycle {
    ignore_changes = [user_data, user_data_base64]
  }

  # Before the first plan of the agent, which else finds rights missing for some minutes.
  depends_on = [module.costguard]
}

output "instance_id" {
  description = "The guarded instance."
  value       = aws_instance.gpu.id
}

output "config" {
  description = "What the machine gets as its configuration."
  value       = module.costguard.config
}
