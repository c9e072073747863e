locals {
  options = jsondecode(file("${path.module}/options.json"))

  # notify.channels.team.urls is described under notify.channels.NAME.urls
  generic = { for path, value in var.settings : path => replace(path, "/^notify[.]channels[.][a-z][a-z0-9_-]{0,31}[.]/", "notify.channels.NAME.") }
  known   = { for path, value in var.settings : path => local.options[local.generic[path]] if contains(keys(local.options), local.generic[path]) }

  # Only what a person may see is quoted: an address may be a secret by mistake.
  quoted = { for path, value in var.settings : path => endswith(path, "urls") || endswith(path, "url") || endswith(path, "token_file") ? path : "${path} = ${jsonencode(value)}" }

  lists = { for path, option in local.known : path => (
    startswith(var.settings[path], "[") ? try([for item in jsondecode(var.settings[path]) : tostring(item)], null) :
    [for item in split(",", var.settings[path]) : trimspace(item) if trimspace(item) != ""]
  ) if contains(["list", "command"], option.kind) }

  seconds = { for path, option in local.known : path => sum(concat([0], [
    for part in regexall("([0-9.]+)\\s*([dhms]?)", var.settings[path]) :
    tonumber(part[0]) * { d = 86400, h = 3600, m = 60, s = 1, "" = 1 }[part[1]]
  ])) if can(option.least) || can(option.most) || can(option.above) || contains(["kill_duration", "boot_grace", "unused_after"], path) }

  misspelt = [for path in keys(var.settings) : "${path} is no option of costguard: docs/configuration.md lists them." if !contains(keys(local.known), path)]
  malformed = [for path, option in local.known : "${local.quoted[path]} is not allowed; set ${option.allowed}." if(
    contains(["list", "command"], option.kind) ?
    local.lists[path] == null || (option.pattern != "" && !alltrue([for item in coalesce(local.lists[path], []) : can(regex("^(?:${option.pattern})$", item))])) :
    option.pattern != "" && !can(regex("^(?:${option.pattern})$", var.settings[path]))
  )]
  out_of_bounds = [for path, amount in local.seconds : "${local.quoted[path]} is not allowed; set ${local.known[path].allowed}." if
    var.settings[path] != "off" && (
      amount < try(local.known[path].least, 0) ||
      amount > try(local.known[path].most, 3153600000) ||
      amount <= try(local.known[path].above, -1)
    )
  ]
  with_secret = [for path, value in var.settings : "${path} carries a secret; user data can be read on the machine: set an address without one, and token_file for a token." if
    can(regex("(?i)://[^/\\s]*@|[?&](token|key|api_?key|sig|signature|secret|password|code)=", value))
  ]
}

# What is allowed alone can be dangerous together. The agent has the whole list; these are the ones that a plan should find.
locals {
  actions      = concat([lookup(var.settings, "kill_action", "stop")], coalesce(try(local.lists["fallback"], null), []))
  live         = lookup(var.settings, "mode", "dry-run") == "live"
  ends_machine = length(setintersection(local.actions, ["stop", "terminate", "hibernate", "shutdown", "reboot"])) > 0
  levels       = { for path, value in var.settings : split(".", path)[2] => lookup(var.settings, "notify.channels.${split(".", path)[2]}.level", "info") if can(regex("^notify[.]channels[.][^.]+[.]urls$", path)) }
  somebody     = anytrue([for name, level in local.levels : level != "critical"]) || lookup(var.settings, "notify.local_only", "false") == "true" || contains(["gpu-sentinel", "gpu-idle-timeout", "gpu-idle-timeout-any"], lookup(var.settings, "preset", "none"))
  preset       = lookup(var.settings, "preset", "none") != "none"
  recorded     = lookup(var.settings, "sink.url", "") != "" || lookup(var.settings, "sink.syslog", "") != ""

  records = lookup(var.settings, "sink.url", "")
  overwrites = lookup(var.settings, "sink.method", "POST") == "PUT" && local.records != "" && !endswith(split("?", local.records)[0], "/") && !(
    strcontains(local.records, "{instance}") && strcontains(local.records, "{step}") &&
    (strcontains(local.records, "{attempt}") || strcontains(local.records, "{time}"))
  )

  together = compact([
    local.overwrites ? "With sink_method = \"PUT\" each record would overwrite the last one: set a sink_url that ends in \"/\", or has {instance}, {step} and {attempt} or {time} in it." : "",
    local.live && local.ends_machine && !local.somebody ? "mode = \"live\" needs somebody who is warned: set channels = { team = \"secret:NAME\" } with a level below critical, or notify_local_only = true." : "",
    local.live && contains(local.actions, "terminate") && !local.recorded ? "A live terminate needs a record that outlives the machine: set sink_url or sink_syslog." : "",
    contains(keys(var.settings), "deadline.budget") && !contains(keys(var.settings), "price_per_hour") ? "deadline.budget needs a known price: set price_per_hour." : "",
    contains(keys(var.settings), "deadline.budget") && !contains(keys(var.settings), "deadline.budget_period") ? "deadline.budget needs its period: set deadline_budget_period, such as 30d." : "",
    contains(local.actions, "command") && !contains(keys(var.settings), "actions.command.run") ? "The action command has nothing to run: set settings = { \"actions.command.run\" = \"/usr/local/bin/…\" }." : "",
    length(distinct(local.actions)) < length(local.actions) ? "fallback repeats an action: set each once, without kill_action." : "",
    var.wheel == null && (var.wheel_sha256 != null || var.wheels != null || var.python != null) ? "There is no wheel to install: set wheel, or leave wheel_sha256, wheels and python out too." : "",
    var.wheel != null && var.wheel_sha256 == null ? "wheel needs its checksum: set wheel_sha256 to what `sha256sum FILE` prints." : "",
    var.wheels != null && endswith(coalesce(var.wheels, "-"), ".tar.gz") && var.wheels_sha256 == null ? "wheels needs its checksum: set wheels_sha256 to what `sha256sum FILE` prints." : "",
    var.python != null && var.python_sha256 == null ? "python needs its checksum: set python_sha256 to what `sha256sum FILE` prints." : "",
  ])
  too_short = [for path in ["kill_duration", "boot_grace", "unused_after"] : "${path} = \"${var.settings[path]}\" is too short for a live machine action; set at least 10m." if
    local.live && local.ends_machine && !local.preset && contains(keys(local.seconds), path) && try(var.settings[path] != "off" && local.seconds[path] < 600, false)
  ]
  share    = lookup(var.settings, "kill_threshold", "5%")
  above    = try(endswith(local.share, "%") ? tonumber(trimspace(trimsuffix(local.share, "%"))) / 100 : tonumber(local.share), 0) > 0.2
  too_high = local.above && local.ends_machine && !local.preset && lookup(var.settings, "stop_below_load", "false") != "true" ? ["kill_threshold = \"${local.share}\" would stop a working machine; set at most 20%."] : []
  orphans = [for path in keys(var.settings) : "The channel ${split(".", path)[2]} has no addresses: set channels = { ${split(".", path)[2]} = \"secret:NAME\" }." if
    startswith(path, "notify.channels.") && length(split(".", path)) == 4 && !contains(keys(local.levels), try(split(".", path)[2], ""))
  ]

  problems = concat(local.misspelt, local.malformed, local.out_of_bounds, local.with_secret, local.together, local.too_short, local.too_high, local.orphans)
}

