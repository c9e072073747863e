# An Auto Scaling group whose idle members leave it: one fewer is desired, and the member ends.
#
# Running it costs money for the instances; `terraform destroy` ends that.
#
# What a change does: of a setting, a new version of the launch template, in place. No instance restarts; new ones have it,
# and an instance refresh (aws autoscaling start-instance-refresh) replaces those that run when you say so.

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

variable "subnets" {
  description = "Where the instances run."
  type        = list(string)
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
  description = "How long a member must be idle."
  type        = string
  default     = "60m"
}

module "costguard" {
  source = "../.."

  name            = "costguard-workers"
  wheel           = var.wheel
  wheel_sha256    = var.wheel_sha256
  create_identity = true

  mode          = "dry-run" # "live" needs channels, and for terminate a sink
  kill_action   = "terminate"
  kill_duration = var.kill_duration
  cloud_group   = "leave"
  group_names   = ["gpu-workers"]
}

resource "aws_launch_template" "workers" {
  name          = "gpu-workers"
  image_id      = var.ami
  instance_type = "g5.xlarge"
  user_data     = module.costguard.user_data_base64

  iam_instance_profile {
    name = module.costguard.instance_profile_name
  }
}

resource "aws_autoscaling_group" "workers" {
  name                = "gpu-workers"
  min_size            = 0
  max_size            = 4
  desired_capacity    = 1
  vpc_zone_identifier = var.subnets

  launch_template {
    id      = aws_launch_template.workers.id
    version = "$Latest"
  }

  lifecycle {
    ignore_changes = [desired_capacity] # members lower it as they leave
  }
}
