"""How this command was started, for whoever is told to type the next one."""

import os
import shlex
import shutil
import sys

NAME = "costguard"


def invoked() -> str:
    """What to type for `costguard` in this folder: the bare name where PATH leads here, else the path that was used."""
    program = sys.argv[0]
    if os.path.basename(program) != NAME:  # python -m costguard, or a program that uses this one
        return f"{as_typed(sys.executable)} -m {NAME}" if sys.executable else NAME
    found = shutil.which(NAME)
    if found and os.path.realpath(found) == os.path.realpath(shutil.which(program) or program):
        return NAME
    return as_typed(os.path.abspath(program))


def as_typed(path: str) -> str:
    """A path as people type it: from here where it lies below, quoted where a shell needs it."""
    inside = os.path.relpath(path)
    return shlex.quote(path if inside.startswith(os.pardir) else inside if os.sep in inside else f".{os.sep}{inside}")
