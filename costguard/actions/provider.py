"""What a cloud plug-in tells the core about guest actions, and how plug-ins are loaded."""

import importlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol


class Consequence(NamedTuple):
    """What a shutdown from inside does on this cloud; None where it depends on what costguard cannot see.

    ``ends_bill``: whether computing is no longer billed. ``keeps_disks``: whether the network disks
    survive, so that the machine can be started again. ``text`` and ``hint`` are for people.
    """

    ends_bill: bool | None
    keeps_disks: bool | None
    text: str
    hint: str = ""


class Provider(Protocol):
    """A cloud. It needs no network and no SDK for any of these."""

    @property
    def name(self) -> str:
        """The name people know, as it stands in messages."""

    def recognises(self, dmi: Mapping[str, str]) -> bool:
        """Whether the firmware's identity is this cloud's.

        ``dmi`` has the readable files of ``/sys/class/dmi/id`` and ``hypervisor_uuid``; a file that
        cannot be read is missing. Never raises.
        """

    def guest_shutdown(self) -> Consequence:
        """What a shutdown from inside does to the bill and to the disks."""


class Loaded(NamedTuple):
    """The plug-ins that could be loaded, and words for each one that could not."""

    providers: tuple[Provider, ...]
    failures: tuple[str, ...]


def load(names: Iterable[str]) -> Loaded:
    """Load plug-ins by module name (its ``PROVIDER``) or by ``module:attribute`` (a class or an instance)."""
    providers: list[Provider] = []
    failures: list[str] = []
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute or "PROVIDER")
            providers.append(found() if isinstance(found, type) else found)
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, the plan has to say so
            failures.append(f"{name}: {type(error).__name__}: {error}")
    return Loaded(tuple(providers), tuple(failures))
