"""Presets with the rules of well-known tools; a preset never sets the mode."""

from collections.abc import Mapping
from typing import NamedTuple


class Preset(NamedTuple):
    """``values`` are written as in the file; they may go below the minimums of live machine actions."""

    text: str
    values: Mapping[str, object]


_IDLE_TIMEOUT: Mapping[str, object] = {
    "interval": "5s",
    "arm_duration": "off",
    "kill_threshold": "1%",
    "kill_duration": "300s",
    "window_rule": "unbroken",
    "aggregate": "all",
    "grace": "0s",
    "delay": "55s",  # eleven looks: the twelfth is the first that counts
    "boot_grace": "60s",
    "unused_after": "off",
    "notify.local_only": True,
    "senses.enabled": False,
}

PRESETS: Mapping[str, Preset] = {
    "none": Preset("costguard's own defaults.", {}),
    "gpu-sentinel": Preset(
        "Arms when the mean load is above 80% for 30 s, acts when it is below 70% for 30 s, looks every second, "
        "gives no time after a warning. Load alone decides, for machine actions too. As in that tool, the action ends costguard "
        "itself with exit code 0, so that `costguard run && something` goes on; set kill_action for shutdown or reboot. "
        "A machine action judges every GPU, not the mean.",
        {
            "interval": "1s",
            "arm_threshold": "80%",
            "arm_duration": "30s",
            "kill_threshold": "70%",
            "kill_duration": "30s",
            "window_rule": "unbroken",
            "aggregate": "mean",
            "stop_below_load": True,
            "grace": "0s",
            "boot_grace": "0s",
            "unused_after": "off",
            "kill_action": "end_process",
            "notify.local_only": True,
            "senses.enabled": False,
        },
    ),
    "gpu-idle-timeout": Preset(
        "Acts when every look of 300 s (60 looks, one every 5 s) saw every GPU below 1%, whether work was seen before or not. "
        "Counting begins with the 12th look, after 60 s. The action ends costguard itself with exit code 0.",
        {**_IDLE_TIMEOUT, "kill_action": "end_process"},
    ),
    "gpu-idle-timeout-any": Preset(
        "As gpu-idle-timeout, but one idle GPU is enough, and it runs your command (set actions.command.run) "
        "5 s after a warning that can still be cancelled.",
        {**_IDLE_TIMEOUT, "aggregate": "any", "grace": "5s", "kill_action": "command"},
    ),
}
"""By name, as in ``preset = "…"``."""
