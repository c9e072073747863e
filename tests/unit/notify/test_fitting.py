"""Texts that are longer than a service takes."""

from hypothesis import given
from hypothesis import strategies as st

from costguard.notify.fitting import LEAST_CHARACTERS, fitted

RECEIPT = 'Receipt: {"instance":"' + "i" * 300 + '"}'


def test_what_fits_stays_as_it_is() -> None:
    """To the letter."""
    assert fitted("a\nb", 3) == "a\nb"


def test_the_longest_line_loses_its_middle_and_the_others_stay() -> None:
    """An action's output of two thousand characters: how it begins, how it ends, and what else the message says."""
    output = "begins " + "x" * 2000 + " ends"
    found = fitted(f"why: idle\n{output}\nTo postpone it: `costguard hold 2h`.", 400)
    first, shown, last = found.split("\n")
    assert (first, last) == ("why: idle", "To postpone it: `costguard hold 2h`.")
    assert shown.startswith("begins xxx")
    assert shown.endswith("xxx ends")
    assert len(found) <= 400


def test_a_receipt_is_there_whole_or_named() -> None:
    """A part of one is worth nothing."""
    assert fitted(f"x\n{RECEIPT}", 200) == "x\nReceipt: `costguard history` shows it."
    assert RECEIPT in fitted(f"{'y' * 3000}\n{RECEIPT}", 1000)


@given(st.text(alphabet="ab \n", max_size=3000), st.integers(0, 1500))
def test_it_always_fits(text: str, room: int) -> None:
    """Whatever the text: no longer than there is room, and it ends."""
    found = fitted(text, room)
    assert len(found) <= max(room, 0)
    assert found == text or len(text) > room


def test_a_short_line_is_long_enough() -> None:
    """No line is cut down to nothing while there is a longer one."""
    lines = ["k" * LEAST_CHARACTERS, "l" * 5000]
    assert fitted("\n".join(lines), 600).split("\n")[0] == lines[0]
