module "machine" {
  source = "../machine"

  extra           = "aws"
  settings        = local.all_settings
  wheel           = var.wheel
  wheel_sha256    = var.wheel_sha256
  wheels          = var.wheels
  wheels_sha256   = var.wheels_sha256
  python          = var.python
  python_sha256   = var.python_sha256
  other_user_data = var.other_user_data
}

# permissions.json is written from the rights that costguard itself declares; `costguard permissions aws` prints the same.
locals {
  permissions = jsondecode(file("${path.module}/permissions.json"))
  key         = module.machine.policy_key
  leaves      = lookup(local.all_settings, "cloud.group", "notify") == "leave"

  secret_arn      = var.secret == null ? "" : startswith(var.secret, "arn:") ? var.secret : "arn:*:secretsmanager:*:*:secret:${var.secret}"
  secret_resource = can(regex("^arn:.+-[A-Za-z0-9]{6}$", local.secret_arn)) && startswith(coalesce(var.secret, "-"), "arn:") ? local.secret_arn : "${local.secret_arn}-??????"

  group_statements = [
    for statement in try(local.permissions.group[trimsuffix(local.key, "+tag")].Statement, []) :
    merge(statement, { Resource = [for name in sort(var.group_names) : replace(statement.Resource, "/GROUP$/", name)] })
    if local.leaves && length(var.group_names) > 0
  ]
  secret_statements = [for statement in local.permissions.secret.Statement : merge(statement, { Resource = local.secret_resource }) if var.secret != null]

  policy = jsonencode({
    Version   = "2012-10-17"
    Statement = concat(local.permissions.policies[local.key].Statement, local.group_statements, local.secret_statements)
  })
}

data "aws_partition" "this" {
  count = var.create_identity ? 1 : 0
}

resource "aws_iam_role" "this" {
  count = var.create_identity ? 1 : 0

  name        = var.name
  description = "Lets an instance see itself and end its own bill"
  tags        = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = data.aws_partition.this[0].partition == "aws-cn" ? "ec2.amazonaws.com.cn" : "ec2.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

resource "aws_iam_instance_profile" "this" {
  count = var.create_identity ? 1 : 0

  name = var.name
  role = aws_iam_role.this[0].name
  tags = var.tags
}

resource "aws_iam_role_policy" "created" {
  count = var.create_identity ? 1 : 0

  name   = var.name
  role   = aws_iam_role.this[0].name
  policy = local.policy
}

resource "aws_iam_role_policy" "existing" {
  for_each = var.roles

  name   = var.name
  role   = each.value
  policy = local.policy
}
