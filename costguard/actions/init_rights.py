"""Whether this user may shut the machine down, asked without a password prompt and without an effect."""

import os
import pwd
import re
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from costguard import programs

ASK_SECONDS = 5.0
"""Seconds one question to logind or sudo may take."""

_RULE = re.compile(r"^\s*\((?P<run_as>[^)]*)\)\s*(?P<rest>.+)$")


class InitRight(NamedTuple):
    """``command`` is what to run, empty when it is not allowed; then ``missing`` names the rule that would allow it."""

    command: tuple[str, ...]
    missing: str = ""


def ask(command: Sequence[str], method: str, *, systemd: bool, new_privileges: bool) -> InitRight:
    """Find out how this user may run ``command`` (as root, through logind's polkit rules, or through sudo).

    ``method`` is logind's question, ``CanPowerOff`` or ``CanReboot``. Sources:
    org.freedesktop.login1(5), sudo(8) and sudoers(5).
    """
    if os.geteuid() == 0:
        return InitRight(tuple(command))
    if systemd and _logind_says_yes(method):
        return InitRight(tuple(command))
    if new_privileges and _sudo_allows(command):
        return InitRight(("sudo", "-n", *command))
    return InitRight((), _missing(command, new_privileges))


def nopasswd(listing: str, command: Sequence[str]) -> bool:
    """Whether the output of ``sudo -l`` has a rule that runs ``command`` as root without a password."""
    for line in listing.splitlines():
        rule = _RULE.match(line)
        if rule and rule["run_as"].split(":")[0].strip() in {"root", "ALL"} and _free(rule["rest"], command):
            return True
    return False


def _free(rest: str, command: Sequence[str]) -> bool:
    """Read the comma list of one rule; a tag holds until its opposite comes."""
    free = allowed = False
    for part in rest.split(","):
        words = part.strip()
        while tag := re.match(r"([A-Z_]+):\s*", words):
            free = {"NOPASSWD": True, "PASSWD": False}.get(tag[1], free)
            words = words[tag.end() :]
        if words.startswith("!") and _covers(words[1:], command):
            allowed = False
        elif _covers(words, command):
            allowed = free
    return allowed


def _covers(rule: str, command: Sequence[str]) -> bool:
    if rule == "ALL":
        return True
    program, _, arguments = rule.strip().partition(" ")
    same_program = program in {command[0], shutil.which(command[0])}
    return same_program and arguments.strip() in {"", "*", " ".join(command[1:])}


def _logind_says_yes(method: str) -> bool:
    name = "org.freedesktop.login1"
    answer = _answer(["busctl", "--system", "call", name, "/org/freedesktop/login1", f"{name}.Manager", method])
    return answer is not None and answer.split()[-1:] == ['"yes"']


def _sudo_allows(command: Sequence[str]) -> bool:
    """Both answers are needed: the first knows every kind of rule, only the second names passwords."""
    if _answer(["sudo", "-n", "-l", *command]) is None:
        return False
    return nopasswd(_answer(["sudo", "-n", "-l"]) or "", command)


def _answer(argv: Sequence[str]) -> str | None:
    """What a program says, None when it is missing, fails or takes too long."""
    if shutil.which(argv[0]) is None:
        return None
    try:
        ended = programs.run(argv, ASK_SECONDS, environ={**os.environ, "LC_ALL": "C"})
    except OSError:
        return None
    return ended.output if ended.code == 0 else None


def _missing(command: Sequence[str], new_privileges: bool) -> str:
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        user = f"#{os.geteuid()}"
    path = shutil.which(command[0]) or command[0]
    rule = f"{user} ALL=(root) NOPASSWD: {' '.join((path, *command[1:]))}"
    if not new_privileges:
        return "run costguard as root; sudo cannot work here because the service has NoNewPrivileges set"
    return f"run costguard as root, or run `visudo -f /etc/sudoers.d/costguard` and add: {rule}"
