"""Read values from file, environment and command line, each flattened to dotted paths."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from costguard.config import toml_text, values
from costguard.config.options import OPTIONS, find, is_table_of_tables
from costguard.config.plug_ins import former
from costguard.files import NoFileError, open_file
from costguard.masking import mask

PREFIX = "COSTGUARD_"
NOT_OPTIONS = re.compile(
    r"COSTGUARD_(STANDIN_\w*|TEST_\w*|INCIDENT|ATTEMPT|REASON|IDLE_SECONDS|GPUS|SENTENCE|INSTANCE|_\w*"
    r"|[A-Z]+_METADATA_ENDPOINT)"
)
"""Variables that are not configuration: test stand-ins, those that the command action exports, the agent's own, and the
address of a plug-in's metadata service."""


DENIED = "permission denied; allowed: a file that the agent's user may read (or use sudo)"


class Value(NamedTuple):
    """A value as it was written, and where."""

    raw: object
    source: str


class Problem(NamedTuple):
    """One thing that is wrong; ``involves`` are the other options that it depends on."""

    path: str
    text: str
    source: str = ""
    involves: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"At '{self.path}': {mask(self.text)}" + (f"  ({self.source})" if self.source else "")


class Layer(NamedTuple):
    """All values of one source, and what could not be read."""

    found: dict[str, Value]
    problems: list[Problem]


def read_file(path: str, *, required: bool) -> Layer:
    """The values of a TOML file; a missing file is empty unless it is ``required``."""
    try:
        with open_file(path) as file:
            content = file.read(toml_text.MOST_BYTES + 1)
    except FileNotFoundError:
        text = f"there is no such file; allowed: a file, see `costguard config init --path {path}`"
        if os.path.islink(path):
            text = "this is a link to a file that is not there; allowed: a file"
        return Layer({}, [Problem(path, text)] if required else [])
    except (OSError, ValueError) as error:
        return Layer({}, [Problem(path, unreadable(error))])
    document = toml_text.read(content)
    if isinstance(document, toml_text.Slip):
        return Layer({}, [Problem(f"{path}:{document.line}" if document.line else path, document.text)])
    text, tree = document
    lines = dict(_lines(text))
    found = {}
    for key, raw in _flatten(tree):
        line = lines.get(key)
        found[key] = Value(raw, f"{path}:{line}" if line else path)
    return Layer(found, list(_renamed(found)))


def _renamed(found: dict[str, Value]) -> Iterator[Problem]:
    """Rename options with an old name; one that is set under both names is a problem."""
    for name, path in former().items():
        if name in found:
            value = found.pop(name)
            if path in found:
                yield Problem(
                    name, f"it is the old name of {path}, which is set too; allowed: one of them", value.source
                )
            else:
                found[path] = value


def unreadable(error: OSError | ValueError) -> str:
    """Why a file or a folder cannot be read, and what is allowed instead."""
    if isinstance(error, ValueError):
        return "this is not a path; allowed: a file"
    if isinstance(error, NoFileError):
        return f"{error.strerror}; allowed: a file, because the agent reads it again"
    if isinstance(error, IsADirectoryError):
        return "this is a folder; allowed: a file"
    if isinstance(error, PermissionError):
        return DENIED
    return f"it cannot be read ({error.strerror}); allowed: a file"


def read_environment(environment: Mapping[str, str]) -> Layer:
    """The values of COSTGUARD_KEY and COSTGUARD_SECTION__KEY."""
    layer = Layer({}, [])
    for name in sorted(environment):
        if name.startswith(PREFIX) and not NOT_OPTIONS.fullmatch(name):
            path = name.removeprefix(PREFIX).lower().replace("__", ".")
            _add_text(layer, path, environment[name], f"environment {name}")
    return layer


def read_command_line(assignments: list[str], named: Mapping[str, str]) -> Layer:
    """The values of ``--set key=value``, of which the last of a key wins; options of their own (``named``) win over them."""
    layer = Layer({}, [])
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if equals:
            _add_text(layer, path.strip(), text.strip(), f"command line --set {path.strip()}")
        else:
            layer.problems.append(Problem("--set", f"{assignment!r} has no '='; allowed: key=value, such as grace=5m"))
    for path, text in named.items():
        _add_text(layer, path, text, f"command line --{path}")
    return layer


def _add_text(layer: Layer, path: str, text: str, source: str) -> None:
    path = former().get(path, path)
    try:
        layer.found[path] = Value(_from_text(path, text), source)
    except ValueError as error:
        layer.problems.append(
            Problem(path, f"{error}; allowed: {option.allowed if (option := find(path)) else ''}", source)
        )


def _from_text(path: str, text: str) -> object:
    """Convert text to the option's own type, as a TOML file would have it."""
    option = find(path)
    kind = option.kind if option is not None else "text"
    if kind == "bool":
        if text.lower() not in {"true", "false"}:
            raise ValueError(f"{text!r} is not true or false")
        return text.lower() == "true"
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
    if kind in {"list", "command"} and text.startswith("["):
        try:
            return tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            raise ValueError(f"{text!r} is not a list") from None
    if kind == "list":
        return [part.strip() for part in text.split(",") if part.strip()]
    return values.command(text) if kind == "command" else text


def _flatten(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and path not in OPTIONS:
            yield from _flatten(value, f"{path}.")
            if (
                not value
                and not is_table_of_tables(path)
                and not any(known.startswith(f"{path}.") for known in OPTIONS)
            ):
                yield path, value
        else:
            yield path, value


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """The line of each plain `key = ` of the file; only for messages, so odd spellings may be missed."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*\[\s*([\w.-]+)\s*\]", line):
            table = f"{match[1]}."
        elif match := re.match(r"\s*([\w.-]+)\s*=", line):
            yield f"{table}{match[1]}", number
