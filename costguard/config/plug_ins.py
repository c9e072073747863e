"""What the installed cloud plug-ins bring to the configuration: their own tables ``[cloud.NAME]``, and what their clouds can do.

They are found through their entry points and imported, which is cheap (`costguard.testing.contract` sees to that). One that
cannot be loaded has no options here; plans and `doctor` say why.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Literal

from pydantic import create_model

from costguard.cloud.api import Provider, Setting, load, settings_of
from costguard.config.types import File, Url


def entries() -> list[str]:
    """The installed cloud plug-ins as ``name=module``, found through their entry points, not imported."""
    return sorted({f"{point.name}={point.module}" for point in entry_points(group="costguard.providers")})


def _installed() -> dict[str, Provider]:
    loaded = load(entries())
    return dict(zip(loaded.names, loaded.providers, strict=True))


INSTALLED: Mapping[str, Provider] = _installed()
"""Every plug-in that can be loaded, by the name of its entry point."""

UNFIT: dict[str, str] = {}
"""Plug-ins whose options cannot be part of the configuration, and why."""


def own(name: str) -> tuple[Setting, ...]:
    """The options of one plug-in."""
    return () if name in UNFIT else settings_of(INSTALLED[name])


def former() -> dict[str, str]:
    """Old names of options, for older configurations, and their present names."""
    options = ((name, option) for name in INSTALLED for option in own(name))
    renamed = {f"cloud.{option.formerly}": f"cloud.{name}.{option.name}" for name, option in options if option.formerly}
    return {"notify.channels": "notify.local"} | renamed


def files() -> list[tuple[str, str]]:
    """Plug-in and option of each file that a plug-in reads."""
    return [(name, option.name) for name in INSTALLED for option in own(name) if option.kind == "file"]


def tables(section: type[Any], option: Callable[..., Any]) -> type[Any]:
    """A base for the model of ``[cloud]`` with an inner table for each plug-in that has options of its own."""
    named = [(name, f"Options of {provider.name} alone.", own(name)) for name, provider in INSTALLED.items()]
    return table_of("PlugIns", named, section, option, UNFIT)


def table_of(
    kind: str,
    named: Iterable[tuple[str, str, tuple[Setting, ...]]],
    section: type[Any],
    option: Callable[..., Any],
    unfit: dict[str, str],
) -> type[Any]:
    """The same for any plug-ins: name, what its table is for, options. One that does not fit goes to ``unfit``, with why."""
    inner: dict[str, Any] = {}
    for name, about, settings in named:
        fields: dict[str, Any] = {setting.name: (_type(setting), _option(setting, option)) for setting in settings}
        if not fields:
            continue
        try:
            table = create_model(f"{kind}_{name}", __base__=section, __doc__=about, **fields)
            inner[name] = (table, table())
            if name not in create_model(kind, __base__=section, **inner).model_fields:
                raise ValueError("a table cannot have this name")  # noqa: TRY301 - reported as the library's own errors
        except Exception as error:  # noqa: BLE001 - foreign code: whatever is wrong with it, the other plug-ins count
            inner.pop(name, None)
            unfit[name] = " ".join(str(error).split())
    return create_model(kind, __base__=section, **inner)


def _type(setting: Setting) -> Any:  # noqa: ANN401 - an annotation
    if setting.kind == "choice":
        return Literal[setting.choices]
    return {"switch": bool, "url": Url, "file": File}.get(setting.kind, str)


def _option(setting: Setting, option: Callable[..., Any]) -> Any:  # noqa: ANN401 - pydantic's own convention
    return option(setting.description, setting.default, example=setting.example, allowed=setting.allowed)
