"""Which costguard this is, and whether another vendor's package of the same name is in its way."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions

import costguard
from costguard.doctor.finding import CheckResult, ok, warn

OURS, THEIRS = "costguard-agent", "costguard"
"""Names of distributions: ours, and `costguard` alone, which is another vendor's tool on the package index."""


def checks(path: Sequence[str], environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the import path and PATH."""
    home = os.path.dirname(os.path.abspath(costguard.__file__))
    version = ".".join(map(str, sys.version_info[:3]))
    yield ok(f"{OURS} {costguard.__version__} in {home}, Python {version}")
    yield from _distributions(path)
    for folder in dict.fromkeys(os.path.realpath(entry or os.curdir) for entry in path):
        other = os.path.join(folder, "costguard")
        if os.path.isfile(os.path.join(other, "__init__.py")) and not _same(other, home):
            yield warn(
                f"another package named costguard is in {other}; the import path decides which one a program gets",
                f"if it is not needed, remove it: {sys.executable} -m pip uninstall {THEIRS}",
            )
    yield from _commands(environ)


def _distributions(path: Sequence[str]) -> Iterator[CheckResult]:
    for found in distributions(path=[entry or os.curdir for entry in path]):
        if (found.metadata["Name"] or "").lower() == THEIRS:
            yield warn(
                f"the distribution {THEIRS} {found.version} is installed; it is another vendor's tool, "
                "and both write to the same folder",
                f"{sys.executable} -m pip uninstall {THEIRS}, then install costguard again from the file that it came from",
            )


def _commands(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """The command that people get when they type ``costguard``."""
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    found = [os.path.join(folder, "costguard") for folder in folders]
    found = [name for name in found if os.access(name, os.X_OK) and not os.path.isdir(name)]
    ours = os.path.join(os.path.dirname(sys.executable), "costguard")
    if found and os.path.exists(ours) and not _same(found[0], ours):
        text = f"`costguard` in your PATH is {found[0]}, not this Python's ({ours})"
        yield warn(text, f"`{found[0]} --version` says which one it is; type {ours} for this one")


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
