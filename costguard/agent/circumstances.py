"""How the machine stood when a program was started for it."""

from typing import NamedTuple

from costguard.engine.observation import Device


class Circumstances(NamedTuple):
    """Facts for an action and the record of it, beside its effect."""

    reason: str = ""
    sentence: str = ""
    idle_seconds: float = 0.0
    gpus: tuple[str, ...] = ()
    instance: str = ""
    devices: tuple[Device, ...] = ()  # that are judged
    beside: int = 0  # GPUs that are seen, and are none of the task that is guarded
