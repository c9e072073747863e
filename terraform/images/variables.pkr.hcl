variable "release" {
  description = "The folder that `make release` made. With wheels/ in it (`make wheels`) no package index is asked; with python.tar.gz in it that is costguard's interpreter."
  type        = string
  default     = "dist"
}

variable "air_gapped" {
  description = "Refuse to build where the release has no wheels/."
  type        = bool
  default     = false
}

variable "config" {
  description = "The configuration of the image, a file; user data of a machine takes its place. Null: a dry run. Nothing in it may be a secret: whoever has the image reads it."
  type        = string
  default     = null
}

variable "name" {
  description = "The name of the image; the time is added."
  type        = string
  default     = "costguard"
}

variable "aws_region" {
  description = "Where the AMI is made."
  type        = string
  default     = null
}

variable "aws_source_name" {
  description = "The name of the AMI to begin with, the newest of which is taken: yours with the driver, or one of Ubuntu."
  type        = string
  default     = "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"
}

variable "aws_source_owner" {
  description = "The account that it must belong to: Canonical's; `self` for one of yours. A name alone could be anybody's."
  type        = string
  default     = "099720109477"
}

variable "aws_user" {
  description = "The user of that image: ubuntu, admin (Debian) or ec2-user (Amazon Linux)."
  type        = string
  default     = "ubuntu"
}

variable "gcp_project" {
  description = "The project of the image and of the machine that builds it."
  type        = string
  default     = null
}

variable "gcp_zone" {
  description = "Where the machine that builds it runs."
  type        = string
  default     = null
}

variable "gcp_source_family" {
  description = "The family of images to begin with."
  type        = string
  default     = "ubuntu-2404-lts-amd64"
}

variable "gcp_source_project" {
  description = "The project that it belongs to."
  type        = string
  default     = "ubuntu-os-cloud"
}

variable "azure_subscription" {
  description = "The id of the subscription; the login is that of `az`."
  type        = string
  default     = null
}

variable "azure_resource_group" {
  description = "The resource group of the image; it has to exist, and the machine that builds it runs in its region."
  type        = string
  default     = null
}

variable "azure_source" {
  description = "The image to begin with: publisher, offer and sku."
  type        = object({ publisher = string, offer = string, sku = string })
  default     = { publisher = "Canonical", offer = "ubuntu-24_04-lts", sku = "server" }
}

variable "home" {
  description = "The folder that `home.sh` made; the image of this computer is put there, into image/."
  type        = string
  default     = "home"
}

variable "home_cloud" {
  description = "The cloud whose library the image of this computer gets: aws, gcp or azure."
  type        = string
  default     = "aws"
}

variable "home_source" {
  description = "The image for clouds to begin with on this computer, an address or a path: one with cloud-init and a server of SSH."
  type        = string
  default     = "https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"
}

variable "home_checksum" {
  description = "Its checksum, or where that is to be found."
  type        = string
  default     = "file:https://cloud-images.ubuntu.com/noble/current/SHA256SUMS"
}

variable "home_user" {
  description = "The user of that image."
  type        = string
  default     = "ubuntu"
}

variable "home_accelerator" {
  description = "How QEMU runs it: kvm; tcg works everywhere, ten times as slowly."
  type        = string
  default     = "kvm"
}
