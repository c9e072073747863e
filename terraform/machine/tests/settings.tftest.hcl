# What a plan refuses, with what to set instead; and what it renders. No provider is needed.
variables {
  extra = "aws"
}

run "a_dry_run_with_the_defaults" {
  command = plan

  assert {
    condition     = strcontains(output.script, "--extra' 'aws'") && !strcontains(output.config, " = ")
    error_message = "Without settings the machine gets costguard's own defaults."
  }

  assert {
    condition     = length(output.user_data) < 9000
    error_message = "User data is small: EC2 takes 16 KiB with all that is in it."
  }

  assert {
    condition     = output.policy_key == "stop"
    error_message = "The default action is stop."
  }
}

run "the_configuration_is_toml" {
  command = plan

  variables {
    settings = {
      mode                          = "live"
      kill_action                   = "terminate"
      fallback                      = "shutdown"
      price_per_hour                = "32.77"
      "deadline.lifetime"           = "7d"
      "heartbeat.tag"               = "true"
      "notify.attempts"             = "5"
      "notify.channels.team.urls"   = "secret:team"
      "notify.channels.pager.urls"  = "file:/etc/costguard/pager.urls"
      "notify.channels.pager.level" = "critical"
      "sink.url"                    = "https://records.example.org/costguard/"
      "actions.command.run"         = "[\"/usr/local/bin/x\", \"a b\"]"
    }
  }

  assert {
    condition     = strcontains(output.config, "\n[notify.channels.pager]\nlevel = \"critical\"\nurls = \"file:/etc/costguard/pager.urls\"\n")
    error_message = "A channel is a table."
  }

  assert {
    condition     = strcontains(output.config, "fallback = [\"shutdown\"]\nkill_action = \"terminate\"\n") && strcontains(output.config, "attempts = 5\n") && strcontains(output.config, "tag = true\n")
    error_message = "Lists, numbers and switches are those of TOML."
  }

  assert {
    condition     = strcontains(output.script, base64encode(output.config)) && output.policy_key == "terminate+tag"
    error_message = "The script carries the configuration, and the policy fits it."
  }
}

run "user_data_is_merged" {
  command = plan

  variables {
    other_user_data = ["#cloud-config\npackages: [htop]\n", "#!/bin/sh\necho mine\n"]
  }

  assert {
    condition     = startswith(output.user_data, "Content-Type: multipart/mixed; boundary=") && strcontains(output.user_data, "text/cloud-config") && strcontains(output.user_data, "echo mine") && strcontains(output.user_data, output.script)
    error_message = "Every part is in the multi-part text."
  }
}

run "an_unknown_option" {
  command = plan
  variables { settings = { kil_duration = "1h" } }
  expect_failures = [output.script]
}

run "a_wrong_duration" {
  command = plan
  variables { settings = { kill_duration = "1 hour" } }
  expect_failures = [output.script]
}

run "a_duration_out_of_bounds" {
  command = plan
  variables { settings = { interval = "16s" } }
  expect_failures = [output.script]
}

run "a_wrong_word" {
  command = plan
  variables { settings = { "cloud.group" = "quit" } }
  expect_failures = [output.script]
}

run "a_wrong_item" {
  command = plan
  variables { settings = { fallback = "shutdown,pause" } }
  expect_failures = [output.script]
}

run "a_secret_in_an_address" {
  command = plan
  variables { settings = { "heartbeat.url" = "https://beat.example.org/x?token=abc" } }
  expect_failures = [output.script]
}

run "an_address_where_a_reference_belongs" {
  command = plan
  variables { settings = { "notify.channels.team.urls" = "slack://a/b/c" } }
  expect_failures = [output.script]
}

run "live_without_somebody_to_warn" {
  command = plan
  variables { settings = { mode = "live" } }
  expect_failures = [output.script]
}

run "live_and_too_short" {
  command = plan
  variables { settings = { mode = "live", "notify.local_only" = "true", kill_duration = "5m" } }
  expect_failures = [output.script]
}

run "a_live_terminate_without_a_record" {
  command = plan
  variables { settings = { mode = "live", "notify.local_only" = "true", kill_action = "terminate" } }
  expect_failures = [output.script]
}

run "a_budget_without_a_price" {
  command = plan
  variables { settings = { "deadline.budget" = "500", "deadline.budget_period" = "30d" } }
  expect_failures = [output.script]
}

run "a_threshold_that_stops_work" {
  command = plan
  variables { settings = { kill_threshold = "30%" } }
  expect_failures = [output.script]
}

run "a_level_without_a_channel" {
  command = plan
  variables { settings = { "notify.channels.team.level" = "info" } }
  expect_failures = [output.script]
}

run "a_wheel_without_its_checksum" {
  command = plan
  variables { wheel = "https://files.example.org/costguard_agent-0.1.0-py3-none-any.whl" }
  expect_failures = [output.script]
}

run "a_signed_address" {
  command = plan
  variables { wheel = "https://files.example.org/costguard_agent-0.1.0-py3-none-any.whl?X-Amz-Signature=1" }
  expect_failures = [var.wheel]
}

run "a_checksum_of_another_kind" {
  command = plan
  variables {
    wheel        = "https://files.example.org/costguard_agent-0.1.0-py3-none-any.whl"
    wheel_sha256 = "d41d8cd98f00b204e9800998ecf8427e"
  }
  expect_failures = [var.wheel_sha256]
}

run "user_data_that_is_none" {
  command = plan
  variables { other_user_data = ["echo mine"] }
  expect_failures = [var.other_user_data]
}

run "an_archive_of_user_data" {
  command = plan
  variables { other_user_data = ["#cloud-config-archive\n- content: x\n"] }
  expect_failures = [var.other_user_data]
}

run "another_cloud" {
  command = plan
  variables { extra = "oci" }
  expect_failures = [var.extra]
}

run "a_syslog_server_without_a_port" {
  command = plan

  variables {
    settings = { "sink.syslog" = "host" }
  }

  expect_failures = [output.script]
}

run "records_that_overwrite_each_other" {
  command = plan

  variables {
    settings = { "sink.method" = "PUT", "sink.url" = "https://e.org/x" }
  }

  expect_failures = [output.script]
}

run "records_with_names_of_their_own" {
  command = plan

  variables {
    settings = { "sink.method" = "PUT", "sink.url" = "https://e.org/{instance}/{step}-{time}", "sink.syslog" = "[2001:db8::1]:601" }
  }

  assert {
    condition     = strcontains(output.config, "method = \"PUT\"")
    error_message = "Such an address keeps every record."
  }
}
