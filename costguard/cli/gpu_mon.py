"""The configuration of gpu_mon, read as `costguard fill` understands it."""

import configparser
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from costguard.errors import CostguardError
from costguard.fill.jobs import Filler


class Found(NamedTuple):
    """What such a file asks for. ``notes``: what of it means another thing here, for people."""

    fillers: tuple[Filler, ...]
    interval: float
    ignore: tuple[str, ...]
    users_for: float
    ignore_users: tuple[str, ...]
    notes: tuple[str, ...]


def read(path: str) -> Found:
    """Read one file. Raises CostguardError for what it lacks, and names the section and key."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise CostguardError(f"{path} cannot be read: {error.strerror}", "name a configuration of gpu_mon") from error
    except (UnicodeDecodeError, configparser.Error) as error:
        raise CostguardError(f"{path} is no configuration of gpu_mon: {error}", "correct it in the file") from error
    sections: Mapping[str, Mapping[str, str]] = {name: parser[name] for name in parser.sections()}
    try:
        return _understood(sections)
    except KeyError as error:
        raise CostguardError(f"{path}: {error.args[0]} is missing", "add it, as gpu_mon wants it, too") from error
    except ValueError as error:
        raise CostguardError(f"{path}: {error}", "correct it in the file") from error


def _understood(sections: Mapping[str, Mapping[str, str]]) -> Found:
    allowed = [(name, section) for name, section in sections.items() if name.startswith("gpu")]
    works = [(name, section) for name, section in sections.items() if name.startswith("process")]
    if not works:
        raise KeyError("a section [process…]")
    fillers = [_filler(name, section) for name, section in works]
    ignore = dict.fromkeys(one for name, section in allowed for one in _list(_of(section, name, "ignore_programs")))
    notes = []
    usable = _usable(allowed)
    if usable is not None:
        fillers = [_within(one, usable) for one in fillers]
        notes.append(f"only GPUs {', '.join(usable)} are used, as the [gpu] sections say")
    if len({section["ignore_programs"] for _, section in allowed}) > 1:
        notes.append("ignore_programs of one [gpu] section counts for all GPUs here")
    fillers.sort(key=lambda one: not one.together)  # all GPUs first, as there
    return Found(tuple(fillers), _interval(sections), tuple(ignore), *_tty(sections), tuple(notes))


def _filler(name: str, section: Mapping[str, str]) -> Filler:
    command = tuple(shlex.split(_of(section, name, "cmd")))
    if not command:
        raise ValueError(f"[{name}] cmd is empty")
    gpus = _gpus(name, _of(section, name, "gpus"))
    together = not gpus or len(gpus) > 1
    return Filler(command, gpus, together=together, directory=_of(section, name, "dir"), log=section.get("log", ""))


def _usable(allowed: list[tuple[str, Mapping[str, str]]]) -> tuple[str, ...] | None:
    """The GPUs of all [gpu] sections; None for all there are."""
    found: dict[str, None] = {}
    for name, section in allowed:
        gpus = _gpus(name, _of(section, name, "gpus"))
        if not gpus:
            return None
        found |= dict.fromkeys(gpus)
    return tuple(found) if found else None


def _within(filler: Filler, usable: tuple[str, ...]) -> Filler:
    gpus = tuple([number for number in filler.gpus if number in usable]) if filler.gpus else usable
    if not gpus:
        raise ValueError(f"the work {filler.command[0]} has no GPU that a [gpu] section allows")
    return filler._replace(gpus=gpus)


def _gpus(name: str, text: str) -> tuple[str, ...]:
    """Numbers; none for ALL."""
    if text.strip().upper() == "ALL":
        return ()
    found = _list(text)
    if not found or not all(number.isdigit() for number in found):
        raise ValueError(f"[{name}] gpus = {text} is not understood; allowed: ALL, or numbers with commas")
    return tuple([str(int(number)) for number in found])


def _interval(sections: Mapping[str, Mapping[str, str]]) -> float:
    text = _of(sections.get("defaults", {}), "defaults", "interval_seconds")
    if not text.strip().isdigit() or not 0 < int(text) <= 3600:
        raise ValueError(f"[defaults] interval_seconds = {text} is out of range; allowed: 1 to 3600")
    return float(text)


def _tty(sections: Mapping[str, Mapping[str, str]]) -> tuple[float, tuple[str, ...]]:
    """For how long a key that was pressed counts, and whose does not."""
    section = sections.get("tty", {})
    enabled = _of(section, "tty", "enabled").strip().lower()
    if enabled not in configparser.ConfigParser.BOOLEAN_STATES:
        raise ValueError(f"[tty] enabled = {enabled} is not understood; allowed: yes, no")
    seconds = section.get("idle_seconds", "0").strip()
    if not seconds.isdigit():
        raise ValueError(f"[tty] idle_seconds = {seconds} is not a number of seconds")
    on = configparser.ConfigParser.BOOLEAN_STATES[enabled]
    return float(seconds) if on else 0.0, tuple(_list(section.get("whitelist", "")))


def _of(section: Mapping[str, str], name: str, key: str) -> str:
    if key not in section:
        raise KeyError(f"[{name}] {key}")
    return section[key]


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
