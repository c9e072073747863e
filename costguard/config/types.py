"""Types of options: from what a person may write to what the engine works with."""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from costguard.config import values
from costguard.masking import address


def _gpu(value: tuple[str, ...]) -> tuple[str, ...]:
    """`all` is no restriction; otherwise indices, UUIDs or PCI addresses, each once."""
    if value == ("all",):
        return ()
    if not value:
        raise ValueError("an empty list names no GPU, and without any nothing could be judged")
    found = []
    for device in value:
        if re.fullmatch(r"\d{1,3}|(GPU|MIG)-[0-9A-Za-z/-]+", device):
            found.append(device)
        elif re.fullmatch(r"(?i)[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", device):
            found.append(device.lower())
        else:
            raise ValueError(f"{device!r} is not a GPU")
    if len(set(found)) != len(found):
        raise ValueError("a GPU is named twice")
    return tuple(found)


def _money(value: object) -> float | None:
    """A positive amount; `off` and `unknown` are None."""
    if value is None or (isinstance(value, str) and value.strip().lower() in {"off", "unknown"}):
        return None
    try:
        amount = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else 0.0
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e9:
        raise ValueError(f"{value!r} is not an amount of money")
    return amount


def _folder(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path")
    return value


def _file(value: str) -> str:
    """The words do not quote it: somebody may have written the secret itself in place of its file."""
    if value and not value.startswith("/"):
        raise ValueError("this is not an absolute path")
    return value


def _address(value: str) -> str:
    """An address without credentials in it: they would stand in logs."""
    if value and not (re.fullmatch(r"https?://[^\s/@]+(/[^\s]*)?", value) and _has_good_port(value)):
        raise ValueError(f"{address(value)!r} is not such a URL")
    return value


def _has_good_port(value: str) -> bool:
    try:
        found = urlsplit(value)
        return bool(found.hostname) and found.port != 0
    except ValueError:  # a port beyond 65535, brackets that do not close
        return False


def _server(value: str) -> str:
    """A host, a colon and a port; the colons of an IPv6 address stand in brackets."""
    if value and not (
        re.fullmatch(r"(\[[^\s\[\]]+\]|[^\s:\[\]/@]+):\d{1,5}", value) and _has_good_port(f"tcp://{value}")
    ):
        raise ValueError(f"{value!r} is not such a server")
    return value


def _url(value: str) -> str:
    """An address to which paths are appended."""
    return _address(value).rstrip("/")


def _date_or_off(value: object) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == "off"):
        return None
    return values.date(value)


def _reference(value: str) -> str:
    """Where secrets stand. The words do not quote it: somebody may have written the secret itself."""
    if not values.REFERENCE.fullmatch(value):
        raise ValueError(
            "this is no reference to a place with addresses" if value else "nothing says where its addresses stand"
        )
    return value


KINDS = (
    "warning", "cancelled", "would_act", "acting", "accepted", "done", "cannot", "failed", "unknown_alarm",
    "unknown_recovered", "weak_sign", "held", "hold_ended", "notice", "notes", "finding", "preflight_refused",
    "preflight_passed", "next_action", "asking", "stopping", "outcome_unknown", "reminder", "deadline_passed", "came_back",
    "closed", "state_lost",
)  # fmt: skip
"""Every kind of message; a test compares it with those that can be written (`costguard.notify.compose`)."""


def _kinds(value: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no kind of message")
    return value


Duration = Annotated[float, BeforeValidator(values.seconds)]
DurationOrOff = Annotated[float | None, BeforeValidator(values.seconds_or_off)]
Share = Annotated[float, BeforeValidator(values.share)]
Money = Annotated[float | None, BeforeValidator(_money)]
DateOrOff = Annotated[float | None, BeforeValidator(_date_or_off)]
Gpus = Annotated[tuple[str, ...], BeforeValidator(values.names), AfterValidator(_gpu)]
Command = Annotated[tuple[str, ...], BeforeValidator(values.command)]
Folder = Annotated[str, AfterValidator(_folder)]
Address = Annotated[str, AfterValidator(_address)]
Server = Annotated[str, AfterValidator(_server)]
Url = Annotated[str, AfterValidator(_url)]
FolderOrNone = Annotated[str, AfterValidator(lambda value: _folder(value) if value else value)]
File = Annotated[str, AfterValidator(_file)]
Channels = Annotated[tuple[Literal["terminal", "wall"], ...], BeforeValidator(values.names)]
Kinds = Annotated[tuple[str, ...], BeforeValidator(values.names), AfterValidator(_kinds)]
UrlReference = Annotated[str, AfterValidator(_reference)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
ActionName = Literal["stop", "terminate", "hibernate", "shutdown", "reboot", "end_process", "command"]
ActionNames = Annotated[tuple[ActionName, ...], BeforeValidator(values.names)]
