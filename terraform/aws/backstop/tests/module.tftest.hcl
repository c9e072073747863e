# No account is needed.
mock_provider "aws" {}

override_resource {
  target = aws_iam_role.this
  values = { arn = "arn:aws:iam::123456789012:role/costguard-backstop" }
}

override_resource {
  target = aws_cloudwatch_log_group.this
  values = { arn = "arn:aws:logs:eu-west-1:123456789012:log-group:x" }
}

override_resource {
  target = aws_lambda_function.this
  values = { arn = "arn:aws:lambda:eu-west-1:123456789012:function:costguard-backstop" }
}

override_resource {
  target = aws_cloudwatch_event_rule.this
  values = { arn = "arn:aws:events:eu-west-1:123456789012:rule/costguard-backstop" }
}

variables {
  topic_arn = "arn:aws:sns:eu-west-1:123456789012:people"
}

run "a_dry_run_has_no_right_to_stop" {
  command = apply

  assert {
    condition     = !strcontains(aws_iam_role_policy.this.policy, "StopInstances")
    error_message = "A dry run may look and tell."
  }

  assert {
    condition     = aws_lambda_function.this.environment[0].variables.MODE == "dry-run" && length(aws_cloudwatch_metric_alarm.this) == 2
    error_message = "It is a dry run, and watched itself."
  }
}

run "live_stops_tagged_instances_alone" {
  command = apply
  variables { mode = "live" }

  assert {
    condition     = jsonencode(one([for one in jsondecode(aws_iam_role_policy.this.policy).Statement : one.Condition if one.Sid == "StopsWhatItsOwnerTagged"])) == jsonencode({ StringEquals = { "aws:ResourceTag/costguard-backstop" = ["lease", "idle"] } })
    error_message = "Its role may stop what its owner tagged."
  }
}

run "a_name_for_a_topic" {
  command = plan
  variables { topic_arn = "people" }
  expect_failures = [var.topic_arn]
}

run "a_wrong_mode" {
  command = plan
  variables { mode = "on" }
  expect_failures = [var.mode]
}

run "too_eager" {
  command = plan
  variables {
    stale_after_minutes = 10
    quiet_hours         = 1
    limit               = 100
    every_minutes       = 1
    many_share          = 1
  }
  expect_failures = [var.stale_after_minutes, var.quiet_hours, var.limit, var.every_minutes, var.many_share]
}
