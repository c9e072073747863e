variable "name" {
  description = "The name of the policy, and of the role and the instance profile where they are created."
  type        = string
  default     = "costguard"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9+=,.@_-]{1,64}$", var.name))
    error_message = "name is a name of IAM: 1 to 64 letters, digits and +=,.@_- , such as costguard-training."
  }
}

variable "roles" {
  description = "Names of roles that the instances already have: each gets the policy. Empty: attach the output `policy` yourself."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for role in var.roles : can(regex("^[A-Za-z0-9+=,.@_-]{1,64}$", role))])
    error_message = "roles are names of roles, not ARNs nor names of instance profiles: set aws_iam_role.x.name."
  }
}

variable "create_identity" {
  description = "Create a role and an instance profile with nothing but the policy, for instances that have none. EC2 takes one profile for an instance."
  type        = bool
  default     = false
  nullable    = false
}

variable "group_names" {
  description = "The Auto Scaling groups whose members may leave them, with cloud_group = \"leave\". Within a group any member can make another one leave: the right cannot be limited further."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for name in var.group_names : can(regex("^[^:*?]{1,255}$", name))])
    error_message = "group_names are names of Auto Scaling groups, not ARNs, and without * and ?, which would mean other groups too: set aws_autoscaling_group.x.name."
  }
}

variable "secret" {
  description = "The secret of Secrets Manager that a channel names as secret:NAME: its name, or its ARN. The policy then allows to read it."
  type        = string
  default     = null

  validation {
    condition     = var.secret == null || can(regex("^(arn:[a-z0-9-]+:secretsmanager:[a-z0-9-]+:\\d{12}:secret:[A-Za-z0-9/_+=.@-]+|[A-Za-z0-9/_+=.@-]{1,512})$", var.secret))
    error_message = "secret is the name or the ARN of a secret in Secrets Manager, not its text: set aws_secretsmanager_secret.x.arn."
  }
}

variable "tags" {
  description = "Tags of what this module creates."
  type        = map(string)
  default     = {}
  nullable    = false
}
