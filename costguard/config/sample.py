"""A first configuration: the short one, and the commented one with every option, written from the schema."""

from collections.abc import Iterator

from costguard.cloud import api, dmi
from costguard.config.options import OPTIONS, Option
from costguard.config.plug_ins import CLOUDS
from costguard.config.presets import PRESETS
from costguard.config.toml_text import toml

_HEAD = """\
# costguard reads this file at start and on `systemctl reload costguard`.
# Every option is listed with its default; remove the leading "#" to change one. Files config.d/*.toml beside it win over it.
# Check it with `costguard config check`; `costguard config show` prints the effective values.
"""
WRITTEN = "mode"
"""The one option that is not commented out: the switch that people look for."""

_SHORT = """\
# costguard on this machine. Every option with its default: `costguard config init --full --path FILE`.
{preset}mode = "dry-run"           # says what it would do; "live" lets it act
{action}# see docs/actions.md for what ends the bill
# price_per_hour = 4.10    # without it a list price of the cloud is used where there is one
# currency = "USD"

# Who gets messages besides the terminals of this machine; the file holds one address (Slack, mail, ...), mode 600.
# [notify.channels.team]
# urls = "file:/etc/costguard/team.urls"
"""
_COLUMN = 27
"""Where its remarks begin."""


def short(preset: str = "none", sysfs: str = "/sys") -> str:
    """The file that most machines need: mode, action, price and one channel; the action as `proposed_action`."""
    if preset == "none":
        return _SHORT.format(preset="", action=f'kill_action = "{proposed_action(sysfs)}"'.ljust(_COLUMN))
    chosen = f"# The rules of another tool; `costguard config show` lists them.\npreset = {toml(preset)}\n"
    theirs = f"# kill_action = {toml(PRESETS[preset].values['kill_action'])}  "
    return _SHORT.format(preset=chosen, action=theirs.ljust(_COLUMN))


def proposed_action(sysfs: str = "/sys") -> str:
    """The cloud's stop where a plug-in recognises this machine."""
    machine = dmi.identity(sysfs)
    return "stop" if any(one.recognises(machine) for one in api.load(CLOUDS.entries()).plug_ins) else "shutdown"


def sample(preset: str = "none") -> str:
    """The file with every option; with the values of a preset, where one is named."""
    return "".join(_parts(preset))


def _parts(preset: str) -> Iterator[str]:
    yield _HEAD
    table = ""
    for option in OPTIONS.values():
        current, _, key = option.path.rpartition(".")
        if current != table:
            table = current
            sign = "# " if option.named else ""
            yield f"\n\n# {option.about}\n{sign}[{table}]\n"
        yield _entry(option, key, preset)


def _entry(option: Option, key: str, preset: str) -> str:
    if option.named:  # there is none by default
        return f"\n# {option.description}\n# Allowed: {option.allowed}.\n# {key} = {toml(option.example)}\n"
    value = preset if option.path == "preset" else PRESETS[preset].values.get(option.path, option.default)
    sign = "" if option.path == WRITTEN or (option.path == "preset" and preset != "none") else "#"
    notes = [f"# {option.description}", f"# Allowed: {option.allowed}."]
    if option.path == "preset" and preset != "none":
        notes.append(f"# {PRESETS[preset].text}")
    if option.default in ("off", "unknown", "", []):
        notes.append(f"# Example: {key} = {toml(option.example)}")
    return "\n" + "\n".join(notes) + f"\n{sign}{key} = {toml(value)}\n"
