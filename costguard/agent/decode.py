"""From what a reader wrote to what the engine takes: nothing that looks wrong passes as a value."""

from collections.abc import Mapping, Sequence
from typing import Any

from costguard.engine.observation import Device, Known, Reading, Unknown


def readings(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[Reading, ...]]:
    """The GPUs of an nvml answer and their readings. Raises ValueError, TypeError or KeyError for garbage."""
    gpus = answer["gpus"]
    return tuple([str(gpu[0]) for gpu in gpus]), tuple([_reading(gpu) for gpu in gpus])


def _reading(gpu: Sequence[Any]) -> Reading:
    _, load, signs, covers, words = gpu
    if load is None:
        return Unknown(str(words))
    if type(load) not in (int, float) or not 0.0 <= load <= 1.0:
        return Unknown(f"an impossible load: {load!r}")
    if type(covers) not in (int, float) or not covers >= 0.0:
        covers = 0.0
    return Known(load, tuple(signs), covers, words)


def devices(answer: Mapping[str, Any]) -> tuple[Device, ...]:
    """The fixed facts of the GPUs, where the answer brings them."""
    found = []
    for key, facts in answer["info"].items():
        index = facts.get("index")
        name, uuid = str(facts.get("name") or ""), str(facts.get("uuid") or "")
        found.append(Device(str(key), index if isinstance(index, int) else None, uuid, name))
    return tuple(found)
