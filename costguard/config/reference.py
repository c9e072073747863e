"""The reference page, written from the schema: ``python -m costguard.config.reference docs/configuration.md``."""

import sys
from collections.abc import Iterator

from costguard.config.options import OPTIONS
from costguard.config.presets import PRESETS
from costguard.config.toml_text import toml

_HEAD = """\
# Configuration

<!-- Written by `make docs` from costguard/config/schema.py; changes here are lost. -->

costguard reads `/etc/costguard/config.toml`, or the file named with `--config`, and over it every `NAME.toml` of the folder `config.d` beside that file, in the order of
their names: `10-base.toml` of an image, `50-team.toml`, `90-machine.toml`. Tables are merged key by key; a list or a single value of a later file replaces that of an
earlier one. All these files keep the same rules, and must be root's where root's agent reads them. Without any file, the defaults below apply.
`costguard config init` writes a short file, with `--full` one with every option; `costguard config check` reports every problem at once, and
`costguard config show` prints the effective values, each with the file and line that set it. `systemctl reload costguard` sees new, changed and removed files: a change begins window and warning anew; where
nothing has changed, a countdown goes on, and the plans of the actions are made again.

Later sources win: preset, file, files of `config.d`, environment, command line.

| source | spelling |
|---|---|
| file | `kill_threshold = "5%"`, or in a table: `[deadline]`, `lifetime = "7d"` |
| environment | `COSTGUARD_KILL_THRESHOLD=5%`, `COSTGUARD_DEADLINE__LIFETIME=7d` |
| command line | `--set kill_threshold=5% --set deadline.lifetime=7d`, `--mode live`, `--preset gpu-sentinel` |

Durations: `30` (seconds), `30s`, `10m`, `2h`, `1d`, `1h30m`. Shares: `0.7` or `70%`; a bare `80` or `1` is refused as ambiguous.
Unknown names are errors. On the command line and in the environment a list is written `a,b` or `["a","b"]`.
"""


def reference() -> str:
    """The whole page."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield _HEAD
    table = None
    for option in OPTIONS.values():
        current, _, key = option.path.rpartition(".")
        if current != table:
            table = current
            title = f"`[{table}]`" if table else "Top level"
            about = f"{option.about}\n\n" if table else ""
            yield f"\n## {title}\n\n{about}| option | default | meaning | allowed | example |\n|---|---|---|---|---|\n"
        cells = (
            f"`{key}`", f"`{toml(option.default)}`", option.description, option.allowed, f"`{toml(option.example)}`",
        )  # fmt: skip
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
    yield "\n## Presets\n\nA preset never sets `mode`. Only a preset takes live machine actions below the minimum of 10 minutes.\n"
    for name, preset in PRESETS.items():
        listed = "".join(f"\n- `{path} = {toml(value)}`" for path, value in preset.values.items())
        yield f"\n### `{name}`\n\n{preset.text}\n{listed}{chr(10) if listed else ''}"


def main() -> None:
    """Write the page to the named file, or to standard output."""
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write(reference())
    else:
        sys.stdout.write(reference())


if __name__ == "__main__":
    main()
