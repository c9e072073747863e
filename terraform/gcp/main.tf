module "machine" {
  source = "../machine"

  extra           = "gcp"
  settings        = local.all_settings
  wheel           = var.wheel
  wheel_sha256    = var.wheel_sha256
  wheels          = var.wheels
  wheels_sha256   = var.wheels_sha256
  python          = var.python
  python_sha256   = var.python_sha256
  other_user_data = var.other_user_data
}

# permissions.json is written from the rights that costguard itself declares; `costguard permissions gcp` prints the same.
locals {
  declared    = jsondecode(file("${path.module}/permissions.json"))
  permissions = local.declared.roles[module.machine.policy_key]
  leaves      = lookup(local.all_settings, "cloud.group", "notify") == "leave"
}

resource "google_project_iam_custom_role" "self" {
  count = var.create_role ? 1 : 0

  project     = var.project
  role_id     = var.role_id
  title       = "costguard, itself only"
  description = "Lets a machine end its own bill. Bind it to the machine, not to the project."
  permissions = local.permissions
}

resource "google_compute_instance_iam_member" "self" {
  for_each = var.instances

  project       = var.project
  zone          = each.value.zone
  instance_name = each.value.name
  role          = one(google_project_iam_custom_role.self[*].name)
  member        = "serviceAccount:${each.value.email}"
}

# Members of a group have no names before they exist, so the binding is by the beginning of their names.
resource "google_project_iam_member" "group" {
  count = var.group == null ? 0 : 1

  project = var.project
  role    = one(google_project_iam_custom_role.self[*].name)
  member  = "serviceAccount:${var.group.email}"

  condition {
    title      = "costguard-${trimsuffix(var.group.prefix, "-")}"
    expression = "resource.type == \"compute.googleapis.com/Instance\" && resource.name.startsWith(\"projects/${coalesce(var.project, "-")}/zones/${var.group.zone}/instances/${var.group.prefix}\")"
  }
}

resource "google_project_iam_custom_role" "group" {
  count = var.create_role && var.group != null && local.leaves ? 1 : 0

  project     = var.project
  role_id     = "${var.role_id}Group"
  title       = "costguard, leaves its group"
  description = "Lets a member leave its managed instance group."
  permissions = local.declared.group
}

resource "google_project_iam_member" "leaves" {
  count = var.create_role && var.group != null && local.leaves ? 1 : 0

  project = var.project
  role    = google_project_iam_custom_role.group[0].name
  member  = "serviceAccount:${var.group.email}"
}

resource "google_service_account" "this" {
  count = var.create_identity ? 1 : 0

  project      = var.project
  account_id   = var.account_id
  display_name = "costguard: a machine that ends its own bill"
}

resource "google_project_iam_custom_role" "secret" {
  count = var.create_role && var.secret != null ? 1 : 0

  project     = var.project
  role_id     = "${var.role_id}Secret"
  title       = "costguard, one secret"
  description = "Lets a machine read the addresses of its channels. Bind it to one secret, not to the project."
  permissions = local.declared.secret
}

resource "google_secret_manager_secret_iam_member" "reads" {
  for_each = var.secret == null ? {} : var.secret_emails

  project   = var.project
  secret_id = var.secret
  role      = one(google_project_iam_custom_role.secret[*].name)
  member    = "serviceAccount:${each.value}"
}
