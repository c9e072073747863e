# A flexible scale set of machines, each of which may delete itself: the set becomes one smaller.
#
# Running it costs money for the machines; `terraform destroy` ends that.
#
# What a change does: of user_data, in place in the model of the set; machines that run keep theirs, new ones have it.
# The members share an identity, because they have no names before they exist: any member can end another one of this group.

terraform {
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0, < 5.0"
    }
  }
}

provider "azurerm" {
  features {}
}

variable "subnet_id" {
  description = "Where the machine runs."
  type        = string
}

variable "ssh_key" {
  description = "The public key of its administrator."
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

resource "azurerm_resource_group" "gpu" {
  name     = "gpu"
  location = "westeurope"
}

module "costguard" {
  source = "../.."

  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256

  role_name       = "costguard workers"
  create_role     = true
  role_scope      = azurerm_resource_group.gpu.id
  create_identity = true
  location        = azurerm_resource_group.gpu.location

  mode        = "dry-run" # "live" needs channels and a sink
  kill_action = "terminate"
  cloud_group = "leave"
}

resource "azurerm_role_assignment" "workers" {
  scope              = azurerm_resource_group.gpu.id
  role_definition_id = module.costguard.role_id
  principal_id       = module.costguard.identity_principal_id
  principal_type     = "ServicePrincipal"
}

resource "azurerm_orchestrated_virtual_machine_scale_set" "workers" {
  name                        = "gpu-workers"
  location                    = azurerm_resource_group.gpu.location
  resource_group_name         = azurerm_resource_group.gpu.name
  platform_fault_domain_count = 1
  sku_name                    = "Standard_NC4as_T4_v3"
  instances                   = 1
  user_data_base64            = module.costguard.user_data

  identity {
    type         = "UserAssigned"
    identity_ids = [module.costguard.identity_id]
  }

  os_profile {
    linux_configuration {
      admin_username = "ops"

      admin_ssh_key {
        username   = "ops"
        public_key = var.ssh_key
      }
    }
  }

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "Premium_LRS"
  }

  source_image_reference {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
    version   = "latest"
  }

  network_interface {
    name    = "gpu"
    primary = true

    ip_configuration {
      name      = "internal"
      primary   = true
      subnet_id = var.subnet_id
    }
  }

  lifecycle {
    ignore_changes = [instances] # members lower it as they leave
  }
}
