# No account is needed.
mock_provider "google" {}

run "creates_nothing_by_default" {
  command = plan

  assert {
    condition     = length(google_project_iam_custom_role.self) + length(google_compute_instance_iam_member.self) + length(google_service_account.this) + length(google_project_iam_member.group) == 0
    error_message = "By default there are rights to bind, and nothing else."
  }

  assert {
    condition     = output.permissions == tolist(["compute.instances.get", "compute.instances.stop"]) || jsonencode(output.permissions) == jsonencode(["compute.instances.get", "compute.instances.stop"])
    error_message = "The machine may look at itself and stop."
  }

  assert {
    condition     = startswith(output.metadata.startup-script, "#!/bin/bash") && strcontains(output.metadata.startup-script, "'--extra' 'gcp'")
    error_message = "The startup script installs costguard for Google Cloud."
  }
}

run "the_role_on_the_machine_itself" {
  command = apply

  variables {
    create_role   = true
    kill_action   = "terminate"
    sink_syslog   = "log.example.org:601"
    heartbeat_tag = true
    instances     = { gpu = { zone = "europe-west4-a", name = "gpu", email = "gpu@my-project.iam.gserviceaccount.com" } }
    secret        = "team"
    secret_emails = { gpu = "gpu@my-project.iam.gserviceaccount.com" }
    channels      = { team = "secret:team" }
  }

  assert {
    condition     = toset(google_project_iam_custom_role.self[0].permissions) == toset(["compute.instances.get", "compute.instances.delete", "compute.instances.setLabels"])
    error_message = "The role has the rights of the action and of tags."
  }

  assert {
    condition     = google_compute_instance_iam_member.self["gpu"].instance_name == "gpu" && google_compute_instance_iam_member.self["gpu"].role == google_project_iam_custom_role.self[0].name
    error_message = "The role is bound to the machine, not to the project."
  }

  assert {
    condition     = google_secret_manager_secret_iam_member.reads["gpu"].secret_id == "team" && google_secret_manager_secret_iam_member.reads["gpu"].role == google_project_iam_custom_role.secret[0].name
    error_message = "The right to read is bound to one secret."
  }
}

run "a_group" {
  command = plan

  variables {
    project     = "my-project"
    create_role = true
    cloud_group = "leave"
    group       = { zone = "europe-west4-a", prefix = "gpu-workers-", email = "gpu@my-project.iam.gserviceaccount.com" }
  }

  assert {
    condition     = strcontains(google_project_iam_member.group[0].condition[0].expression, "projects/my-project/zones/europe-west4-a/instances/gpu-workers-")
    error_message = "The binding is for machines of the group."
  }

  assert {
    condition     = contains(google_project_iam_custom_role.group[0].permissions, "compute.instanceGroupManagers.update")
    error_message = "A member may leave."
  }
}

run "an_account_when_asked_for" {
  command = plan
  variables { create_identity = true }

  assert {
    condition     = google_service_account.this[0].account_id == "costguard"
    error_message = "There is an account."
  }
}

run "a_binding_without_a_role" {
  command = plan
  variables { instances = { gpu = { zone = "europe-west4-a", name = "gpu", email = "a@b.iam.gserviceaccount.com" } } }
  expect_failures = [output.role]
}

run "a_group_without_its_project" {
  command = plan
  variables {
    create_role = true
    group       = { zone = "europe-west4-a", prefix = "gpu-workers-", email = "a@b.iam.gserviceaccount.com" }
  }
  expect_failures = [output.role]
}

run "a_region_for_a_zone" {
  command = plan
  variables { instances = { gpu = { zone = "europe-west4", name = "gpu", email = "a@b.iam.gserviceaccount.com" } } }
  expect_failures = [var.instances]
}

run "a_member_for_an_email" {
  command = plan
  variables { instances = { gpu = { zone = "europe-west4-a", name = "gpu", email = "serviceAccount:a@b.iam.gserviceaccount.com" } } }
  expect_failures = [var.instances]
}

run "an_address_for_a_name" {
  command = plan
  variables { instances = { gpu = { zone = "europe-west4-a", name = "projects/p/zones/europe-west4-a/instances/gpu", email = "a@b.iam.gserviceaccount.com" } } }
  expect_failures = [var.instances]
}

run "a_member_for_an_email_of_a_group" {
  command = plan
  variables { group = { zone = "europe-west4", prefix = "gpu-workers-", email = "serviceAccount:a@b.iam.gserviceaccount.com" } }
  expect_failures = [var.group]
}

run "a_member_that_reads_a_secret" {
  command = plan
  variables {
    create_role   = true
    secret        = "team"
    secret_emails = { gpu = "serviceAccount:a@b.iam.gserviceaccount.com" }
  }
  expect_failures = [var.secret_emails]
}

run "a_prefix_of_everything" {
  command = plan
  variables {
    project     = "my-project"
    create_role = true
    group       = { zone = "europe-west4-a", prefix = "g", email = "a@b.iam.gserviceaccount.com" }
  }
  expect_failures = [var.group]
}

run "other_texts_are_for_cloud_init" {
  command = plan
  variables { other_user_data = ["#!/bin/sh\necho mine\n"] }

  assert {
    condition     = keys(output.metadata) == tolist(["user-data"]) && strcontains(output.metadata.user-data, "echo mine")
    error_message = "Several texts are for cloud-init."
  }
}

run "a_secrets_text" {
  command = plan
  variables { secret = "slack://a/b/c" }
  expect_failures = [var.secret]
}

run "a_number_for_a_project" {
  command = plan
  variables { project = "123456789" }
  expect_failures = [var.project]
}
