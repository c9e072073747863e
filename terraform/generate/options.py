"""``options.json``: what the modules know of each option, read from the configuration's own schema.

A pattern is looser than the agent's own check where only the agent can know (an address that exists, a user of the machine).
"""

import json
import re
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from costguard.config.options import NAME, OPTIONS, Option
from costguard.config.schema import Section, Settings
from costguard.config.types import KINDS, ActionName, LocalChannel
from costguard.config.values import REFERENCE

_NUMBER = r"\d+(\.\d+)?"
_UNITS = "dhms"


def _duration() -> str:
    """A bare number, or numbers with units, the largest first and each at most once."""
    parts = [rf"{_NUMBER}\s*{unit}\s*" for unit in _UNITS]
    rows = (part + "".join(f"({later})?" for later in parts[index + 1 :]) for index, part in enumerate(parts))
    return "|".join((_NUMBER, *rows))


_URL = r"(https?://[^\s/@]+(/\S*)?)?"
_SERVER = r"((\[[^\s\[\]]+\]|[^\s:\[\]/@]+):[1-9]\d{0,4})?"
_GPU = r"all|\d{1,3}|(GPU|MIG)-[0-9A-Za-z/-]+|[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_ITEMS = {
    "fallback": get_args(ActionName),
    "notify.local": get_args(LocalChannel),
    "notify.channels.NAME.kinds": KINDS,
}
_PATTERNS = {
    "share": r"(0?\.\d+|0|0\.0+|1\.0+|0\.\d+|(\d{1,2}(\.\d+)?|100(\.0+)?)\s*%)",
    "currency": r"\d*\.?\d+([eE][+-]?\d+)?|off|unknown",
    "date": r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:\d\d)|off",
}


def document() -> str:
    """The file: one line for each option."""
    rows = (f"  {json.dumps(path)}: {json.dumps(row(option))}" for path, option in OPTIONS.items())
    return "{\n" + ",\n".join(rows) + "\n}\n"


def row(option: Option) -> dict[str, object]:
    """``kind``: how it is written in the file; ``pattern``: of a whole value, or of each item of a list; ``least`` and ``most``: seconds of a duration."""
    field = field_of(option.path)
    found: dict[str, object] = {"kind": option.kind, "allowed": option.allowed, "pattern": _pattern(option, field)}
    if option.unit == "seconds":
        found |= dict(_bounds(field))
    return found


def field_of(path: str) -> FieldInfo:
    """The field of the schema at a path."""
    section: type[Section] = Settings
    *tables, last = path.split(".")
    for table in tables:
        if table == NAME:
            continue
        annotation = section.model_fields[table].annotation
        inner = get_args(annotation)[1] if get_origin(annotation) is dict else annotation
        assert isinstance(inner, type), path
        section = inner
    return section.model_fields[last]


def _pattern(option: Option, field: FieldInfo) -> str:
    """A regular expression that RE2 understands, for the whole text; empty: any."""
    if option.kind == "bool":
        return "true|false"
    if option.kind in {"list", "command"}:
        return "|".join(map(re.escape, _ITEMS.get(option.path, ()))) or (_GPU if option.path == "gpu_devices" else "")
    if option.kind == "int":
        return r"\d{1,9}"
    if option.unit == "seconds":
        return f"{_duration()}|off" if re.search(r"\boff\b", option.allowed) else _duration()
    if option.unit in _PATTERNS:
        return _PATTERNS[option.unit]
    if option.path.endswith(".urls"):
        return re.sub(r"\?P<\w+>|\{1,2048\}", lambda found: "" if found[0].startswith("?") else "+", REFERENCE.pattern)
    if words := choice(field):
        return "|".join(map(re.escape, words))
    if option.path == "preset":
        return option.allowed.replace(" or ", ", ").replace(", ", "|")
    if option.allowed.startswith("a URL"):
        return _URL
    if option.allowed.startswith("host:port"):
        return _SERVER
    if option.allowed.startswith("an absolute path"):
        return r"(/\S*)?" if "nothing" in option.allowed else r"/\S*"
    limits = [str(item.pattern) for item in field.metadata if getattr(item, "pattern", None)]
    return limits[0] if limits else ""


def choice(field: FieldInfo) -> tuple[str, ...]:
    """The words of a choice; empty for anything else."""
    return get_args(field.annotation) if get_origin(field.annotation) is Literal else ()


def _bounds(field: FieldInfo) -> Iterator[tuple[str, float]]:
    names = {"gt": "above", "ge": "least", "lt": "below", "le": "most"}
    for item in field.metadata:
        for name, key in names.items():
            if hasattr(item, name):
                yield key, getattr(item, name)
