"""How the processes of costguard are started: program name to command line."""

import os
import sys

START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")

LIGHT = {
    "guard": "costguard.agent.__main__",
    "nvml": "costguard.readers.nvml",
    "persist": "costguard.agent.persist",
    "clock": "costguard.agent.clockcheck",
    "history": "costguard.history.writer",
}
"""Resident or frequent, and content with the standard library: started without `site`."""

HEAVY = {
    "act": "costguard.actions.worker",
    "beat": "costguard.actions.beat",
    "notify": "costguard.notify.worker",
    "configure": "costguard.config.worker",
    "cloud": "costguard.readers.cloud",
}
"""Short-lived, or resident on rented machines alone; `site` runs so that plug-ins installed in editable mode are found too."""


def extra_paths() -> str:
    """The entries of this process's ``sys.path`` that ``-S`` would lose, in the form `start.py` takes."""
    library = os.path.dirname(os.path.abspath(os.__file__))
    known = {library, os.path.join(library, "lib-dynload"), os.path.dirname(os.path.dirname(os.path.dirname(START)))}
    found = dict.fromkeys(os.path.abspath(path) for path in sys.path if os.path.isdir(path))
    return os.pathsep.join(path for path in found if path not in known) or "-"


def command_lines() -> dict[str, list[str]]:
    """The command line of every program, with the ``sys.path`` of this process."""
    paths = extra_paths()
    light = {name: [sys.executable, "-I", "-S", START, module, paths] for name, module in LIGHT.items()}
    heavy = {name: [sys.executable, "-I", START, module, paths] for name, module in HEAVY.items()}
    return light | heavy
