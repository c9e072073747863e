"""The schema as a flat list of options, for everything that explains or reads them one by one."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from costguard.config.schema import Section, Settings
from costguard.config.types import AllowedForm, LocalChannel
from costguard.config.values import FORMS

NAME = "NAME"
"""Stands in a path for the name that people give to a table, as in ``notify.channels.NAME.urls``."""

FIT_NAME = re.compile(rf"(?!(?:{'|'.join(get_args(LocalChannel))})$)[a-z][a-z0-9_-]{{0,31}}")
"""What people may call a table: the name appears in environment variables, and in messages beside the local channels."""


class Option(NamedTuple):
    """One option as its readers see it; ``kind`` is the type of a value that arrives as text."""

    path: str
    description: str
    default: object
    example: object
    unit: str
    allowed: str
    kind: Literal["bool", "list", "int", "command", "text"]
    section: type[Section]
    named: str = ""  # the path of the table of tables that it belongs to, each of which has a name of its own

    @property
    def about(self) -> str:
        """What its table is for, in one line however its source is broken."""
        return " ".join(str(self.section.__doc__).split())


def walk(section: type[Section] = Settings, prefix: str = "") -> Iterator[Option]:
    """Every option, in the order of the file: those of a table before its inner tables."""
    inner = []
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            inner.append((name, field.annotation))
        elif get_origin(field.annotation) is dict:  # tables that people name
            inner.append((f"{name}.{NAME}", get_args(field.annotation)[1]))
        else:
            yield _describe(f"{prefix}{name}", field, section)
    for name, table in inner:
        options = walk(table, f"{prefix}{name}.")
        named = name.removesuffix(f".{NAME}")
        yield from (option._replace(named=f"{prefix}{named}") for option in options) if named != name else options


def _describe(path: str, field: FieldInfo, section: type[Section]) -> Option:
    extra = field.json_schema_extra
    if not isinstance(extra, Mapping) or not field.description or not field.examples:
        raise TypeError(f"{path} is not described; use option()")
    form = next((item for item in field.metadata if isinstance(item, AllowedForm)), AllowedForm(_words_of(field)))
    default = field.default
    kind: Literal["bool", "list", "int", "command", "text"] = "text"
    if isinstance(default, bool):
        kind = "bool"
    elif isinstance(default, int):
        kind = "int"
    elif isinstance(default, list):
        kind = "command" if path.endswith(".run") else "list"
    return Option(
        path,
        field.description,
        default,
        field.examples[0],
        form.unit,
        str(extra["allowed"]) or ", ".join(filter(None, (form.allowed, _limits(field, form.unit), form.otherwise))),
        kind,
        section,
    )


def _words_of(field: FieldInfo) -> str:
    """The words that a choice or a switch allows."""
    if get_origin(field.annotation) is Literal:
        *words, last = get_args(field.annotation)
        return f"{', '.join(words)} or {last}"
    return "true or false" if field.annotation is bool else ""


def _limits(field: FieldInfo, unit: str) -> str:
    """The limits of a number: ``from 1s to 1h``, ``more than 0s and at most 15s``, ``below 100%``."""
    show = FORMS.get(unit, str)
    names = {"gt": "more than", "ge": "at least", "lt": "below", "le": "at most"}
    bounds = {name: show(getattr(item, name)) for item in field.metadata for name in names if hasattr(item, name)}
    if bounds.keys() == {"ge", "le"}:
        return f"from {bounds['ge']} to {bounds['le']}"
    return " and ".join(f"{names[name]} {bound}" for name, bound in bounds.items())


OPTIONS: Mapping[str, Option] = {option.path: option for option in walk()}
"""Every option by its dotted path."""

_NAMED = {option.named: len(option.named.split(".")) for option in OPTIONS.values() if option.named}
"""Tables of tables, and how many words their paths have."""


def find(path: str) -> Option | None:
    """The option at a path, also in a table that people name; None where there is none."""
    return OPTIONS.get(generic(path))


def generic(path: str) -> str:
    """The path with `NAME` for the name that people gave to a table."""
    words = path.split(".")
    for table, count in _NAMED.items():
        if path.startswith(f"{table}.") and FIT_NAME.fullmatch(words[count]):
            return ".".join((*words[:count], NAME, *words[count + 1 :]))
    return path


def is_table_of_tables(path: str) -> bool:
    """Whether people name the tables in it."""
    return path in _NAMED
