# The machines that build have no GPU, no rights in the cloud, and end with the build.

locals {
  image = "${var.name}-${formatdate("YYYYMMDDhhmmss", timestamp())}"
}

source "amazon-ebs" "aws" {
  region                    = var.aws_region
  instance_type             = "t3.small"
  ami_name                  = local.image
  ssh_username              = var.aws_user
  ssh_clear_authorized_keys = true
  tags                      = { Name = local.image, built-with = "costguard" }

  source_ami_filter {
    most_recent = true
    owners      = [var.aws_source_owner]

    filters = {
      name                = var.aws_source_name
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }
}

source "googlecompute" "gcp" {
  project_id                      = var.gcp_project
  zone                            = var.gcp_zone
  machine_type                    = "e2-small"
  source_image_family             = var.gcp_source_family
  source_image_project_id         = [var.gcp_source_project]
  image_name                      = local.image
  image_family                    = var.name
  ssh_username                    = "packer"
  ssh_clear_authorized_keys       = true
  disable_default_service_account = true
}

source "azure-arm" "azure" {
  subscription_id                   = var.azure_subscription
  use_azure_cli_auth                = true
  build_resource_group_name         = var.azure_resource_group
  vm_size                           = "Standard_B2s"
  os_type                           = "Linux"
  image_publisher                   = var.azure_source.publisher
  image_offer                       = var.azure_source.offer
  image_sku                         = var.azure_source.sku
  managed_image_name                = local.image
  managed_image_resource_group_name = var.azure_resource_group
  ssh_username                      = "packer"
}

# On this very computer. The key in the folder is of this build alone, and is taken out of the image.
source "qemu" "home" {
  iso_url                   = var.home_source
  iso_checksum              = var.home_checksum
  disk_image                = true
  disk_size                 = "8G"
  format                    = "qcow2"
  accelerator               = var.home_accelerator
  memory                    = 1024
  headless                  = true
  output_directory          = "${var.home}/image"
  vm_name                   = "${local.image}.qcow2"
  cd_files                  = ["${var.home}/user-data", "${var.home}/meta-data"]
  cd_label                  = "cidata"
  ssh_username              = var.home_user
  ssh_private_key_file      = "${var.home}/key"
  ssh_clear_authorized_keys = true
  ssh_timeout               = "20m"
  shutdown_command          = "sudo shutdown -P now"
}
