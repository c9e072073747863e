locals {
  place  = "/tmp/costguard-bake"
  config = var.config == null ? "${path.root}/dry-run.toml" : var.config
}

build {
  sources = ["source.amazon-ebs.aws", "source.googlecompute.gcp", "source.azure-arm.azure", "source.qemu.home"]

  provisioner "shell" {
    inline = ["mkdir -m 700 ${local.place} ${local.place}/release"]
  }

  provisioner "file" {
    source      = "${var.release}/"
    destination = "${local.place}/release"
  }

  provisioner "file" {
    source      = local.config
    destination = "${local.place}/config.toml"
  }

  provisioner "file" {
    source      = "${path.root}/../machine/provision.sh"
    destination = "${local.place}/provision.sh"
  }

  provisioner "file" {
    source      = "${path.root}/bake.sh"
    destination = "${local.place}/bake.sh"
  }

  # The name of a cloud's source is the extra of costguard that speaks to it.
  provisioner "shell" {
    inline = [
      "sudo bash ${local.place}/bake.sh --extra ${source.name == "home" ? var.home_cloud : source.name} --release ${local.place}/release --config ${local.place}/config.toml ${var.air_gapped ? "--air-gapped" : ""}",
      "rm -rf ${local.place}",
    ]
  }
}
