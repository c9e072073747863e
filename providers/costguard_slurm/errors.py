"""What Slurm's programs say when they fail, as a SchedulerError: the one place where their words are read."""

from costguard.cloud.api import Sent, Trouble
from costguard.tasks.api import SchedulerError
from costguard.tasks.commands import ProgramAnswer

_OWNER = "run costguard as the owner of the job, or as root"
_CONTROLLER = "`scontrol ping` says whether the controller answers"
_MUNGE = "check that `munged` runs here: `munge -n | unmunge`"

_WORDS: tuple[tuple[str, Trouble, Sent, str], ...] = (
    ("invalid job id", "gone", "no", ""),
    ("already completing or completed", "gone", "no", ""),
    ("access/permission denied", "denied", "no", _OWNER),
    ("invalid user id", "denied", "no", _OWNER),
    ("user's group not permitted", "denied", "no", _OWNER),
    ("unable to contact slurm controller", "unreachable", "no", _CONTROLLER),
    ("connection refused", "unreachable", "no", _CONTROLLER),
    ("name or service not known", "unreachable", "no", _CONTROLLER),
    ("munge", "credentials", "no", _MUNGE),
    ("authentication", "credentials", "no", _MUNGE),
    ("timed out", "unreachable", "silent", _CONTROLLER),
    ("zero bytes", "unreachable", "silent", _CONTROLLER),
    ("retry_later", "throttled", "no", ""),
    ("backup mode", "unreachable", "no", _CONTROLLER),
)
"""Parts of messages, in small letters, first match first. Source: slurm_errno.c of 22.05."""


def explain(program: str, said: ProgramAnswer, within: float) -> SchedulerError:
    """The error of a program that failed, or was late."""
    if said.late:
        text = f"`{program}` did not answer within {within:.0f} s"
        return SchedulerError("unreachable", text, code="no_answer", hint=_CONTROLLER, sent="silent")
    lower = said.words.lower()
    for words, trouble, sent, hint in _WORDS:
        if words in lower:
            return SchedulerError(trouble, f"`{program}` failed: {said.words}", hint=hint, sent=sent)
    return SchedulerError("internal", f"`{program}` failed with exit code {said.code}: {said.words}", sent="perhaps")
