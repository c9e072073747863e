"""Decodes lines of readers and clients into values of the engine: nothing that looks wrong passes as a value."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from costguard.engine.observation import Device, Known, Reading, Unknown


def message(data: bytes) -> dict[str, Any] | None:
    """A line that is one JSON object; None for anything else, however deeply nested."""
    if data[:8] == b'{"same":':  # the short answer: nothing changed; it comes in nearly every tick
        parts = data[8:-1].split(b",")
        if len(parts) >= 3 and parts[1][:7] == b'"read":' and parts[2][:5] == b'"at":':
            try:
                found: dict[str, Any] = {"same": int(parts[0]), "read": int(parts[1][7:]), "at": float(parts[2][5:])}
                if len(parts) == 3:
                    return found
                if len(parts) == 5 and parts[3][:10] == b'"unsaid":[' and parts[4][-1:] == b"]":
                    found["unsaid"] = [int(parts[3][10:]), float(parts[4][:-1])]
                    return found
            except ValueError:
                return None
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def readings(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Reading, ...]]:
    """The GPUs of an nvml answer and their readings. Raises ValueError, TypeError or KeyError for a malformed one."""
    gpus = answer["gpus"]
    # the usual reading is made here, once for every GPU and tick; an unusual one is checked closely
    seen: list[Reading] = [
        Known(load, tuple(signs), covers, words)
        if type(load) is float and 0.0 <= load <= 1.0 and type(covers) is float and covers >= 0.0
        else _reading(load, signs, covers, words)
        for _, load, signs, covers, words in gpus
    ]
    return tuple([str(gpu[0]) for gpu in gpus]), tuple(seen)


def _reading(load: object, signs: Sequence[str], covers: object, words: object) -> Reading:
    if load is None:
        return Unknown(str(words))
    if not isinstance(load, int | float) or isinstance(load, bool) or not 0.0 <= load <= 1.0:
        return Unknown(f"an impossible load: {load!r}")
    if not isinstance(covers, int | float) or not covers >= 0.0:
        covers = 0.0
    return Known(float(load), tuple(signs), float(covers), str(words))


def findings(answer: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The finding about each GPU that has one: code and text; none of a malformed answer, as the readings already tell."""
    try:
        return {str(key): (str(code), str(text)) for key, code, text in answer.get("findings", ())}
    except (TypeError, ValueError):
        return {}


def devices(answer: Mapping[str, Any]) -> tuple[Device, ...]:
    """The fixed facts of the GPUs, from an answer with ``info``."""
    rows = []
    for key, facts in answer["info"].items():
        index = facts.get("index")
        name, uuid = str(facts.get("name") or ""), str(facts.get("uuid") or "")
        rows.append(Device(str(key), index if isinstance(index, int) else None, uuid, name))
    return tuple(rows)
