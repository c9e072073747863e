"""Refuse a configuration that leads the agent to files that other users can change."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from costguard.cloud import container
from costguard.config import paths, sense_options
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.schema import Settings
from costguard.config.sources import Problem, Value
from costguard.config.values import REFERENCE
from costguard.files import open_file
from costguard.trust import weakness

_INTERPRETER = re.compile(r"(ba|da|z|k|fi|a|c|tc)?sh|busybox|(python|pypy|perl|ruby|lua|php)[\d.]*|node|tclsh|Rscript")
"""Programs that run the file which is named after them."""

_OTHER_USER = {"su", "runuser", "setpriv", "gosu"}
_OTHER_USER_WITH = {"sudo": "-u", "doas": "-u", "systemd-run": "--uid"}
"""Programs that run a command as another user, who may own what it runs; each with the option that says which user."""

_WORD = re.compile(r"[^\s;|&()<>'\"`$={}]+")
"""One word of a shell command."""

_SETTINGS = re.compile(r"_(FILE|CREDENTIALS|CONFIG)$")
"""Variables that point libraries to their settings, which may name programs to run."""

NESTED = 5
"""How deep the kernel follows scripts whose interpreter is a script again."""

FIRST_LINE_BYTES = 256
"""What the kernel reads of a script's first line. Source: execve(2)."""


class Given(NamedTuple):
    """What the agent will read beside the settings: configuration files, state directory and environment."""

    files: tuple[str, ...]
    state: str
    environment: Mapping[str, str]


def check(settings: Settings, written: Mapping[str, Value], given: Given, uid: int) -> Iterator[Problem]:
    """One problem for each file or folder that users other than this one and root can change."""
    inside = bool(container.evidence(settings.host.procfs, given.environment))
    seen: set[tuple[str, str]] = set()
    for path, file in _everything(settings, given, uid):
        found = weakness(file, uid, read_only_counts=inside)
        if found is None:
            continue
        if os.path.basename(found.place) == paths.DROP_INS and not found.remedy.startswith("sudo chmod"):
            # a copy elsewhere is never read
            found = found._replace(remedy=f"sudo chown {'root:root' if uid == 0 else uid} {found.place}")
        if (found.place, found.remedy) in seen:
            continue  # told once, however many files are below it
        seen.add((found.place, found.remedy))
        who = "root's agent" if uid == 0 else "the agent"
        text = f"{who} would use {file}, but {found.reason}; to fix it: {found.remedy}"
        yield Problem(path, text, written[path].source if path in written else "")


def _everything(settings: Settings, given: Given, uid: int) -> Iterator[tuple[str, str]]:
    """What to check: the option that leads to it, and its path."""
    for file in given.files:
        yield "--config", file
    for path, argv in (
        ("actions.command.run", settings.actions.command.run),
        *((f"hooks.{step}", program) for step, program in settings.hooks if isinstance(program, tuple)),
        *sense_options.commands(settings.senses),
    ):
        for file in executed(argv, given.environment):
            yield path, file
    for path, file in (
        ("sink.token_file", settings.sink.token_file),
        ("heartbeat.token_file", settings.heartbeat.token_file),
        *((f"notify.channels.{name}.urls", _file_of(one.urls)) for name, one in settings.notify.channels.items()),
        *(
            (f"cloud.{name}.{option}", getattr(getattr(settings.cloud, name), option))
            for name, option in CLOUDS.files()
        ),
        *((f"task.{name}.{option}", getattr(getattr(settings.task, name), option)) for name, option in TASKS.files()),
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
    """The files that a command runs, as far as its arguments show: the program, what it runs in turn, and interpreters."""
    if not argv:
        return []
    path = environment.get("PATH")
    program = shutil.which(argv[0], path=path)
    arguments = [] if _switches_user(argv) else _arguments(argv)
    files = list(dict.fromkeys(filter(None, (program, _found_by_env(argv, path), *arguments))))
    runners = [runner for file in files if os.access(file, os.X_OK) for runner in _interpreters(file, path)]
    return list(dict.fromkeys([*files, *runners]))


def _interpreters(file: str, path: str | None) -> Iterator[str]:
    """What runs a script, by its first line: the interpreter, and what it runs in turn; ``path`` is searched for `env NAME`."""
    for _ in range(NESTED):
        try:
            with open_file(file) as script:
                first, end, _rest = script.read(FIRST_LINE_BYTES).partition(b"\n")
        except OSError:
            return
        words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
        cut = not end and len(first) == FIRST_LINE_BYTES and len(words) == 1 and not first[-1:].isspace()
        if not words or cut:  # the kernel refuses a name that is cut off
            return
        file = os.path.join("/", words[0])
        yield file
        if found := _found_by_env(words, path):
            file = found
            yield file


def _found_by_env(words: Sequence[str], path: str | None) -> str | None:
    """The program that `env NAME` runs; None where the first word is not `env`."""
    if os.path.basename(words[0]) != "env":
        return None
    rest = [word.removeprefix("-S") for word in words[1:]]
    name = next((word for word in rest if word and not word.startswith("-") and "=" not in word), None)
    return shutil.which(name, path=path) if name else None


def _switches_user(argv: Sequence[str]) -> bool:
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