locals {
  # JSON's texts, numbers and lists are those of TOML.
  values = { for path, option in local.known : path => (
    contains(["list", "command"], option.kind) ? jsonencode(local.lists[path]) :
    contains(["bool", "int"], option.kind) ? var.settings[path] : jsonencode(var.settings[path])
  ) }
  tables = distinct([for path in sort(keys(local.values)) : join(".", slice(split(".", path), 0, length(split(".", path)) - 1))])
  config = join("\n", concat(
    ["# Written by Terraform for this machine. Changes made here stay: they are never overwritten.", ""],
    [for path in sort(keys(local.values)) : "${path} = ${local.values[path]}" if !strcontains(path, ".")],
    flatten([for table in local.tables : concat(
      ["", "[${table}]"],
      [for path in sort(keys(local.values)) : "${reverse(split(".", path))[0]} = ${local.values[path]}" if startswith(path, "${table}.") && length(split(".", path)) == length(split(".", table)) + 1],
    ) if table != ""]),
    [""],
  ))

  arguments = concat(
    ["--extra", var.extra],
    var.wheel == null ? [] : ["--wheel", var.wheel, "--sha256", coalesce(var.wheel_sha256, "-")],
    var.wheels == null ? [] : concat(["--wheels", var.wheels], var.wheels_sha256 == null ? [] : ["--wheels-sha256", var.wheels_sha256]),
    var.python == null ? [] : ["--python", var.python, "--python-sha256", coalesce(var.python_sha256, "-")],
    ["--config", base64encode(local.config)],
  )

  # Comments stay in the repository: user data is small.
  program = join("\n", [for line in split("\n", file("${path.module}/provision.sh")) : line if !can(regex("^\\s*#", line))])
  # In a shell of its own: what comes after it runs whatever becomes of costguard.
  script = join("\n", [
    "#!/bin/bash",
    "# costguard, rendered by Terraform. Runs again without harm.",
    "bash -s -- ${join(" ", formatlist("'%s'", local.arguments))} <<'COSTGUARD_PROVISION'",
    trimspace(local.program),
    "COSTGUARD_PROVISION",
    "",
  ])

  boundary = "==costguard-part=="
  parts    = concat(var.other_user_data, [local.script])
  multipart = join("\n", concat(
    ["Content-Type: multipart/mixed; boundary=\"${local.boundary}\"", "MIME-Version: 1.0", ""],
    flatten([for index, text in local.parts : [
      "--${local.boundary}",
      "Content-Type: ${startswith(text, "#cloud-config") ? "text/cloud-config" : "text/x-shellscript"}; charset=\"utf-8\"",
      "MIME-Version: 1.0",
      "Content-Disposition: attachment; filename=\"${format("%02d", index)}-${text == local.script ? "costguard" : "part"}\"",
      "",
      text,
    ]]),
    ["--${local.boundary}--", ""],
  ))
}
