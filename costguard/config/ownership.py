"""Who else could change what the agent will read or run: such a configuration is refused."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from costguard.cloud import container
from costguard.config.plug_ins import files
from costguard.config.schema import Settings
from costguard.config.sources import Problem, Value
from costguard.config.values import REFERENCE
from costguard.files import open_file
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


NESTED = 5
"""Scripts whose interpreter is a script again, as deep as the kernel follows them."""

FIRST_LINE = 256
"""Bytes of a script's first line that the kernel reads. Source: execve(2)."""


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
        *((f"notify.channels.{name}.urls", _file_of(one.urls)) for name, one in settings.notify.channels.items()),
        *((f"cloud.{name}.{option}", getattr(getattr(settings.cloud, name), option)) for name, option in files()),
    ):
        if file:
            yield path, file
    if uid == 0:
        yield "--state-dir", given.state
        for name, value in given.environment.items():
            if _SETTINGS.search(name) and os.path.isabs(value) and os.path.exists(value):
                yield f"environment {name}", value


def _file_of(reference: str) -> str:
    found = REFERENCE.fullmatch(reference)
    return (found["file"] or "") if found else ""


def executed(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """The files that a command runs, as far as its words show.

    The program, what it is told to run in its turn, and what runs those of them that are scripts.
    """
    if not argv:
        return []
    path = environment.get("PATH")
    program = shutil.which(argv[0], path=path)
    told = [] if _becomes_another(argv) else _arguments(argv)
    named = [program, _found_by_env(argv, path), *told]
    files = list(dict.fromkeys(file for file in named if file))
    runners = [runner for file in files if os.access(file, os.X_OK) for runner in _interpreters(file, path)]
    return list(dict.fromkeys([*files, *runners]))


def _interpreters(file: str, path: str | None) -> Iterator[str]:
    """What runs a script, by its first line: the interpreter, and what it runs in its turn; ``path`` is searched for `env NAME`."""
    for _ in range(NESTED):
        try:
            with open_file(file) as script:
                first, end, _rest = script.read(FIRST_LINE).partition(b"\n")
        except OSError:
            return
        words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
        cut = not end and len(first) == FIRST_LINE and len(words) == 1 and not first[-1:].isspace()
        if not words or cut:  # of a name that is too long the kernel runs nothing
            return
        file = os.path.join("/", words[0])
        yield file
        if found := _found_by_env(words, path):
            file = found
            yield file


def _found_by_env(words: Sequence[str], path: str | None) -> str | None:
    """The program that `env` finds for the name that it is given; None where it is not `env` that is run."""
    if os.path.basename(words[0]) != "env":
        return None
    rest = [word.removeprefix("-S") for word in words[1:]]
    name = next((word for word in rest if word and not word.startswith("-") and "=" not in word), None)
    return shutil.which(name, path=path) if name else None


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
