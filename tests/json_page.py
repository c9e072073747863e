"""The fields that docs/json.md lists, and those of an answer."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from costguard.cli.answer import SCHEMAS

PAGE = (Path(__file__).parents[1] / "docs" / "json.md").read_text(encoding="utf-8")


def listed() -> dict[str, set[str]]:
    """The fields of each form, as the page has them."""
    found: dict[str, set[str]] = {}
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        form = re.match(r"`costguard\.([a-z-]+)/(\d+)`", section)
        assert form is not None, section
        assert SCHEMAS[form[1]] == int(form[2]), form[0]
        rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
        found[form[1]] = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    return found


def fields(form: str, answers: Iterable[Mapping[str, object]]) -> set[str]:
    """Every field of these answers, as the page would name it."""
    known = listed()[form]
    return {path for answer in answers for path in _paths(answer, known, "")}


def _paths(value: object, known: set[str], path: str) -> Iterator[str]:
    """What the page leaves to its owner (``policy.*``) is not entered."""
    if f"{path}.*" in known:
        yield f"{path}.*"
    elif isinstance(value, dict):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else str(name)
            if f"{below}.*" not in known:
                yield below
            yield from _paths(inner, known, below)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from _paths(inner, known, f"{path}[]")
