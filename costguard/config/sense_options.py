"""The tables ``[senses.NAME]`` of the configuration, made from the table of the senses."""

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import create_model

from costguard.config.types import Command, Duration, Names, Number, NumberOrOff, Pages, Rate
from costguard.readers.host.senses import SENSES, SenseRow, SenseSetting

TYPES: dict[str, Any] = {
    "duration": Duration,
    "rate": Rate,
    "number": Number,
    "number_or_off": NumberOrOff,
    "names": Names,
    "pages": Pages,
    "command": Command,
    "switch": bool,
    "text": str,
}
"""What a value of each kind is checked by."""

SWITCH = "Look at this."
REQUIRED = "Keep the machine up while this sense cannot see everything; if false, costguard only says so."


def tables(section: type[Any], option: Callable[..., Any]) -> type[Any]:
    """A base for the model of ``[senses]`` with an inner table for each sense."""
    inner: dict[str, Any] = {}
    for row in SENSES:
        fields: dict[str, Any] = {
            "enabled": (bool, option(SWITCH, row.enabled, example=not row.enabled)),
            "required": (bool, option(REQUIRED, row.required, example=not row.required)),
            **{setting.name: (TYPES[setting.kind], _option(setting, option)) for setting in row.settings},
        }
        table = create_model(f"Sense_{row.name}", __base__=section, __doc__=row.about, **fields)
        inner[row.name] = (table, table())
    return create_model("SenseTables", __base__=section, **inner)


def _option(setting: SenseSetting, option: Callable[..., Any]) -> Any:  # noqa: ANN401 - pydantic's own convention
    limits = {name: value for name, value in (("ge", setting.least), ("le", setting.most)) if value is not None}
    return option(setting.description, setting.default, example=setting.example, allowed=setting.allowed, **limits)


def hatches(row: SenseRow, settings: dict[str, Any]) -> bool:
    """Whether what the sense sees blocks every stop, as on a node of a scheduler, unless the owner says that it stands alone."""
    return row.hatch and not settings.get("standalone")


def commands(senses: Any) -> Iterator[tuple[str, tuple[str, ...]]]:  # noqa: ANN401 - a model that is made at run time
    """The programs that senses run: the path of the option, and the arguments."""
    for row in SENSES:
        for setting in row.settings:
            if setting.kind == "command":
                yield f"senses.{row.name}.{setting.name}", getattr(getattr(senses, row.name), setting.name)
