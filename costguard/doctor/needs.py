"""What a unit needs beside its program so that it starts: files of its directives, and what runs before it.

Sources: systemd.exec(5), systemd.service(5). A directive that begins with ``-`` needs nothing.
"""

import shutil
from collections.abc import Iterator, Mapping

from costguard.config.here import SEARCHED
from costguard.doctor.units import PREFIXES, split_words
from costguard.files import is_gone

_CREDENTIALS = ("LoadCredential", "LoadCredentialEncrypted")
_DEFAULTS = ("SetCredential", "SetCredentialEncrypted")
"""Stand in for a credential whose file is missing."""

_ONE_PATH = ("WorkingDirectory", "RootDirectory", "RootImage")
_PATHS = ("ReadWritePaths", "ReadOnlyPaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths", "BindPaths", "BindReadOnlyPaths")  # fmt: skip
BESIDE = ("ExecStartPre", "ExecStartPost")
"""Programs whose failure is a failure of the start."""

Settings = Mapping[str, list[str]]


def missing(settings: Settings, searched: str = "") -> Iterator[tuple[str, str]]:
    """Each directive that keeps the unit from starting, and what it names that does not exist."""
    for key, path in _files(settings):
        if path.startswith("/") and "%" not in path.replace("%%", "") and is_gone(path.replace("%%", "%")):
            yield key, path.replace("%%", "%")
    for key, line in beside(settings):
        program = (split_words(line) or [""])[0]
        if (
            program
            and "%" not in program
            and "$" not in program
            and shutil.which(program, path=searched or SEARCHED) is None
        ):
            yield key, program


def beside(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each command line that must succeed beside the program, without its prefixes."""
    for key in BESIDE:
        for line in settings.get(key, ()):
            bare = line.lstrip(PREFIXES)
            if "-" not in line[: len(line) - len(bare)]:
                yield key, bare


def _files(settings: Settings) -> Iterator[tuple[str, str]]:
    defaults = {value.partition(":")[0] for key in _DEFAULTS for value in settings.get(key, ())}
    for key in _CREDENTIALS:
        for value in settings.get(key, ()):
            name, _, path = value.partition(":")
            if name not in defaults:
                yield key, path
    for key in _ONE_PATH:
        for value in settings.get(key, ())[-1:]:
            yield key, value
    for key in _PATHS:
        for value in settings.get(key, ()):
            for word in split_words(value):
                yield key, word.removeprefix("+").partition(":")[0]
