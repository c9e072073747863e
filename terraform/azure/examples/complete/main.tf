# Live, with most of what can be set, on a machine with an identity of its own.
#
# Running it costs money for the machine and the vault; `terraform destroy` ends that.
#
# What a change does: of user_data, in place, without a restart, read at a machine's first boot only; of the role and its
# assignments, in place (a few minutes until they count).

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

variable "secret_id" {
  description = "The secret with the addresses, made by hand so that it is in no state: azurerm_key_vault_secret.x.resource_versionless_id."
  type        = string
}

module "costguard" {
  source = "../.."

  wheel        = var.wheel
  wheel_sha256 = var.wheel_sha256

  role_name   = "costguard training"
  create_role = true
  role_scope  = azurerm_resource_group.gpu.id
  machines    = { gpu = { id = azurerm_linux_virtual_machine.gpu.id, principal_id = azurerm_linux_virtual_machine.gpu.identity[0].principal_id } }
  secret_ids  = { team = var.secret_id }

  mode              = "live"
  kill_action       = "stop"
  kill_duration     = "45m"
  price_per_hour    = "0.526"
  channels          = { team = "secret:my-vault/costguard-team" }
  deadline_lifetime = "14d"
  heartbeat_url     = "https://beat.example.org/costguard"
  heartbeat_tag     = true
  sink_url          = "https://records.example.org/costguard/"
  sink_method       = "PUT"
  settings          = { "hold.max" = "8h" }
}

resource "azurerm_network_interface" "gpu" {
  name                = "gpu"
  location            = azurerm_resource_group.gpu.location
  resource_group_name = azurerm_resource_group.gpu.name

  ip_configuration {
    name                          = "internal"
    subnet_id                     = var.subnet_id
    private_ip_address_allocation = "Dynamic"
  }
}

resource "azurerm_linux_virtual_machine" "gpu" {
  name                  = "gpu"
  location              = azurerm_resource_group.gpu.location
  resource_group_name   = azurerm_resource_group.gpu.name
  size                  = "Standard_NC4as_T4_v3"
  admin_username        = "ops"
  network_interface_ids = [azurerm_network_interface.gpu.id]
  user_data             = module.costguard.user_data

  identity {
    type = "SystemAssigned"
  }

  admin_ssh_key {
    username   = "ops"
    public_key = var.ssh_key
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
}
