# No account is needed.
mock_provider "aws" {}

run "creates_nothing_by_default" {
  command = plan

  assert {
    condition     = length(aws_iam_role.this) + length(aws_iam_instance_profile.this) + length(aws_iam_role_policy.created) + length(aws_iam_role_policy.existing) == 0
    error_message = "By default there is a policy to attach, and nothing else."
  }

  assert {
    condition     = jsondecode(output.policy).Statement[0].Condition.StringLike["aws:userid"] == "*:$${ec2:InstanceID}" && startswith(jsondecode(output.policy).Statement[0].Resource, "arn:*:")
    error_message = "The policy is for the instance itself, in every partition."
  }
}

run "an_identity_when_asked_for" {
  command = plan

  variables {
    create_identity = true
    name            = "guard"
  }

  override_data {
    target = data.aws_partition.this[0]
    values = { partition = "aws-cn" }
  }

  assert {
    condition     = aws_iam_instance_profile.this[0].name == "guard" && strcontains(aws_iam_role.this[0].assume_role_policy, "ec2.amazonaws.com.cn")
    error_message = "In China the service has a name of its own."
  }
}

run "the_policy_for_roles_that_exist" {
  command = plan

  variables {
    roles         = ["training", "serving"]
    kill_action   = "terminate"
    sink_url      = "https://records.example.org/"
    heartbeat_tag = true
  }

  assert {
    condition     = length(aws_iam_role_policy.existing) == 2 && contains(jsondecode(aws_iam_role_policy.existing["training"].policy).Statement[*].Sid, "CostguardMarksItself")
    error_message = "Each role gets the policy, with the right to write the two tags."
  }
}

run "a_secret_by_its_arn" {
  command = plan

  variables {
    secret   = "arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:team-AbCdEf"
    channels = { team = "secret:team" }
  }

  assert {
    condition     = jsondecode(output.policy).Statement[2].Resource == "arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:team-AbCdEf"
    error_message = "A whole ARN is taken as it is."
  }
}

run "leaving_a_group_without_its_name" {
  command = plan
  variables { cloud_group = "leave" }
  expect_failures = [output.user_data]
}

run "a_secret_that_nothing_allows" {
  command = plan
  variables { channels = { team = "secret:team" } }
  expect_failures = [output.user_data]
}

run "user_data_that_is_too_large" {
  command = plan
  variables { other_user_data = ["#!/bin/sh\n${join("", [for _ in range(900) : "echo 1234567890\n"])}"] }
  expect_failures = [output.user_data]
}

run "an_arn_for_a_name" {
  command = plan
  variables { roles = ["arn:aws:iam::123456789012:role/training"] }
  expect_failures = [var.roles]
}

run "a_group_that_means_all" {
  command = plan
  variables {
    cloud_group = "leave"
    group_names = ["gpu-*"]
  }
  expect_failures = [var.group_names]
}

run "a_secrets_text" {
  command = plan
  variables { secret = "slack://a/b/c" }
  expect_failures = [var.secret]
}

run "a_wrong_mode" {
  command = plan
  variables { mode = "on" }
  expect_failures = [var.mode]
}

run "an_address_for_a_channel" {
  command = plan
  variables { channels = { team = "slack://a/b/c" } }
  expect_failures = [var.channels]
}

run "a_level_that_is_none" {
  command = plan
  variables { channel_levels = { team = "urgent" } }
  expect_failures = [var.channel_levels]
}

run "an_option_with_a_variable_of_its_own" {
  command = plan
  variables { settings = { grace = "5m" } }
  expect_failures = [var.settings]
}

run "a_wrong_name" {
  command = plan
  variables { name = "cost guard" }
  expect_failures = [var.name]
}
