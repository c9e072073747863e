"""The schema as a flat list of options, for everything that explains or reads them one by one."""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from pydantic.fields import FieldInfo

from costguard.config.schema import Section, Settings


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
        else:
            yield _describe(f"{prefix}{name}", field, section)
    for name, table in inner:
        yield from walk(table, f"{prefix}{name}.")


def _describe(path: str, field: FieldInfo, section: type[Section]) -> Option:
    extra = field.json_schema_extra
    if not isinstance(extra, Mapping) or not field.description or not field.examples:
        raise TypeError(f"{path} is not described; use option()")
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
        str(extra["unit"]),
        str(extra["allowed"]),
        kind,
        section,
    )


OPTIONS: Mapping[str, Option] = {option.path: option for option in walk()}
"""Every option by its dotted path."""
