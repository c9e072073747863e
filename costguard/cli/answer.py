"""JSON answers: one object, whose `schema` names its form and version."""

import json
import re
from collections.abc import Mapping

import click

SCHEMAS: Mapping[str, int] = {
    "status": 1,
    "history": 1,
    "incident": 1,
    "doctor": 1,
    "hold": 1,
    "release": 1,
    "stop": 1,
    "verify": 1,
    "permissions": 1,
    "clouds": 1,
    "notify-test": 1,
    "config-check": 1,
    "config-show": 1,
    "replay": 1,
    "demo": 1,
    "stress": 1,
    "import": 1,
}
"""The version of each form: it grows when a field goes or changes its meaning, not for a new field. See docs/json.md."""

_CONTROLS = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""What json leaves as it is, and what moves or hides text on a terminal."""


def named(form: str, answer: Mapping[str, object]) -> dict[str, object]:
    """The answer, with its schema first."""
    return {"schema": f"costguard.{form}/{SCHEMAS[form]}", **answer}


def printable(text: object) -> str:
    """Foreign lines without control characters, which could rewrite the screen of whoever reads them."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in str(text).split("\n"))


def emit(form: str, answer: Mapping[str, object], *, lines: bool = False) -> None:
    """Print it; ``lines``: as one line of several."""
    text = json.dumps(named(form, answer), ensure_ascii=False, indent=None if lines else 2)
    click.echo(_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
