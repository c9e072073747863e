"""The lines of the processes that stay mean what Python's own `json` makes of them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.process.lean_json import decode, encode

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_is_written_and_read_as_by_the_library(value: object) -> None:
    """Each end may be of another version, or another program: the text is the same to the letter."""
    text = encode(value)
    assert text == json.dumps(value, separators=(",", ":"))
    assert decode(text) == decode(text.encode()) == json.loads(text)
    assert decode(f" \t{json.dumps(value, indent=1)}\r\n") == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", "[1,]", "1 2", "nul", "'x'", '"\x01"', '{"a":1,}', "{1:2}", "\ufeff1", b"\xff", "1" * 5000]
)
def test_what_is_no_value_is_refused(text: str | bytes) -> None:
    """One kind of error, as the library's own; a reader never takes half of a line for the whole."""
    with pytest.raises(ValueError):  # noqa: PT011 - whichever kind of it
        json.loads(text)
    with pytest.raises(ValueError):  # noqa: PT011 - whichever kind of it
        decode(text)


def test_what_is_too_deep_is_refused() -> None:
    """It ends with an error that callers expect, not with the process."""
    with pytest.raises(RecursionError):
        decode("[" * 200_000)


def test_what_json_does_not_have_is_not_written() -> None:
    """Nor is anything made up for it."""
    with pytest.raises(TypeError, match="set"):
        encode({"a": [{1}]})
