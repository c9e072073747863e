"""What docs/service.md says that the service leaves open is what is tried on a machine that boots, word by word."""

from pathlib import Path

from tests.vm.exceptions import LEFT

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def test_the_page_explains_the_exceptions_that_are_tried() -> None:
    """One table, in two places."""
    _, _, after = PAGE.read_text("utf-8").partition("| left open | because |\n|---|---|\n")
    table, _, _ = after.partition("\n\n")
    assert table.splitlines() == [f"| {left.switch} | {left.why} |" for left in LEFT]
