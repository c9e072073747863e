"""What makes every stop of its own impossible until somebody changes it: the one list, for `status`, `doctor` and people's own stops."""

from collections.abc import Iterator
from typing import NamedTuple

from costguard.engine.rules import Rules
from costguard.engine.state import Core

GPUS_NAMED = 8
"""So many GPUs are named one by one."""

ADMIN_HOLD = "admin_hold"
HATCH = "hatch"
GPU_DEVICES = "gpu_devices"
CODES = (ADMIN_HOLD, HATCH, GPU_DEVICES)
FORBIDS = frozenset((ADMIN_HOLD, HATCH))
"""Not even a person may have it stopped."""


class Standstill(NamedTuple):
    """One cause: its code, what has it, and words."""

    code: str
    source: str
    words: str
    lets_go: str = ""


def standstills(core: Core, gpus: tuple[str, ...], rules: Rules) -> Iterator[Standstill]:
    """Every cause, those first that bind people too."""
    if rules.policy.admin_hold:
        yield Standstill(ADMIN_HOLD, "admin", f"the administrator holds it: {rules.policy.admin_hold}")
    for veto in core.vetoes:
        if veto.hatch:
            yield Standstill(HATCH, veto.source, f"{veto.source}: {veto.reason}", veto.lets_go)
    if core.selection.unmatched:
        yield Standstill(GPU_DEVICES, "gpu_devices", unmatched_names(core, gpus))


def unmatched_names(core: Core, gpus: tuple[str, ...]) -> str:
    """Which names of `gpu_devices` fit no GPU, and which there are."""
    numbers = {device.key: str(device.number) for device in core.selection.devices if device.number is not None}
    there = [numbers.get(key, key) for key in gpus]
    listed = ", ".join(there) if len(there) <= GPUS_NAMED else f"{there[0]}, {there[1]}, … {there[-1]}"
    is_are = "is" if len(there) == 1 else "are"
    return f"no GPU matches {' or '.join(core.selection.unmatched)} in gpu_devices; there {is_are} {listed}"
