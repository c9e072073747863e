variable "role_name" {
  description = "The name of the custom role, unique in the directory; the one for a secret ends in `secret`."
  type        = string
  default     = "costguard"
  nullable    = false

  validation {
    condition     = can(regex("^\\S.{0,100}\\S$", var.role_name))
    error_message = "role_name has 2 to 102 characters, such as costguard training."
  }
}

variable "role_scope" {
  description = "Where the role can be assigned: the id of a resource group or of a subscription. Setting it creates the role; without it the output `role_actions` says what it needs."
  type        = string
  default     = null

  validation {
    condition     = var.role_scope == null || can(regex("(?i)^/subscriptions/[^/]+(/resourceGroups/[^/]+)?$", var.role_scope))
    error_message = "role_scope is the id of a resource group or of a subscription: set azurerm_resource_group.x.id."
  }
}

variable "machines" {
  description = "Machines whose own identity gets the role, each on itself: a name of yours, with the machine's id and its identity's principal_id. They have to exist: set azurerm_linux_virtual_machine.x.id and .identity[0].principal_id. It needs role_scope."
  type        = map(object({ id = string, principal_id = string }))
  default     = {}
  nullable    = false
}

variable "uniform_scale_set" {
  description = "Whether `machines` are uniform scale sets, whose members have rights of another name. Any member can then end another one: the role is assigned on the whole set."
  type        = bool
  default     = false
  nullable    = false
}

variable "create_identity" {
  description = "Create a user-assigned identity in the resource group of role_scope, for machines without one. Better is the machine's own: identity { type = \"SystemAssigned\" }. It needs location, and a resource group as role_scope."
  type        = bool
  default     = false
  nullable    = false
}

variable "location" {
  description = "Where the identity is created."
  type        = string
  default     = null
}

variable "secret_id" {
  description = "The secret of a key vault that a channel names as secret:VAULT/SECRET: the id of the resource, without its version. The machines may then read it; the vault has to use role-based access. It needs role_scope."
  type        = string
  default     = null

  validation {
    condition     = var.secret_id == null || can(regex("(?i)^/subscriptions/.+/providers/Microsoft.KeyVault/vaults/[^/]+/secrets/[^/]+$", var.secret_id))
    error_message = "secret_id is the id of the resource in the Resource Manager, not the address in the vault: set azurerm_key_vault_secret.x.resource_versionless_id."
  }
}
