"""What the installed cloud plug-ins bring to the configuration: their own tables ``[cloud.NAME]``, and what their clouds can do.

They are found through their entry points and imported, which is cheap (`costguard.testing.contract` sees to that). One that
cannot be loaded has no options here; plans and `doctor` say why.
"""

from collections.abc import Callable, Mapping
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
"""Plug-ins whose options cannot be ones of the configuration, and why."""


def own(name: str) -> tuple[Setting, ...]:
    """The options of one of them."""
    return () if name in UNFIT else settings_of(INSTALLED[name])


def former() -> dict[str, str]:
    """Former names of options, which older configurations have, and what they are called now."""
    every = ((name, one) for name in INSTALLED for one in own(name))
    own_names = {"notify.channels": "notify.local"}
    return own_names | {f"cloud.{one.formerly}": f"cloud.{name}.{one.name}" for name, one in every if one.formerly}


def files() -> list[tuple[str, str]]:
    """Plug-in and option of each file that a plug-in reads."""
    return [(name, one.name) for name in INSTALLED for one in own(name) if one.kind == "file"]


def tables(section: type[Any], option: Callable[..., Any]) -> type[Any]:
    """A base for the model of ``[cloud]`` with an inner table for each plug-in that has options of its own."""
    inner: dict[str, Any] = {}
    for name, provider in INSTALLED.items():
        fields: dict[str, Any] = {one.name: (_type(one), _option(one, option)) for one in own(name)}
        if not fields:
            continue
        try:
            about = f"What {provider.name} alone has."
            table = create_model(f"Cloud_{name}", __base__=section, __doc__=about, **fields)
            inner[name] = (table, table())
            if name not in create_model("PlugIns", __base__=section, **inner).model_fields:
                raise ValueError("no table can have this name")  # noqa: TRY301 - as what the library says of others
        except Exception as error:  # noqa: BLE001 - foreign words: whatever is wrong with them, the others count
            inner.pop(name, None)
            UNFIT[name] = " ".join(str(error).split())
    return create_model("PlugIns", __base__=section, **inner)


def _type(setting: Setting) -> Any:  # noqa: ANN401 - an annotation
    if setting.kind == "choice":
        return Literal[setting.choices]
    return {"switch": bool, "url": Url, "file": File}.get(setting.kind, str)


def _option(setting: Setting, option: Callable[..., Any]) -> Any:  # noqa: ANN401 - pydantic's own convention
    return option(setting.description, setting.default, example=setting.example, allowed=setting.allowed)
