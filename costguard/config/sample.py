"""The commented sample file, written from the schema."""

import json
from collections.abc import Iterator

from costguard.config.options import OPTIONS, Option
from costguard.config.presets import PRESETS

_HEAD = """\
# costguard reads this file at start and on `systemctl reload costguard`.
# Every option is listed with its default; remove the leading "#" to change one.
# Check it with `costguard config check`; `costguard config show` prints the effective values.
"""
WRITTEN = "mode"
"""The one option that is not commented out: the switch that people look for."""


def toml(value: object) -> str:
    """One value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


def sample(preset: str = "none") -> str:
    """The whole file; with the values of a preset, where one is named."""
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
