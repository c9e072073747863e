"""Show the effective values, each with its source; secrets are masked."""

import os
from collections.abc import Iterator

from costguard import __version__
from costguard.config.load import LoadedConfiguration
from costguard.config.options import NAME, OPTIONS, Option
from costguard.config.schema import Settings
from costguard.config.toml_text import toml
from costguard.config.values import FORMS, REFERENCE
from costguard.masking import mask, mask_all

_OUTSIDE = {"environment": "environment", "command": "command line"}
"""The first word of a source outside presets and files, and what to call it."""


def as_toml(loaded: LoadedConfiguration) -> str:
    """TOML that would give the same configuration, with the source of each value as its comment."""
    return "".join(_lines(loaded))


def as_json(loaded: LoadedConfiguration) -> dict[str, object]:
    """The same for programs: seconds, shares 0 to 1, seconds since the epoch."""
    options = {
        option.path: {
            "value": _masked(option, value_of(loaded.settings, option.path)),
            "source": source_of(loaded, option.path),
        }
        for option in present(loaded.settings)
    }
    return {
        "version": __version__,
        "file": loaded.source,
        "files": list(loaded.files),
        "paths": loaded.paths._asdict(),
        "options": options,
    }


def value_of(settings: Settings, path: str) -> object:
    """The checked value of one option."""
    found: object = settings
    for name in path.split("."):
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    return found


def present(settings: Settings) -> Iterator[Option]:
    """Every option, and those of tables that people name once for each that there is, table by table."""
    tables: dict[str, list[Option]] = {}
    for option in OPTIONS.values():
        if option.named:
            tables.setdefault(option.named, []).append(option)
        else:
            yield option
    for table, options in tables.items():
        for name in value_of(settings, table):  # type: ignore[attr-defined]  # a table of tables
            yield from (option._replace(path=option.path.replace(f".{NAME}.", f".{name}.")) for option in options)


def source_of(loaded: LoadedConfiguration, path: str) -> str:
    """Who set one option."""
    return loaded.written[path].source if path in loaded.written else "default"


def origin(loaded: LoadedConfiguration) -> str:
    """Where the settings came from: ``preset NAME, FILE and the environment``."""
    kinds = {value.source.split(" ", 1)[0] for value in loaded.written.values()}
    found = [value.source for value in loaded.written.values() if value.source.startswith("preset ")][:1]
    found += _files(loaded)
    found += [f"the {name}" for kind, name in _OUTSIDE.items() if kind in kinds]
    return " and ".join(filter(None, (", ".join(found[:-1]), found[-1]))) if found else "the built-in defaults"


def _files(loaded: LoadedConfiguration) -> list[str]:
    """The main file, and its drop-ins: the one by its name, more of them by their number."""
    over = [file for file in loaded.files if file != loaded.source]
    if len(over) > 1:
        over = [f"{len(over)} files of {os.path.dirname(over[0])}"]
    return [*filter(None, [loaded.source]), *over]


def _lines(loaded: LoadedConfiguration) -> Iterator[str]:
    yield f"# costguard {__version__}, file: {loaded.source or 'none'}\n"
    yield from (f"# over it: {file}\n" for file in loaded.files if file != loaded.source)
    yield f"# state: {loaded.paths.state}, runtime: {loaded.paths.runtime}\n"
    table = ""
    for option in present(loaded.settings):
        current, _, key = option.path.rpartition(".")
        if current != table:
            table = current
            yield f"\n[{table}]\n"
        text = f"{key} = {toml(_written(option, value_of(loaded.settings, option.path)))}"
        yield f"{text:<40}  # {source_of(loaded, option.path)}\n"


def _written(option: Option, value: object) -> object:
    """As a person would write it."""
    if value is None:
        return option.default if option.default in ("off", "unknown") else "off"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return FORMS[option.unit](value) if option.unit in FORMS else value
    if option.path == "gpu_devices" and not value:
        return ["all"]
    return _masked(option, value)


def _masked(option: Option, value: object) -> object:
    if isinstance(value, str) and option.path.startswith("notify.channels.") and REFERENCE.fullmatch(value):
        return value  # it says where a secret stands, and is none
    if isinstance(value, str):
        return mask(value)
    return mask_all(value) if isinstance(value, tuple) else value
