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

variable "create_role" {
  description = "Create the custom role (and the one for secrets) in role_scope. Without it the output `role_actions` says what it needs."
  type        = bool
  default     = false
  nullable    = false
}

variable "role_scope" {
  description = "Where the role can be assigned: the id of a resource group or of a subscription."
  type        = string
  default     = null

  validation {
    condition     = var.role_scope == null || can(regex("(?i)^/subscriptions/[^/]+(/resourceGroups/[^/]+)?$", var.role_scope))
    error_message = "role_scope is the id of a resource group or of a subscription: set azurerm_resource_group.x.id."
  }
}

variable "machines" {
  description = "Machines whose own identity gets the role, each on itself: a name of yours, with the machine's id and its identity's principal_id. They have to exist: set azurerm_linux_virtual_machine.x.id and .identity[0].principal_id. It needs create_role."
  type        = map(object({ id = string, principal_id = string }))
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for one in values(var.machines) : can(regex("(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft.Compute/(virtualMachines|virtualMachineScaleSets)/[^/]+$", one.id))])
    error_message = "id is that of a virtual machine or of a scale set: set azurerm_linux_virtual_machine.x.id. With the id of a resource group the role would hold for all of its machines."
  }

  validation {
    condition     = alltrue([for one in values(var.machines) : can(regex("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", one.principal_id))])
    error_message = "principal_id is that of the machine's own identity: set azurerm_linux_virtual_machine.x.identity[0].principal_id."
  }
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

variable "secret_ids" {
  description = "Secrets of key vaults that channels name as secret:VAULT/SECRET: a name of yours, and the id of the resource without its version. `machines` may then read them; the vault has to use role-based access. It needs create_role."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for id in values(var.secret_ids) : can(regex("(?i)^/subscriptions/.+/providers/Microsoft.KeyVault/vaults/[^/]+/secrets/[^/]+$", id))])
    error_message = "secret_ids are ids of resources in the Resource Manager, not addresses in the vault: set azurerm_key_vault_secret.x.resource_versionless_id."
  }
}
