"""What a configuration names that is not on this machine: programs, users, files. It may be meant for another one."""

import os
import pwd
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from costguard.config import sense_options
from costguard.config.plug_ins import CLOUDS, TASKS
from costguard.config.schema import Settings
from costguard.files import is_gone

SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a service finds a program without a path (systemd.exec(5))."""


class Absent(NamedTuple):
    """An option, and what it names. ``saves``: without it work is stopped that was to be saved before."""

    option: str
    what: str
    saves: bool = False

    @property
    def words(self) -> str:
        """In a sentence."""
        return f"{self.option}: there is no {self.what} on this machine"


def absent(settings: Settings) -> Iterator[Absent]:
    """Everything that certainly is not here; what this user may not look at may be."""
    hooks = {f"hooks.{step}": program for step, program in settings.hooks if isinstance(program, tuple)}
    programs = {
        "actions.command.run": settings.actions.command.run,
        **hooks,
        **dict(sense_options.commands(settings.senses)),
    }
    for option, argv in programs.items():
        if argv and _no_program(argv[0]):
            yield Absent(option, f"program {argv[0]}", saves=option == "hooks.pre_stop")
    probe = settings.senses.probe  # type: ignore[attr-defined]  # a model that is made at run time
    users = (("hooks.user", settings.hooks.user, hooks), ("senses.probe.user", probe.user, {"": probe.run}))
    for option, user, used in users:
        if user and any(used.values()) and not _is_user(user):
            yield Absent(option, f"user {user}", saves=bool(used.get("hooks.pre_stop")))
    for option, file in _files(settings):
        if file and is_gone(file):
            yield Absent(option, f"file {file}")


def _files(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "sink.token_file", settings.sink.token_file
    yield "heartbeat.token_file", settings.heartbeat.token_file
    for kind, plug_ins, section in (("cloud", CLOUDS, settings.cloud), ("task", TASKS, settings.task)):
        for name, option in plug_ins.files():
            yield f"{kind}.{name}.{option}", getattr(getattr(section, name), option)


def _no_program(name: str) -> bool:
    if os.path.isabs(name):
        return is_gone(name)
    return not shutil.which(name) and not shutil.which(name, path=SEARCHED)


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
