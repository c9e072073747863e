"""Check and fill in the address of ``[sink]``. With ``PUT`` each record needs a name of its own, or one would overwrite another."""

import re
import time
import urllib.parse
from collections.abc import Mapping

FIELDS = ("instance", "incident", "attempt", "step", "time")
"""Placeholders: fields of the record, and its time to the millisecond."""

APPENDED = "{instance}/{incident}/{attempt}-{step}-{time}.json"
"""Appended to an address that ends in ``/``."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_SPELLING = (
    f'allowed: an address that ends in "/", to which {APPENDED} is appended, or one with {{instance}}, {{step}} and '
    "{attempt} or {time} in its path or query"
)


def configured(settings: Mapping[str, object]) -> bool:
    """Whether the section ``[sink]`` names any place."""
    return bool(settings.get("url") or settings.get("syslog")) or settings.get("tag") is True


def outlives(settings: Mapping[str, object]) -> bool:
    """Whether one of these places outlives the machine and keeps every record."""
    return bool(settings.get("syslog") or (settings.get("url") and not overwrites(settings)))


def overwrites(settings: Mapping[str, object]) -> str:
    """Why the web address would not keep every record; empty when it does."""
    return mistake(str(settings["url"])) if settings.get("url") and settings.get("method") == "PUT" else ""


def mistake(url: str) -> str:
    """Why records would overwrite each other at this address, and how to write it; empty when each has a name of its own."""
    host = urllib.parse.urlsplit(url).netloc
    found = set(_FIELD.findall(url))
    if unknown := sorted(found - set(FIELDS)):
        names, allowed = (", ".join(f"{{{name}}}" for name in listed) for listed in (unknown, FIELDS))
        return f"unknown placeholder {names}; allowed: {allowed}"
    if _FIELD.search(host):
        return "a placeholder cannot be part of the host, which gets the token; " + _SPELLING
    if _place(url).endswith("/") or ({"instance", "step"} <= found and found & {"attempt", "time"}):
        return ""
    return "with method = PUT records of several machines, incidents and steps would overwrite each other; " + _SPELLING


def address(url: str, record: Mapping[str, object], at: float) -> str:
    """The address of this record; ``at`` is its date in seconds since the epoch."""
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"
    values = {name: str(record.get(name) or "none") for name in FIELDS} | {"time": when}
    place, tail = _place(url), url[len(_place(url)) :]
    whole = (place + APPENDED if place.endswith("/") else place) + tail
    return _FIELD.sub(lambda field: urllib.parse.quote(values[field[1]], safe=""), whole)


def _place(url: str) -> str:
    """The address without its query."""
    return url.partition("?")[0]
