"""The lowest layer of an effect."""

import pytest

from costguard.actions import effect
from costguard.actions.base import Context, DryRunError


@pytest.mark.parametrize("mode", ["dry-run", "", "Live"])
def test_no_program_is_started_in_a_dry_run(mode: str) -> None:
    """Whoever calls it: the mode is asked again where the program would start."""
    with pytest.raises(DryRunError):
        effect.run(Context("command", mode), ["/nonexistent/program"])


def test_live_starts_it() -> None:
    """The same call gets to the program."""
    with pytest.raises(FileNotFoundError):
        effect.run(Context("command", "live"), ["/nonexistent/program"])
