"""What the installed plug-ins bring to the configuration: their own tables ``[cloud.NAME]`` and ``[task.NAME]``.

They are found through their entry points and imported, which is cheap (`costguard.testing.contract` sees to that). One that
cannot be loaded has no options here; plans and `doctor` say why.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Generic, Literal, TypeVar

from pydantic import create_model

from costguard.cloud import api as cloud_api
from costguard.cloud.api import Loaded, Provider, Setting
from costguard.config.types import File, Url
from costguard.tasks import api as task_api
from costguard.tasks.api import Scheduler

P = TypeVar("P", Provider, Scheduler)


class PlugIns(Generic[P]):
    """The installed plug-ins of one group of entry points, as far as they can be loaded; ``kind`` names the model of their tables."""

    def __init__(self, group: str, kind: str, about: str, load: Callable[[list[str]], Loaded[P]]) -> None:
        self._group, self._kind, self._about = group, kind, about
        self.installed: Mapping[str, P] = dict(load(self.entries()).named)
        """By the name of their entry points."""
        self.unfit: dict[str, str] = {}
        """Those whose options cannot be part of the configuration, and why."""

    def entries(self) -> list[str]:
        """All of the group as ``name=module``, not imported."""
        return sorted({f"{point.name}={point.module}" for point in entry_points(group=self._group)})

    def own(self, name: str) -> tuple[Setting, ...]:
        """The options of one plug-in."""
        return () if name in self.unfit else cloud_api.settings_of(self.installed[name])

    def files(self) -> list[tuple[str, str]]:
        """Plug-in and option of each file that a plug-in reads."""
        return [(name, option.name) for name in self.installed for option in self.own(name) if option.kind == "file"]

    def tables(self, section: type[Any], option: Callable[..., Any]) -> type[Any]:
        """A base for the model of their section, with an inner table for each plug-in that has options of its own."""
        inner: dict[str, Any] = {}
        for name, plug_in in self.installed.items():
            fields: dict[str, Any] = {one.name: (_type(one), _option(one, option)) for one in self.own(name)}
            if not fields:
                continue
            try:
                about = self._about.format(plug_in.name)
                table = create_model(f"{self._kind}_{name}", __base__=section, __doc__=about, **fields)
                inner[name] = (table, table())
                if name not in create_model(self._kind, __base__=section, **inner).model_fields:
                    raise ValueError("a table cannot have this name")  # noqa: TRY301 - reported as the library's own errors
            except Exception as error:  # noqa: BLE001 - foreign code: whatever is wrong with it, the other plug-ins count
                inner.pop(name, None)
                self.unfit[name] = " ".join(str(error).split())
        return create_model(self._kind, __base__=section, **inner)


CLOUDS = PlugIns("costguard.providers", "PlugIns", "Options of {} alone.", cloud_api.load)
TASKS = PlugIns(task_api.GROUP, "TaskPlugIns", "Options of tasks of {} alone.", task_api.load)


def former() -> dict[str, str]:
    """Old names of options, for older configurations, and their present names."""
    options = ((name, option) for name in CLOUDS.installed for option in CLOUDS.own(name))
    renamed = {f"cloud.{option.formerly}": f"cloud.{name}.{option.name}" for name, option in options if option.formerly}
    return {"notify.channels": "notify.local"} | renamed


def _type(setting: Setting) -> Any:  # noqa: ANN401 - an annotation
    if setting.kind == "choice":
        return Literal[setting.choices]
    return {"switch": bool, "url": Url, "file": File}.get(setting.kind, str)


def _option(setting: Setting, option: Callable[..., Any]) -> Any:  # noqa: ANN401 - pydantic's own convention
    return option(setting.description, setting.default, example=setting.example, allowed=setting.allowed)
