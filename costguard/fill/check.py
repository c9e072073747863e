"""Whether work can be started as it is written: what a dry run finds, and what a start failed at, in the same words."""

import os
from collections.abc import Iterator, Sequence

from costguard.tree.begin import DIRECTORY, LOG, Background, Failed

_NUMBER = "{gpu}"


def problems(command: Sequence[str], background: Background) -> list[str]:
    """What would keep this command from being started, each with its path. What still waits for a GPU's number is left out."""
    directory, log = background.directory, background.log
    found = [] if _NUMBER in directory else list(_of_directory(directory))
    if not found and _NUMBER not in directory:
        found += _of_program(command[0], directory, background.environment.get("PATH", os.defpath))
    if log and _NUMBER not in log:
        found += _of_log(log)
    return found


def cannot(failed: Failed, command: Sequence[str], background: Background) -> str:
    """Why this command was not started, with its path."""
    why = os.strerror(failed.number)
    if failed.at == LOG:
        return f"the log {background.log} cannot be written: {why}"
    if failed.at == DIRECTORY:
        return f"the directory {background.directory} cannot be entered: {why}"
    return f"the program {command[0]} cannot be run: {why}"


def _of_directory(path: str) -> Iterator[str]:
    if not os.path.exists(path):
        yield f"the directory {path} cannot be entered: No such file or directory"
    elif not os.path.isdir(path):
        yield f"the directory {path} cannot be entered: Not a directory"
    elif not os.access(path, os.X_OK):
        yield f"the directory {path} cannot be entered: Permission denied"


def _of_program(name: str, directory: str, path: str) -> Iterator[str]:
    """As execvp(3) finds it, from the directory of the work."""
    if "/" not in name:
        places = [os.path.join(directory, place, name) for place in path.split(os.pathsep)]
        if not any(os.path.isfile(one) and os.access(one, os.X_OK) for one in places):
            yield f"the program {name} is not found in PATH, or cannot be run"
        return
    place = name if directory == "." else os.path.normpath(os.path.join(directory, name))
    if not os.path.exists(place):
        yield f"the program {place} cannot be run: No such file or directory"
    elif not os.path.isfile(place) or not os.access(place, os.X_OK):
        yield f"the program {place} cannot be run: Permission denied"


def _of_log(path: str) -> Iterator[str]:
    """It is opened where it exists, and not made where it does not."""
    folder = os.path.dirname(path) or "."
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        if not os.path.isdir(folder):
            yield f"the log {path} cannot be written: there is no folder {folder}"
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield f"the log {path} cannot be written: Permission denied"
    except OSError as error:
        yield f"the log {path} cannot be written: {error.strerror}"
