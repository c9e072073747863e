"""Types of options: from what a person may write to what the engine works with."""

import ipaddress
import math
import re
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from costguard.config import values
from costguard.masking import address


def _gpu(value: tuple[str, ...]) -> tuple[str, ...]:
    """`all` is no restriction; otherwise indices, UUIDs or PCI addresses, each once."""
    if value == ("all",):
        return ()
    if not value:
        raise ValueError("an empty list names no GPU, so nothing would be watched")
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


def _number_or_off(value: object) -> float | None:
    return None if value is None or (isinstance(value, str) and value.strip().lower() == "off") else _number(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a number")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number


def _folder(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"{value!r} is not an absolute path")
    return value


def _program(value: tuple[str, ...]) -> tuple[str, ...]:
    """The agent runs it in another folder than the one in which it was written."""
    if value and not value[0].startswith("/") and ("/" in value[0] or value[0].startswith("~")):
        raise ValueError(f"the program {value[0]!r} has no absolute path")
    return value


def _file(value: str) -> str:
    """The message does not quote it: it may be the secret itself, in place of its file."""
    if value and not value.startswith("/"):
        raise ValueError("this is not an absolute path")
    return value


def _address(value: str) -> str:
    """An address without credentials in it: they would stand in logs."""
    if value and not (re.fullmatch(r"https?://[^\s/@]+(/[^\s]*)?", value) and _has_good_port(value)):
        raise ValueError(f"{address(value)!r} is not a valid URL")
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
        raise ValueError(f"{value!r} is not a valid server")
    return value


def _url(value: str) -> str:
    """An address to which paths are appended."""
    return _address(value).rstrip("/")


def _pages(value: tuple[str, ...]) -> tuple[str, ...]:
    """Pages of servers on this machine, as the reader takes them."""
    for url in value:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            here = host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            here, port = False, None
        plain = url.isascii() and url.isprintable() and " " not in url
        if not here or port == 0 or parts.scheme != "http" or "@" in parts.netloc or parts.fragment or not plain:
            raise ValueError(f"{address(url)!r} is not an http address of this machine")
    return value


def _date_or_off(value: object) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == "off"):
        return None
    return values.date(value)


def _reference(value: str) -> str:
    """A reference to secrets. The message does not quote it: it may be the secret itself."""
    if not values.REFERENCE.fullmatch(value):
        raise ValueError(
            "this does not say where the addresses are" if value else "it is missing, so no address is known"
        )
    return value


KINDS = (
    "warning", "cancelled", "would_act", "acting", "accepted", "done", "cannot", "failed", "unknown_alarm",
    "unknown_recovered", "weak_sign", "kept_up", "held", "hold_ended", "notice", "notes", "finding", "preflight_refused",
    "preflight_passed", "next_action", "asking", "stopping", "outcome_unknown", "reminder", "deadline_passed", "came_back",
    "closed", "state_lost", "unguarded", "armed", "countdown", "deadline_ahead", "deadline_extended",
    "summary",
)  # fmt: skip
"""Every kind of message; a test compares it with those that can be written (`costguard.notify.compose`)."""


def _kinds(value: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [kind for kind in value if kind not in KINDS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a kind of message")
    return value


class AllowedForm(NamedTuple):
    """What is allowed for a type, as people read it; ``otherwise`` stands after the limits of an option."""

    allowed: str
    unit: str = ""
    otherwise: str = ""


DURATION = "a duration such as 30 (seconds), 30s, 10m, 1h30m or 1d"
RATE = "a rate such as 500kB/s, 1MB/s or 1GB/s; a bare number is bytes per second"
_DATE = "a date and time with its offset (RFC 3339), such as 2027-01-31T18:00:00+01:00, or off"
_ARGUMENTS = "a list of arguments, or one string that is split as a shell does; the first is a program of PATH, or its absolute path"
_URL = AllowedForm("a URL that begins with http:// or https://, or nothing")
_PATH_OR_NONE = AllowedForm("an absolute path, or nothing")
_SERVER = "host:port with a port from 1 to 65535, an IPv6 address in brackets ([2001:db8::1]:601), or nothing"


def _hold_url(value: str) -> str:
    """A link that names this machine or its incident: one for all machines would hold any of them."""
    found = set(re.findall(r"\{([^{}]*)\}", value))
    if value and (not found or found - {"instance", "machine", "incident"}):
        raise ValueError("this link does not say which machine it is for")
    return _address(value)


Duration = Annotated[float, BeforeValidator(values.seconds), AllowedForm(DURATION, "seconds")]
DurationOrOff = Annotated[
    float | None, BeforeValidator(values.seconds_or_off), AllowedForm(DURATION, "seconds", "or off")
]
Share = Annotated[float, BeforeValidator(values.share), AllowedForm("a share such as 0.05 or 5%", "share")]
Money = Annotated[float | None, BeforeValidator(_money), AllowedForm("a positive amount", "currency")]
DateOrOff = Annotated[float | None, BeforeValidator(_date_or_off), AllowedForm(_DATE, "date")]
Rate = Annotated[float, BeforeValidator(values.rate), AllowedForm(RATE, "rate")]
Number = Annotated[float, BeforeValidator(_number), AllowedForm("a number")]
NumberOrOff = Annotated[float | None, BeforeValidator(_number_or_off), AllowedForm("a number", "", "or off")]
Names = Annotated[tuple[str, ...], BeforeValidator(values.names), AllowedForm("a list of texts")]
Pages = Annotated[
    tuple[str, ...],
    BeforeValidator(values.names),
    AfterValidator(_pages),
    AllowedForm("a list of http addresses of this machine"),
]
Gpus = Annotated[tuple[str, ...], BeforeValidator(values.names), AfterValidator(_gpu)]
Command = Annotated[tuple[str, ...], BeforeValidator(values.command), AfterValidator(_program), AllowedForm(_ARGUMENTS)]
Folder = Annotated[str, AfterValidator(_folder), AllowedForm("an absolute path")]
Address = Annotated[str, AfterValidator(_address), _URL]
Server = Annotated[str, AfterValidator(_server), AllowedForm(_SERVER)]
Url = Annotated[str, AfterValidator(_url), _URL]
HoldUrl = Annotated[str, AfterValidator(_hold_url)]
FolderOrNone = Annotated[str, AfterValidator(lambda value: _folder(value) if value else value), _PATH_OR_NONE]
File = Annotated[str, AfterValidator(_file)]
LocalChannel = Literal["terminal", "wall", "task"]
Channels = Annotated[tuple[LocalChannel, ...], BeforeValidator(values.names)]
Kinds = Annotated[tuple[str, ...], BeforeValidator(values.names), AfterValidator(_kinds)]
UrlReference = Annotated[str, AfterValidator(_reference)]
Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$"), AllowedForm("three capital letters (ISO 4217)")]
ActionName = Literal["stop", "terminate", "hibernate", "shutdown", "reboot", "end_process", "end_task", "command"]
ActionNames = Annotated[tuple[ActionName, ...], BeforeValidator(values.names)]
