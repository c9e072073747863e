"""One answer of one of costguard's own programs, with a deadline, for short-lived commands."""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from costguard.agent.programs import command_lines
from costguard.trust import clean

KILL_SECONDS = 2.0
"""How long a killed program is waited for: a zombie could stay, and in a sick driver it may not be killable."""


def first_answer(program: str, lines: Sequence[Mapping[str, object]], seconds: float) -> dict[str, object] | None:
    """Start a program, write it some lines of JSON, and give the first object that it answers.

    Empty when it ends without one, None when it says nothing in time. It is killed afterwards.
    """
    text = "".join(json.dumps(line) + "\n" for line in lines)
    try:
        child = subprocess.Popen(
            command_lines()[program],
            env=clean(os.environ, os.geteuid())[0],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
        )
    except OSError:
        return {}
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(text.encode())
        line = _line(child.stdout.fileno(), time.monotonic() + seconds)
        answer = json.loads(line or b"{}") if line is not None else None
    except (OSError, ValueError):
        return {}
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        with suppress(subprocess.TimeoutExpired):
            child.wait(KILL_SECONDS)
    return answer if isinstance(answer, dict) or answer is None else {}


def _line(fd: int, deadline: float) -> bytes | None:
    """One line, what came of it before the end of the output, or None at the deadline."""
    text = b""
    while b"\n" not in text:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            return None
        data = os.read(fd, 65536)
        if not data:
            break
        text += data
    return text.partition(b"\n")[0]
