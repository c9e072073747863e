"""``settings.tf``: the options that a module takes as variables of their own, and the map of all that it hands on."""

import json
import re
from collections.abc import Iterator
from typing import get_args

from costguard.config.options import OPTIONS, Option
from costguard.config.types import LocalChannel
from terraform.generate.options import choice, field_of

COMMON = (
    "mode", "kill_action", "fallback", "kill_duration", "kill_threshold", "grace", "boot_grace", "unused_after",
    "price_per_hour", "currency",
    "deadline.lifetime", "deadline.lease", "deadline.budget", "deadline.budget_period",
    "cloud.local_data", "cloud.group",
    "heartbeat.url", "heartbeat.every", "heartbeat.token_file", "heartbeat.tag",
    "sink.url", "sink.method", "sink.token_file", "sink.syslog", "sink.tag",
    "notify.local_only",
)  # fmt: skip
"""What most people set; ``settings`` takes every other option."""

_BLOCK = re.compile(r'^variable "\w+" \{\n.*?^\}\n', re.MULTILINE | re.DOTALL)
_CHECKS = re.compile(r"\n\n  validation \{\n.*?^  \}", re.MULTILINE | re.DOTALL)
"""Of a variable that is handed on: the inner module makes them."""

_OWN = ('variable "extra"', 'variable "settings"')
"""Those that each cloud's module sets itself."""

_HEAD = """\
# Written by `make docs` from costguard/config/schema.py; changes here are lost.
# A variable that is null leaves the option at costguard's own default.
"""
_REST = """
variable "channels" {
  description = "Places beyond the machine that get messages: a name of yours, and where its addresses stand (file:/PATH, env:NAME, credential:NAME, secret:NAME). Never the addresses themselves: user data can be read on the machine."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for name in keys(var.channels) : can(regex("^[a-z][a-z0-9_-]{0,31}$", name)) && !contains(LOCAL, name)])
    error_message = "A channel's name begins with a small letter and has only small letters, digits, - and _, at most 32; it is not that of a channel of the machine (NAMES). Rename it."
  }

  validation {
    condition     = alltrue([for where in values(var.channels) : can(regex("^(file:/\\\\S+|env:[A-Za-z_]\\\\w*|credential:[\\\\w.-]+|secret:[A-Za-z0-9_+=.@:/-]+)$", where))])
    error_message = "A channel says where its addresses stand: file:/PATH, env:NAME, credential:NAME or secret:NAME. The addresses are secrets and belong there, not into user data."
  }
}

variable "channel_levels" {
  description = "The lowest level of message that a channel gets, by its name: info (as without one), warning or critical."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for level in values(var.channel_levels) : contains(["info", "warning", "critical"], level)])
    error_message = "A level is info, warning or critical."
  }
}

variable "settings" {
  description = "Any other option, by its path as `costguard run --set` takes it: { \\"hold.max\\" = \\"8h\\" }. docs/configuration.md lists them. A list is written `a,b` or as JSON."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = length(setintersection(keys(var.settings), [OWN])) == 0
    error_message = "These have variables of their own, which say it better: FLAT."
  }
}
"""


def document(machine: str) -> str:
    """The file, formatted as `terraform fmt` does. ``machine`` is the text of the inner module's variables, which are handed on."""
    options = [OPTIONS[path] for path in COMMON]
    ordered = sorted(options, key=lambda option: "." in option.path)
    own = ", ".join(json.dumps(option.path) for option in ordered)
    local = get_args(LocalChannel)
    rest = _REST.replace("LOCAL", json.dumps(local)).replace("NAMES", ", ".join(local)).replace("OWN", own)
    rest = rest.replace("FLAT", ", ".join(map(name_of, ordered)))
    handed = "".join(f"\n{_CHECKS.sub('', block)}" for block in _BLOCK.findall(machine) if not block.startswith(_OWN))
    return _HEAD + "".join(_variable(option) for option in options) + rest + handed + "".join(_map(options))


def name_of(option: Option) -> str:
    """``deadline.lifetime`` is the variable ``deadline_lifetime``."""
    return option.path.replace(".", "_")


def _type(option: Option) -> str:
    if option.kind == "bool":
        return "bool"
    if option.kind == "list":
        return "list(string)"
    return "string"


def _variable(option: Option) -> str:
    name = name_of(option)
    words = choice(field_of(option.path))
    text = f"{option.description} Allowed: {option.allowed}. Default: {_shown(option.default)}."
    check = ""
    if words and option.kind == "text":
        allowed = ", ".join(json.dumps(word) for word in words)
        check = (
            f'\n\n  validation {{\n    condition     = var.{name} == null || contains([{allowed}], coalesce(var.{name}, "-"))\n'
            f"    error_message = {_quoted(f'`{option.path}` is one of: {option.allowed}.')}\n  }}"
        )
    return (
        f'\nvariable "{name}" {{\n  description = {_quoted(text)}\n  type        = {_type(option)}\n'
        f"  default     = null{check}\n}}\n"
    )


def _shown(value: object) -> str:
    return "nothing" if value in ("", []) else str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """As a string of HCL."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _map(options: list[Option]) -> Iterator[str]:
    yield "\nlocals {\n  given = {\n"
    width = max(len(json.dumps(option.path)) for option in options)
    for option in options:
        name = f"var.{name_of(option)}"
        value = f"{name} == null ? null : jsonencode({name})" if option.kind == "list" else name
        value = f"{name} == null ? null : tostring({name})" if option.kind == "bool" else value
        yield f"    {json.dumps(option.path):<{width}} = {value}\n"
    yield "  }\n"
    yield (
        "  all_settings = merge(\n"
        "    { for path, value in local.given : path => value if value != null },\n"
        '    { for name, where in var.channels : "notify.channels.${name}.urls" => where },\n'
        '    { for name, level in var.channel_levels : "notify.channels.${name}.level" => level },\n'
        "    var.settings,\n"
        "  )\n}\n"
    )
