variable "extra" {
  description = "The part of costguard that speaks to the cloud: aws, gcp or azure."
  type        = string

  validation {
    condition     = contains(["aws", "gcp", "azure"], var.extra)
    error_message = "extra is aws, gcp or azure."
  }
}

variable "settings" {
  description = "Options of costguard by their path, as text: { mode = \"live\", \"deadline.lifetime\" = \"7d\" }. An unknown path is an error."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "wheel" {
  description = "Where the wheel of costguard is: https://…/costguard_agent-….whl, or its absolute path on the image. Null: costguard is on the image already."
  type        = string
  default     = null

  validation {
    condition     = var.wheel == null || can(regex("^(https://[^\\s/@?#']+)?/[^\\s@?#']*costguard_agent-[^/\\s@?#']+\\.whl$", var.wheel))
    error_message = "wheel is an https:// address or an absolute path that ends in costguard_agent-….whl, without user, password or query: user data can be read on the machine, so a signed address does not belong there. Null where the image has costguard."
  }
}

variable "wheel_sha256" {
  description = "The SHA-256 of the wheel, which `sha256sum` prints: 64 hexadecimal digits. The machine refuses any other file."
  type        = string
  default     = null

  validation {
    condition     = var.wheel_sha256 == null || can(regex("^[0-9a-f]{64}$", var.wheel_sha256))
    error_message = "wheel_sha256 is 64 hexadecimal digits in small letters: set what `sha256sum FILE` prints."
  }
}

variable "wheels" {
  description = "Where pip finds what costguard needs, instead of the package index that the machine is set to: an https:// address or an absolute path of a .tar.gz of wheels, or the absolute path of a folder of wheels on the image."
  type        = string
  default     = null

  validation {
    condition     = var.wheels == null || can(regex("^(https://[^\\s/@?#']+/[^\\s@?#']*\\.tar\\.gz|/[^\\s@?#']*)$", var.wheels))
    error_message = "wheels is an https:// address that ends in .tar.gz, or an absolute path of such a file or of a folder of wheels, without user, password or query."
  }
}

variable "wheels_sha256" {
  description = "The SHA-256 of the .tar.gz of `wheels`; a folder has none."
  type        = string
  default     = null

  validation {
    condition     = var.wheels_sha256 == null || can(regex("^[0-9a-f]{64}$", var.wheels_sha256))
    error_message = "wheels_sha256 is 64 hexadecimal digits in small letters: set what `sha256sum FILE` prints."
  }
}

variable "python" {
  description = "An interpreter of costguard's own for images without Python 3.11 or newer in reach: an https:// address or absolute path of a .tar.gz with bin/python3 in it. Null: the image's, or one from its distribution."
  type        = string
  default     = null

  validation {
    condition     = var.python == null || can(regex("^(https://[^\\s/@?#']+)?/[^\\s@?#']*\\.tar\\.gz$", var.python))
    error_message = "python is an https:// address or an absolute path that ends in .tar.gz, without user, password or query."
  }
}

variable "python_sha256" {
  description = "The SHA-256 of `python`."
  type        = string
  default     = null

  validation {
    condition     = var.python_sha256 == null || can(regex("^[0-9a-f]{64}$", var.python_sha256))
    error_message = "python_sha256 is 64 hexadecimal digits in small letters: set what `sha256sum FILE` prints."
  }
}

variable "other_user_data" {
  description = "What else the machine's user data does: texts that begin with #! or #cloud-config. They run beside costguard's part, and neither waits for the other's success."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for text in var.other_user_data : can(regex("^(#!|#cloud-config\\s)", text))])
    error_message = "Each text of other_user_data begins with #! (a script) or with a line #cloud-config. Take a multi-part text apart, or add the output `part` to it yourself."
  }
}
