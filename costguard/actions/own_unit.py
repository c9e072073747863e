"""Run a program of the owner in a systemd unit of its own, outside the sandbox of the agent's.

A shell of one line is the unit's first process. It joins both outputs, so that systemd-run's own words can be told
from the program's; leaves a lifeline behind, which ends the unit when this process is gone; and becomes the program.
"""

import os
import re
import secrets
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EACCES, ENOENT
from typing import NamedTuple

from costguard import programs
from costguard.accounts import Account
from costguard.actions import not_started
from costguard.process import outside
from costguard.programs import KILL_WAIT_SECONDS, TERM_GRACE_SECONDS, ProgramEnd

_FIRST = """\
exec 3<&0 </dev/null 2>&1
({ read -r _ <&3 || kill -TERM $$; sleep GRACE; kill -KILL $$; } >/dev/null 2>&1) &
exec 3<&-
exec "$@"
""".replace("GRACE", f"{TERM_GRACE_SECONDS:g}")
"""Nothing is ever written to the lifeline: `read` ends when the other end is closed."""

_OF_A_UNIT = frozenset(
    ("INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")
)
"""Variables that systemd sets for one unit; systemd.exec(5)."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESULT = re.compile(r"^Finished with result: (\S+)$", re.MULTILINE)
_ENDED = re.compile(r"^Main processes terminated with: code=(\w+)/status=(\w+)$", re.MULTILINE)
_WORDS_BYTES = 4096


class NotStartedError(Exception):
    """systemd did not start the unit, and the program certainly did not run; the message says why."""


class Tools(NamedTuple):
    """The programs that this needs, with their paths."""

    systemd_run: str
    sh: str


def tools(procfs: str) -> Tools | None:
    """What it takes, where this process belongs to a service of the system's own systemd and is root's; else None."""
    if not outside.in_service(procfs):
        return None
    systemd_run, sh = shutil.which(outside.SYSTEMD_RUN), shutil.which("sh")
    return Tools(systemd_run, sh) if systemd_run and sh else None


def run(
    found: Tools, argv: Sequence[str], limit: float, environ: Mapping[str, str], account: Account | None, folder: str
) -> ProgramEnd:
    """As `programs.run`. The whole unit is ended at the deadline, with the program, and when this process dies.

    ``folder``: where the environment lies meanwhile, for root's eyes alone. Raises NotStartedError, and OSError where there is no such program.
    """
    program = shutil.which(argv[0], path=environ.get("PATH"))
    if program is None:
        there = os.path.exists(not_started.found(argv[0], environ))
        raise PermissionError(EACCES, os.strerror(EACCES)) if there else FileNotFoundError(ENOENT, os.strerror(ENOENT))
    name = f"costguard-{secrets.token_hex(6)}.service"
    path = _written(environ, folder)
    lifeline = os.pipe2(os.O_CLOEXEC)
    said = os.memfd_create("words", os.MFD_CLOEXEC)
    try:
        # Root's own variables: what the program gets, systemd-run itself shall not use.
        ended = programs.run(
            [*_options(found, name, limit, path, account), *map(_plain, _first(found, program, argv))],
            limit + TERM_GRACE_SECONDS + KILL_WAIT_SECONDS,
            environ={"PATH": os.environ.get("PATH", os.defpath), "SYSTEMD_LOG_LEVEL": "info"},
            stdin=lifeline[0],
            stderr=said,
        )
        words = os.pread(said, _WORDS_BYTES, 0).decode("utf-8", "replace")
    finally:
        for fd in (*lifeline, said):
            os.close(fd)
        with suppress(OSError):  # removed by whoever cleans the folder
            os.unlink(path)
    if not re.search(rf"^Running as unit: {name}", words, re.MULTILINE):
        if ended.expired:  # it may have begun
            return ended
        raise NotStartedError(" ".join(words.split()) or f"systemd-run ended with exit code {ended.code}")
    return _end(ended, words)


def _first(found: Tools, program: str, argv: Sequence[str]) -> list[str]:
    return [found.sh, "-c", _FIRST, "sh", program, *argv[1:]]


def _plain(word: str) -> str:
    """A word in which systemd.exec(5) expands nothing."""
    return word.replace("$", "$$")


def _options(found: Tools, name: str, limit: float, path: str, account: Account | None) -> list[str]:
    properties = {
        "EnvironmentFile": path,
        "RuntimeMaxSec": f"{limit:g}",
        "TimeoutStopSec": f"{TERM_GRACE_SECONDS:g}",
        "SyslogIdentifier": "costguard",
        **({"User": account.name} if account else {}),
    }
    given = [f"--property={key}={value}" for key, value in properties.items()]
    options = ["--wait", "--pipe", "--collect", "--no-ask-password", "--service-type=exec", f"--unit={name}"]
    text = "--description=a program of the owner, started by costguard"
    return [found.systemd_run, *options, text, *given, "--"]


def _written(environ: Mapping[str, str], folder: str) -> str:
    """A file with the environment, as systemd.exec(5) reads it: values on a command line or in a unit are everybody's to read."""
    fd, path = tempfile.mkstemp(".env", "own-", folder)
    with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
        for name, value in environ.items():
            if _NAME.fullmatch(name) and name not in _OF_A_UNIT:
                quoted = re.sub(r'(["\\$`])', r"\\\1", value)
                file.write(f'{name}="{quoted}"\n')
    return path


def _end(ended: ProgramEnd, words: str) -> ProgramEnd:
    """How the program itself ended, by systemd-run's words."""
    result = _RESULT.search(words)
    code = ended.code
    if how := _ENDED.search(words):
        code = int(how[2]) if how[1] == "exited" and how[2].isdigit() else -_signal(how[2])
    expired = ended.expired or (result is not None and result[1] == "timeout")
    return ended._replace(code=code, expired=expired)


def _signal(name: str) -> int:
    return int(name) if name.isdigit() else int(getattr(signal, f"SIG{name}", signal.SIGKILL))
