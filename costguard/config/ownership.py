"""Who else could change what the agent will read or run: such a configuration is refused."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from costguard.actions import container
from costguard.config.schema import Settings
from costguard.config.sources import Problem, Value
from costguard.trust import weakness

_INTERPRETER = re.compile(r"(ba|da|z|k|fi|a|c|tc)?sh|busybox|(python|pypy|perl|ruby|lua|php)[\d.]*|node|tclsh|Rscript")
"""Programs that run the file which is named after them."""

_OTHER_USER = {"su", "runuser", "setpriv", "gosu"}
_OTHER_USER_WITH = {"sudo": "-u", "doas": "-u", "systemd-run": "--uid"}
"""What runs the rest as another user, whose own files may well be his; and the option without which it does not."""

_WORD = re.compile(r"[^\s;|&()<>'\"`$={}]+")
"""One word of a line that a shell is given."""

_SETTINGS = re.compile(r"_(FILE|CREDENTIALS|CONFIG)$")
"""Variables that lead libraries to their settings, which may name programs to run."""


class Given(NamedTuple):
    """What the agent will read, beside the settings themselves: configuration files, and the folder of the state."""

    files: tuple[str, ...]
    state: str
    environment: Mapping[str, str]


def check(settings: Settings, written: Mapping[str, Value], given: Given, uid: int) -> Iterator[Problem]:
    """One problem for each file or folder that others than this user and root can change."""
    inside = bool(container.mark(settings.host.procfs, given.environment))
    seen: set[str] = set()
    for path, file in _everything(settings, given, uid):
        found = weakness(file, uid, read_only_counts=inside)
        if found is None or file in seen:
            continue
        seen.add(file)
        who = "root's agent" if uid == 0 else "the agent"
        text = f"{who} would follow {file}, and {found.words}; to mend it: {found.remedy}"
        yield Problem(path, text, written[path].source if path in written else "")


def _everything(settings: Settings, given: Given, uid: int) -> Iterator[tuple[str, str]]:
    """What to look at: the option that leads to it, and its path."""
    for file in given.files:
        yield "--config", file
    for path, argv in (
        ("actions.command.run", settings.actions.command.run),
        ("hooks.pre_stop", settings.hooks.pre_stop),
    ):
        for file in executed(argv, given.environment):
            yield path, file
    for path, file in (
        ("sink.token_file", settings.sink.token_file),
        ("heartbeat.token_file", settings.heartbeat.token_file),
    ):
        if file:
            yield path, file
    if uid == 0:
        yield "--state-dir", given.state
        for name, value in given.environment.items():
            if _SETTINGS.search(name) and os.path.isabs(value) and os.path.exists(value):
                yield f"environment {name}", value


def executed(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The files that a command runs, as far as its words show: the program, and what it is told to run in its turn."""
    if not argv:
        return []
    program = shutil.which(argv[0], path=environment.get("PATH"))
    told = [] if _becomes_another(argv) else _arguments(argv)
    return [*([program] if program else []), *told]


def _becomes_another(argv: Sequence[str]) -> bool:
    names = [os.path.basename(word) for word in argv]
    return any(
        name in _OTHER_USER or (name in _OTHER_USER_WITH and any(w.startswith(_OTHER_USER_WITH[name]) for w in argv))
        for name in names
    )


def _arguments(argv: Sequence[str]) -> Iterator[str]:
    interprets = any(_INTERPRETER.fullmatch(os.path.basename(word)) for word in argv)
    line = False
    for word in argv[1:]:
        if line:  # sh -c "words of its own"
            yield from _arguments(["", *_WORD.findall(word)])
            return
        line = interprets and re.fullmatch(r"-\w*c", word) is not None
        if os.path.isabs(word) and os.path.isfile(word) and (interprets or os.access(word, os.X_OK)):
            yield word
