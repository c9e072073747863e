"""Numbers as people read them."""

import re
from pathlib import Path

import pytest

import costguard
from costguard.engine.words import hanging, several


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (several(0, "message"), "0 messages"),
        (several(1, "message"), "1 message"),
        (several(2, "message"), "2 messages"),
        (several(1, "try", "tries"), "1 try"),
        (several(3, "try", "tries"), "3 tries"),
        (hanging(1), "1 reader hangs in the driver and cannot be killed"),
        (hanging(2), "2 readers hang in the driver and cannot be killed"),
    ],
)
def test_one_is_no_plural(said: str, words: str) -> None:
    """A count and its noun agree."""
    assert said == words


NOUNS = "messages|rows|lines|readers|tries|samples|columns|readings|problems|looks|terminals|processes|warnings|stops"
COUNTED = re.compile(
    rf'f".*(?:len\([^{{}}]*\)|count|\w*(?:looks|hidden|delivered|unreaped|stopped|tries|rows)\b[^{{}}]*)\}} (?:{NOUNS})\b'
)


def test_counts_are_written_by_the_one_who_knows_about_one() -> None:
    """No message puts a plural behind a number by hand: it would say 1 messages."""
    root = Path(costguard.__file__).parent
    found = [
        f"{file.relative_to(root)}:{number}"
        for file in sorted(root.rglob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if COUNTED.search(line)
    ]
    assert found == []
