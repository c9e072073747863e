"""A scheduler's own programs, run with a deadline: what they say, or a SchedulerError."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from costguard.masking import mask
from costguard.tasks.api import SchedulerError

LONGEST_BYTES = 1 << 20
"""How much of an answer is read."""

KILL_SECONDS = 2.0
"""How long to wait for a program that was killed; one that hangs in the kernel is given up."""

WORDS = 300
"""How much of a program's own words a message quotes."""


class ProgramAnswer(NamedTuple):
    """How a program ended: its exit code, and what it wrote; ``late``: it was killed, so what it did is not known."""

    code: int
    output: str
    errors: str
    late: bool = False

    @property
    def words(self) -> str:
        """The end of what it said, for people, without secrets."""
        return mask(" ".join((self.errors or self.output).split())[-WORDS:]) or f"no output, exit code {self.code}"


def run(
    argv: Sequence[str], within: float, *, folder: str = "", environ: Mapping[str, str] | None = None
) -> ProgramAnswer:
    """Run a program for at most ``within`` seconds, in plain English; ``folder`` is where it is, else the search path counts.

    Raises SchedulerError where it does not exist or cannot be started: then certainly nothing was sent.
    """
    path = os.path.join(folder, argv[0]) if folder else shutil.which(argv[0])
    hint = "install the scheduler's own programs here, or name their folder in the plug-in's table under [task]"
    if not path or not os.access(path, os.X_OK):
        raise SchedulerError(
            "refused", f"the program {argv[0]!r} is not here, so the scheduler cannot be asked", hint=hint
        )
    given = {**(os.environ if environ is None else environ), "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            [path, *argv[1:]],
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        text = f"the program {argv[0]!r} could not be started: {error.strerror}"
        raise SchedulerError("internal", text, hint=hint) from error
    return _heard(process, within)


def _heard(process: "subprocess.Popen[bytes]", within: float) -> ProgramAnswer:
    try:
        output, errors = process.communicate(timeout=within)
        late = False
    except subprocess.TimeoutExpired:
        process.kill()
        late = True
        try:
            output, errors = process.communicate(timeout=KILL_SECONDS)
        except subprocess.TimeoutExpired:
            output = errors = b""
    texts = [data[:LONGEST_BYTES].decode("utf-8", "replace") for data in (output, errors)]
    return ProgramAnswer(process.returncode if process.returncode is not None else -9, texts[0], texts[1], late)
