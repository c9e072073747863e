"""Errors that people read: `CostguardError` and its subclasses, each beside the code that raises it."""

REFUSED = 3
"""Exit code: refused, or too late."""
USAGE = 2
"""Exit code: wrong usage or configuration."""


class CostguardError(Exception):
    """An error that a person can fix: what happened, which command to run next (``hint``), and the exit code of the verb."""

    def __init__(self, message: str, hint: str = "", exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
