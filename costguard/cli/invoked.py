"""How this command was started, to suggest the next one."""

import os
import shlex
import shutil
import sys

NAME = "costguard"


def invoked() -> str:
    """What to type for `costguard` here: the bare name where PATH leads to it, else the path that was used."""
    program = sys.argv[0]
    if os.path.basename(program) != NAME:  # python -m costguard, or a program that uses this one
        return f"{as_typed(sys.executable)} -m {NAME}" if sys.executable else NAME
    found = shutil.which(NAME)
    if found and os.path.realpath(found) == os.path.realpath(shutil.which(program) or program):
        return NAME
    return as_typed(os.path.abspath(program))


def as_typed(path: str) -> str:
    """A path as people type it: relative where it is below this folder, quoted for a shell."""
    inside = os.path.relpath(path)
    return shlex.quote(path if inside.startswith(os.pardir) else inside if os.sep in inside else f".{os.sep}{inside}")
