"""Presets carry the rules of the tools they are named after."""

import pytest

from costguard.config.load import load
from costguard.config.options import OPTIONS
from costguard.config.presets import PRESETS
from costguard.config.schema import Settings


def settings(name: str, *assignments: str) -> Settings:
    return load({"preset": name, "set": list(assignments)}, {}, "/nonexistent/costguard.toml").settings


def test_gpu_sentinel() -> None:
    """Mean load; armed above 80% and acting below 70%, 30 s each, every second, without a break."""
    s = settings("gpu-sentinel")
    assert (s.arm_threshold, s.arm_duration, s.kill_threshold, s.kill_duration) == (0.8, 30, 0.7, 30)
    assert (s.interval, s.aggregate, s.window_rule, s.kill_action) == (1, "mean", "unbroken", "end_process")
    assert (s.stop_below_load, s.unused_after, s.boot_grace, s.grace) == (True, None, 0, 0)


def test_gpu_idle_timeout() -> None:
    """Below 1% in 60 looks of 5 s, all GPUs, from the start."""
    s = settings("gpu-idle-timeout")
    assert (s.arm_duration, s.kill_threshold, s.kill_duration, s.interval) == (None, 0.01, 300, 5)
    assert (s.aggregate, s.window_rule, s.delay) == ("all", "unbroken", 55)


def test_gpu_idle_timeout_any() -> None:
    """One idle GPU is enough; a command after 5 s."""
    s = settings("gpu-idle-timeout-any", "actions.command.run=true")
    assert (s.aggregate, s.kill_action, s.grace, s.kill_duration) == ("any", "command", 5, 300)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_never_live(name: str) -> None:
    """Presets set known options only, and never the mode."""
    assert set(PRESETS[name].values) <= set(OPTIONS)
    assert "mode" not in PRESETS[name].values
    assert settings(name, "actions.command.run=true").mode == "dry-run"
    assert name in OPTIONS["preset"].allowed
