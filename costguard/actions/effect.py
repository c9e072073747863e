"""The only place where an action starts a program that changes something."""

from collections.abc import Mapping, Sequence

from costguard import programs
from costguard.actions.base import Context, DryRunError
from costguard.masking import mask, secrets_of


def run(
    context: Context, argv: Sequence[str], *, deadline: float | None = None, environ: Mapping[str, str] | None = None
) -> programs.ProgramEnd:
    """Run the program of an action; its words are masked, because they go into messages and records.

    Raises DryRunError unless the mode is live, OSError when the program cannot start.
    """
    if not context.live:
        raise DryRunError("dry run")
    ended = programs.run(argv, context.deadline if deadline is None else deadline, environ=environ)
    return ended._replace(output=mask(ended.output, secrets_of(argv)))
