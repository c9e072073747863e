"""JSON by the C half of Python's `json` alone, for processes that stay: the other half brings `re` and `enum`, 0.7 MB for good.

Where that half is missing, or is another one than is known here, `json` itself does it.
"""

TYPE_CHECKING = False  # importing typing again costs nothing, but this is how readers are written
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLANKS = " \t\n\r"


class _Scanner:
    """What is read how, as `json.JSONDecoder` has it."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> float:
        """A number that is none in JSON, but in Python."""
        return float(name.replace("Infinity", "inf"))


def _refuse(value: object) -> object:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _lean() -> "tuple[Callable[[object], str], Callable[[str], Any]]":
    """Raises ImportError and TypeError where the C half is not as known."""
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    write = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, True)
    scan = make_scanner(_Scanner())  # type: ignore[arg-type]  # whatever has these fields

    def encode(value: object) -> str:
        return "".join(write(value, 0))

    def decode(text: str) -> "Any":  # noqa: ANN401 - JSON
        text = text.strip(_BLANKS)
        try:
            value, end = scan(text, 0)
        except StopIteration:
            raise ValueError("it is not JSON") from None
        if end != len(text):
            raise ValueError("more than one value")
        return value

    if decode(encode([None, 1.5, "x"])) != [None, 1.5, "x"]:
        raise TypeError("another encoder")
    return encode, decode


def _whole() -> "tuple[Callable[[object], str], Callable[[str], Any]]":
    import json

    return json.JSONEncoder(separators=(",", ":")).encode, json.loads


try:
    encode, _decode = _lean()
except (ImportError, TypeError, ValueError):
    encode, _decode = _whole()


def decode(text: "str | bytes") -> "Any":  # noqa: ANN401 - JSON
    """What a text in JSON means. Raises ValueError and RecursionError."""
    return _decode(text if isinstance(text, str) else text.decode())
