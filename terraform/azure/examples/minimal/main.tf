# A dry run on a machine that you already have: it watches, warns, and stops nothing.
#
# Running it costs money for the machine; `terraform destroy` ends that.
#
# What a change does: of user_data, in place, without a restart; cloud-init reads it at a machine's first boot only, so change
# /etc/costguard/config.toml on a machine that runs. custom_data would replace the machine at each change: leave it out.

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
