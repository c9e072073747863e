variable "project" {
  description = "The project of the machines, where the roles are created. Null: the provider's own."
  type        = string
  default     = null

  validation {
    condition     = var.project == null || can(regex("^([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project is the id of a project, not its name or number: such as my-project-123."
  }
}

variable "role_id" {
  description = "The id of the custom role; the one to leave a group and the one for a secret end in Group and Secret."
  type        = string
  default     = "costguardSelf"
  nullable    = false

  validation {
    condition     = can(regex("^[A-Za-z0-9_.]{3,56}$", var.role_id))
    error_message = "role_id has 3 to 56 letters, digits, _ and . , such as costguardTraining."
  }
}

variable "create_role" {
  description = "Create the custom roles in the project. Without it the output `permissions` says what they need."
  type        = bool
  default     = false
  nullable    = false
}

variable "instances" {
  description = "Machines whose service account gets the role, each on itself: a name of yours, with zone, name and the account's email. They have to exist: set google_compute_instance.x.zone and so on. It needs create_role."
  type        = map(object({ zone = string, name = string, email = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for one in values(var.instances) : can(regex("^[a-z0-9-]+-[a-z]$", one.zone))])
    error_message = "zone is a zone, such as europe-west4-a, not a region nor an address."
  }

  validation {
    condition     = alltrue([for one in values(var.instances) : can(regex("^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", one.name))])
    error_message = "name is the name of a machine, not its address or number: set google_compute_instance.x.name."
  }

  validation {
    condition     = alltrue([for one in values(var.instances) : can(regex("^[^@:\\s]+@[^@\\s]+$", one.email))])
    error_message = "email is the address of a service account, without serviceAccount: before it: set google_service_account.x.email."
  }
}

variable "group" {
  description = "A managed instance group, whose members have names that nobody knows before: the prefix of their names and their account's email. The role is then bound to all machines of the project whose names begin so: within the group any member could end another one. With cloud_group = \"leave\" also the right to leave. It needs create_role and project."
  type        = object({ zone = string, prefix = string, email = string })
  default     = null

  validation {
    condition     = var.group == null || can(regex("^[a-z][a-z0-9-]{2,60}-$", var.group.prefix))
    error_message = "group.prefix is the base_instance_name of the group with a - after it, such as gpu-workers-: a shorter one would hold for other machines too."
  }

  validation {
    condition     = var.group == null || can(regex("^[a-z0-9-]+-[a-z]$", var.group.zone))
    error_message = "group.zone is a zone, such as europe-west4-a, not a region nor an address."
  }

  validation {
    condition     = var.group == null || can(regex("^[^@:\\s]+@[^@\\s]+$", var.group.email))
    error_message = "group.email is the address of a service account, without serviceAccount: before it: set google_service_account.x.email."
  }
}

variable "create_identity" {
  description = "Create a service account without any other right, for machines that have none of their own. Two machines with one account can end each other."
  type        = bool
  default     = false
  nullable    = false
}

variable "account_id" {
  description = "The id of that service account."
  type        = string
  default     = "costguard"
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.account_id))
    error_message = "account_id has 6 to 30 small letters, digits and -, and begins with a letter."
  }
}

variable "secret" {
  description = "The secret of Secret Manager that a channel names as secret:NAME: its id. `secret_emails` may then read it. It needs create_role."
  type        = string
  default     = null

  validation {
    condition     = var.secret == null || can(regex("^(projects/[a-z0-9.:-]+/secrets/)?[A-Za-z0-9_-]{1,255}$", var.secret))
    error_message = "secret is the id of a secret, or projects/PROJECT/secrets/SECRET, not its text: set google_secret_manager_secret.x.secret_id."
  }
}

variable "secret_emails" {
  description = "The service accounts that may read the secret: a name of yours, and the account's email."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for email in values(var.secret_emails) : can(regex("^[^@:\\s]+@[^@\\s]+$", email))])
    error_message = "secret_emails are addresses of service accounts, without serviceAccount: before them: set google_service_account.x.email."
  }
}
