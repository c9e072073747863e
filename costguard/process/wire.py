"""Named tuples as lines of JSON: the format of every pipe between costguard's processes, both directions.

A field is written under its own name unless it equals an empty default, and is read by its annotation; a value that does
not fit is refused with its path, never quoted, since it may be a secret. A missing field takes its default and an unknown
one is ignored: the package may be replaced while the guard runs, and then the two ends have different versions.
Inside a mapping a named tuple is a row, the list of its fields in their order: shorter, and written by the C half of `json`.
"""

from collections.abc import Mapping
from math import isfinite
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

from costguard.process import lean_json

T = TypeVar("T")


class MalformedError(ValueError):
    """A line, or a part of it, is not what this end expects. The message names the part and quotes nothing of it."""


def to_line(value: object) -> bytes:
    """Encode a named tuple as one line, without its newline. Raises TypeError for what JSON does not have."""
    return lean_json.encode(plain(value)).encode()


def from_line(kind: type[T], line: bytes | str) -> T:
    """Decode a line as a value of this named tuple. Raises MalformedError."""
    try:
        value = lean_json.decode(line)
    except (ValueError, RecursionError) as error:
        raise MalformedError("it is not JSON") from error
    return build(kind, value)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Turn named tuples into objects without their empty defaults, other tuples into lists; a mapping is left as it is."""
    names = getattr(value, "_fields", None)
    if names is not None:
        defaults = getattr(value, "_field_defaults", {})
        fields = ((name, getattr(value, name)) for name in names)
        return {
            name: plain(field) for name, field in fields if field or name not in defaults or field != defaults[name]
        }
    return [plain(item) for item in value] if isinstance(value, tuple | list) else value


def build(kind: type[T], value: object, path: str = "") -> T:
    """Make a named tuple from a JSON object, within one also from a row; ``path`` is where it is, for the message. Raises MalformedError."""
    fields: Any = kind
    arguments = {}
    if isinstance(value, list) and path:
        value = dict(zip(fields._fields, value, strict=False))
    given = _object(value, path)
    for name, annotation in fields.__annotations__.items():
        field_path = f"{path}.{name}" if path else name
        if name in given:
            arguments[name] = _read(annotation, given[name], field_path)
        elif name not in fields._field_defaults:
            raise MalformedError(f"{field_path} is missing")
    return kind(**arguments)


def _read(annotation: Any, value: object, path: str) -> Any:  # noqa: ANN401 - an annotation, and JSON
    if annotation in _PLAIN:
        if type(value) is not annotation:
            raise MalformedError(f"{path} is not of type {annotation.__name__}")
        return value
    if annotation is float:
        return _number(value, path)
    if hasattr(annotation, "_fields"):
        return build(annotation, value, path)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        if value not in parts:
            raise MalformedError(f"{path} is not one of {', '.join(map(str, parts))}")
        return value
    if origin is UnionType or type(None) in parts:  # X | int, X | None
        return value if type(value) in parts[1:] else _read(parts[0], value, path)
    if origin is tuple:
        return _items(parts, value, path)
    if origin is Mapping:
        return {name: _read(parts[1], entry, f"{path}.{name}") for name, entry in _object(value, path).items()}
    return value  # object, or Any: its user checks it


_PLAIN = frozenset((str, bool, int))


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedError(f"{path or 'it'} is not an object")
    return value


def _number(value: object, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            if isfinite(value):
                return float(value)
        except OverflowError:  # more digits than any number has
            pass
    raise MalformedError(f"{path} is not a number")


def _items(parts: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise MalformedError(f"{path} is not a list")
    kinds = [parts[0]] * len(value) if parts[-1] is Ellipsis else list(parts)
    if len(kinds) != len(value):
        raise MalformedError(f"{path} has {len(value)} entries, not {len(kinds)}")
    return tuple([_read(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True))])
