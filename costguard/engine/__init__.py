"""The decision, as pure functions of values: no clock, no I/O, no logging.

>>> from costguard.engine import Policy, initial, step
>>> state = initial("boot", "instance")
>>> state, effects, sentence = step(state, Tick(10.0, observation), Policy())
"""

from costguard.engine.events import (
    AskExtend,
    AskHold,
    AskRelease,
    AskStop,
    Began,
    Devices,
    Event,
    Finding,
    Notice,
    Outcome,
    Tick,
)
from costguard.engine.machine import Step, step
from costguard.engine.observation import Device, Known, Observation, Reading, Unknown, Veto
from costguard.engine.policy import Policy
from costguard.engine.saved import initial
from costguard.engine.state import State

__all__ = [
    "AskExtend",
    "AskHold",
    "AskRelease",
    "AskStop",
    "Began",
    "Device",
    "Devices",
    "Event",
    "Finding",
    "Known",
    "Notice",
    "Observation",
    "Outcome",
    "Policy",
    "Reading",
    "State",
    "Step",
    "Tick",
    "Unknown",
    "Veto",
    "initial",
    "step",
]
