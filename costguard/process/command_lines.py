"""The command line of each costguard program."""

import os
import sys

START = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")

LIGHT = {
    "guard": "costguard.agent.__main__",
    "nvml": "costguard.readers.nvml.reader",
    "host": "costguard.readers.host.reader",
    "persist": "costguard.agent.persist",
    "clock": "costguard.host.clockcheck",
    "history": "costguard.history.writer",
    "recall": "costguard.notify.recall",
    "notebook": "costguard.readers.host.runtime_file",
    "probe": "costguard.readers.host.probe_run",
    "exec": "costguard.tree.launcher",
    "watch": "costguard.tree.watcher",
    "fill": "costguard.fill.launcher",
    "look": "costguard.fill.watcher",
}
"""Resident or frequent, and need only the standard library: started without `site`."""

HEAVY = {
    "act": "costguard.actions.worker",
    "beat": "costguard.actions.beat",
    "addresses": "costguard.notify.usable",
    "notify": "costguard.notify.worker",
    "configure": "costguard.config.worker",
    "cloud": "costguard.readers.cloud.reader",
    "picture": "costguard.report.worker",
}
"""Short-lived, or resident on rented machines alone; `site` runs so that plug-ins installed in editable mode are found too."""


def extra_paths() -> str:
    """The entries of this process's ``sys.path`` that ``-S`` would lose, in the form `start.py` takes.

    The directories of installed packages, and PYTHONPATH; never the working directory, nor, for root, a directory that
    others can write: what is there would run as the agent.
    """
    library = os.path.dirname(os.path.abspath(os.__file__))
    known = {library, os.path.join(library, "lib-dynload"), os.path.dirname(os.path.dirname(os.path.dirname(START)))}
    wanted = sys.path if sys.flags.isolated else _installed()  # isolated: the process itself was started like this
    paths = dict.fromkeys(path for path in wanted if os.path.isabs(path) and os.path.isdir(path))
    return os.pathsep.join(path for path in paths if path not in known) or "-"


def _installed() -> list[str]:
    from costguard.trust import weakness

    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    doubtful = {*named, getattr(sys.modules.get("site"), "USER_SITE", None)} if os.geteuid() == 0 else set()
    here = {os.path.dirname(os.path.realpath(sys.argv[0])), "" if (cwd := working_directory()) in named else cwd}
    return [path for path in sys.path if path not in here and not (path in doubtful and weakness(path, 0))]


def working_directory() -> str:
    """The working directory; empty when it has been removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def command_lines() -> dict[str, list[str]]:
    """The command line of every program."""
    paths = extra_paths()
    light = {name: [sys.executable, "-I", "-S", START, module, paths] for name, module in LIGHT.items()}
    heavy = {name: [sys.executable, "-I", START, module, paths] for name, module in HEAVY.items()}
    return light | heavy
