"""The folder ``config.d`` beside a configuration file: its files are read over it, in the order of their names."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from costguard.config.paths import DROP_INS
from costguard.config.sources import Layer, Problem, read_file, unreadable

SUFFIX = ".toml"


class Stack(NamedTuple):
    """A configuration file and its drop-ins: their values, lowest first; the files that were read; and what leads to them."""

    layers: list[Layer]
    files: list[str]
    followed: list[str]


def read(file: str, *, required: bool) -> Stack:
    """A missing main file is empty unless it is ``required``; a drop-in that goes while it is read was never there."""
    folder = os.path.join(os.path.dirname(file), DROP_INS)
    names, problems = _names(folder)
    paths = [os.path.join(folder, name) for name in names]
    layers = [read_file(file, required=required), Layer({}, problems)]
    layers += [read_file(path, required=os.path.lexists(path)) for path in paths]
    files = [path for path in (file, *paths) if os.path.exists(path)]
    return Stack(layers, files, [path for path in (file, folder, *paths) if os.path.lexists(path)])


def _names(folder: str) -> tuple[list[str], list[Problem]]:
    try:
        listed = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return [], []
    except NotADirectoryError:
        return [], [Problem(folder, "this is a file; allowed: a folder with files NAME.toml")]
    except (OSError, ValueError) as error:
        return [], [Problem(folder, unreadable(error))]
    names = [name for name in listed if name.endswith(SUFFIX)]
    problems = [*_unprintable(folder, names), *_misspelt(folder, listed)]
    return [name for name in names if name.isprintable()], problems


def _misspelt(folder: str, names: list[str]) -> Iterator[Problem]:
    """A file that was to be read, and would be passed over for its capital letters."""
    for name in names:
        if name.lower().endswith(SUFFIX) and not name.endswith(SUFFIX):
            yield Problem(
                folder, f"the name of {name!r} does not end in {SUFFIX}, so it would not be read; allowed: NAME{SUFFIX}"
            )


def _unprintable(folder: str, names: list[str]) -> Iterator[Problem]:
    """A name that would break the lines of messages, or that is no text at all."""
    for name in names:
        if not name.isprintable():
            yield Problem(
                folder,
                f"the name {name!r} has characters that cannot be printed; allowed: a name of letters, digits, - and _",
            )
