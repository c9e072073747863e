"""A named tuple as one line of JSON: what goes through every pipe between costguard's processes, with both ends here.

A field is written under its own name, unless it is as empty as its default, and read as its annotation says; what does not fit is
refused with its path and without its value, which may be a secret. A field that is missing takes its default, and one that
nobody knows is passed over: the package may be replaced while the guard runs, and then the two ends are of two versions.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Literal, TypeVar, get_args, get_origin

T = TypeVar("T")


class MalformedError(ValueError):
    """A line, or a part of it, is not what this end expects. The words name the part, and quote nothing of it."""


def to_line(value: object) -> bytes:
    """A named tuple as one line, without its newline. Raises TypeError for what JSON does not have."""
    return json.dumps(plain(value), separators=(",", ":")).encode()


def from_line(kind: type[T], line: bytes | str) -> T:
    """A line as a value of this named tuple. Raises MalformedError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedError("it is no JSON") from error
    return build(kind, found)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Named tuples as objects without what is empty by default, other tuples as lists, everything else as it is; a mapping holds JSON already."""
    names = getattr(value, "_fields", None)
    if names is not None:
        usual = getattr(value, "_field_defaults", {})
        given = ((name, getattr(value, name)) for name in names)
        return {name: plain(each) for name, each in given if each or name not in usual or each != usual[name]}
    return [plain(each) for each in value] if isinstance(value, tuple | list) else value


def build(kind: type[T], found: object, path: str = "") -> T:
    """A named tuple out of a JSON object. Raises MalformedError."""
    if not isinstance(found, dict):
        raise MalformedError(f"{path or 'it'} is no object")
    fields: Any = kind
    given = {}
    for name, wanted in fields.__annotations__.items():
        place = f"{path}.{name}" if path else name
        if name in found:
            given[name] = _read(wanted, found[name], place)
        elif name not in fields._field_defaults:
            raise MalformedError(f"{place} is missing")
    return kind(**given)


def _read(wanted: Any, found: object, path: str) -> Any:  # noqa: ANN401 - an annotation, and JSON
    if wanted in _PLAIN:
        if type(found) is not wanted:
            raise MalformedError(f"{path} is not of type {wanted.__name__}")
        return found
    if wanted is float:
        if isinstance(found, bool) or not isinstance(found, int | float) or not isfinite(found):
            raise MalformedError(f"{path} is no number")
        return float(found)
    if hasattr(wanted, "_fields"):
        return build(wanted, found, path)
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        if found not in parts:
            raise MalformedError(f"{path} is none of {', '.join(map(str, parts))}")
        return found
    if type(None) in parts:  # X | None
        return None if found is None else _read(parts[0], found, path)
    if origin is tuple:
        return _items(parts, found, path)
    if origin is Mapping:
        return _entries(parts[1], found, path)
    return found  # object, or Any: for its user to judge


_PLAIN = frozenset((str, bool, int))


def _items(parts: tuple[Any, ...], found: object, path: str) -> tuple[Any, ...]:
    if not isinstance(found, list):
        raise MalformedError(f"{path} is no list")
    wanted = [parts[0]] * len(found) if parts[-1] is Ellipsis else list(parts)
    if len(wanted) != len(found):
        raise MalformedError(f"{path} has {len(found)} entries, not {len(wanted)}")
    return tuple([_read(kind, each, f"{path}[{i}]") for i, (kind, each) in enumerate(zip(wanted, found, strict=True))])


def _entries(wanted: Any, found: object, path: str) -> dict[str, Any]:  # noqa: ANN401 - an annotation
    if not isinstance(found, dict):
        raise MalformedError(f"{path} is no object")
    return {name: _read(wanted, each, f"{path}.{name}") for name, each in found.items()}
