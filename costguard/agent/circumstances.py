"""How the machine stood when a program was started for it."""

from typing import NamedTuple

from costguard.engine.idleness import concerned
from costguard.engine.machine import Step
from costguard.engine.observation import Device
from costguard.engine.rules import Rules
from costguard.engine.state import State


class Circumstances(NamedTuple):
    """Facts for an action and the record of it, beside its effect."""

    reason: str = ""
    sentence: str = ""
    idle_seconds: float = 0.0
    gpus: tuple[str, ...] = ()
    instance: str = ""
    devices: tuple[Device, ...] = ()  # that are judged
    beside: int = 0  # GPUs that are seen, and are none of the task that is guarded


def circumstances_of(last: Step, rules: Rules, other_gpus: int | None) -> Circumstances:
    """Those of this moment; ``other_gpus``: how many GPUs are not the task's, None where the machine is guarded."""
    state, core = last.state, last.state.core
    quiet = [0.0 if state.tracks[i].busy else state.at - state.tracks[i].since for i in core.selection.judged]
    idle = (max if rules.judges_any else min)(quiet, default=0.0)
    reason = core.incident.reason if core.incident else ""
    gpus = tuple([state.gpus[i] for i in concerned(state, rules)])
    devices = _judged_devices(state) if other_gpus is not None else ()
    return Circumstances(reason, str(last.sentence), idle, gpus, core.instance, devices, other_gpus or 0)


def _judged_devices(state: State) -> tuple[Device, ...]:
    devices = {device.key: device for device in state.core.selection.devices}
    return tuple([devices.get(state.gpus[i], Device(state.gpus[i])) for i in state.core.selection.judged])
