"""Rules between options."""

import pytest

from costguard.config.load import ConfigurationError, load
from costguard.engine.reasons import OWN_REASONS

LEAST = {
    "idle": ("kill_duration", "9m", "10m"),
    "unused": ("unused_after", "9m", "10m"),
    "unknown": ("unknown_stop_after", "3h", "4h"),
}
"""By reason to stop: the option with its time, one that is too short for a live machine action, and the shortest."""

DATED = {"deadline": "its owner names the moment, and the work that goes on is heeded"}
"""Reasons that need no shortest time, and why."""

LIVE = ("mode=live", "kill_action=shutdown", "notify.local_only=true")


def found(*assignments: str, preset: str | None = None) -> list[str]:
    try:
        load({"set": list(assignments), "preset": preset}, {}, "/nonexistent/costguard.toml")
    except ConfigurationError as error:
        return [problem.split("'")[1] for problem in error.problems]
    return []


def test_every_reason_has_a_shortest_time() -> None:
    """Not even a mistyped option may end a machine within minutes in which a job only waits for its data."""
    lacking = {reason.name for reason in OWN_REASONS} ^ (LEAST.keys() | DATED.keys())
    assert not lacking, f"say in config/checks.py how short {sorted(lacking)} may be in live mode, and add it to LEAST"
    for option, short, least in LEAST.values():
        assert found(*LIVE, f"{option}={short}") == [option], f"config/checks.py must refuse {option} = {short}"
        assert found(*LIVE, f"{option}={least}") == []


@pytest.mark.parametrize(
    ("broken", "kept", "path"),
    [
        (["kill_threshold=21%"], ["kill_threshold=20%"], "kill_threshold"),
        (["kill_threshold=70%"], ["kill_threshold=70%", "stop_below_load=true"], "kill_threshold"),
        (["kill_threshold=70%"], ["kill_threshold=70%", "kill_action=end_process"], "kill_threshold"),
        ([*LIVE, "kill_duration=599s"], [*LIVE, "kill_duration=600s"], "kill_duration"),
        ([*LIVE, "boot_grace=9m"], [*LIVE, "boot_grace=10m"], "boot_grace"),
        ([*LIVE, "unused_after=9m"], [*LIVE, "unused_after=off"], "unused_after"),
        ([*LIVE, "kill_duration=5m"], ["kill_action=shutdown", "kill_duration=5m"], "kill_duration"),
        ([*LIVE, "kill_duration=5m"], ["mode=live", "kill_action=end_process", "kill_duration=5m"], "kill_duration"),
        (
            ["mode=live", "kill_action=shutdown"],
            ["mode=live", "kill_action=shutdown", "notify.channels.team.urls=env:TEAM"],
            "notify.channels",
        ),
        (["kill_duration=29s"], ["kill_duration=30s"], "kill_duration"),
        (["kill_duration=9s"], ["kill_duration=9s", "interval=3s"], "kill_duration"),
        (["kill_action=command"], ["kill_action=command", "actions.command.run=true"], "actions.command.run"),
        (["fallback=command"], ["fallback=command", "actions.command.run=true"], "actions.command.run"),
        (["fallback=shutdown,shutdown"], ["fallback=shutdown,reboot"], "fallback"),
        (["fallback=stop"], ["fallback=terminate"], "fallback"),
        (["fallback=end_process"], [], "fallback"),
        (
            ["sink.method=PUT", "sink.url=https://s.org/one"],
            ["sink.method=PUT", "sink.url=https://s.org/many/"],
            "sink.url",
        ),
        (["sink.method=PUT", "sink.url=https://s.org"], ["sink.url=https://s.org/one"], "sink.url"),
        (
            ["sink.method=PUT", "sink.url=https://s.org/{instance}/{step}"],
            ["sink.method=PUT", "sink.url=https://s.org/{instance}/{incident}/{step}/{time}?sig=1"],
            "sink.url",
        ),
        (["kill_action=end_process", "fallback=shutdown"], ["kill_action=end_process"], "fallback"),
        (
            ["deadline.budget=5", "deadline.budget_period=30d"],
            ["deadline.budget=5", "deadline.budget_period=30d", "price_per_hour=2"],
            "deadline.budget",
        ),
        (
            ["deadline.budget=5", "price_per_hour=2"],
            ["deadline.budget=5", "price_per_hour=2", "deadline.budget_period=1d"],
            "deadline.budget_period",
        ),
        (["sink.tag=true", "cloud.provider=none"], ["sink.tag=true"], "sink.tag"),
        (["heartbeat.tag=true", "cloud.metadata=never"], ["heartbeat.tag=true"], "heartbeat.tag"),
        (["cloud.tag_settings=true", "cloud.tags=off"], ["cloud.tag_settings=true"], "cloud.tag_settings"),
        (["kill_action=end_task", "fallback=stop"], ["kill_action=end_task"], "fallback"),
        (["kill_action=stop", "fallback=end_task"], ["kill_action=stop"], "fallback"),
        (["kill_action=end_task", "gpu_devices=0"], ["kill_action=end_process", "gpu_devices=0"], "gpu_devices"),
        (
            ["kill_action=end_task", "task.scheduler=nobody"],
            ["kill_action=end_task", "task.scheduler=none"],
            "task.scheduler",
        ),
        (["hold.max=2d", "hold.total=1d"], ["hold.max=1d", "hold.total=1d"], "hold.total"),
    ],
)
def test_rule(broken: list[str], kept: list[str], path: str) -> None:
    """The first configuration breaks exactly the rule of this option, the second one keeps it."""
    assert found(*broken) == [path]
    assert found(*kept) == []


def test_fallback_counts_as_machine_action() -> None:
    """One machine action anywhere in the list binds the whole configuration."""
    assert found("kill_action=command", "actions.command.run=true", "kill_threshold=50%") == []
    rest = ("kill_action=command", "actions.command.run=true", "kill_threshold=50%", "fallback=shutdown")
    assert found(*rest) == ["kill_threshold"]


@pytest.mark.parametrize("preset", ["gpu-sentinel", "gpu-idle-timeout", "gpu-idle-timeout-any"])
def test_presets_may_be_quicker(preset: str) -> None:
    """A preset's own times are allowed for live machine actions, and so are longer ones; shorter ones are not."""
    assert found(*LIVE, preset=preset) == []
    assert found(*LIVE, "kill_duration=6m", preset=preset) == []
    assert found(*LIVE, "kill_duration=29s", "interval=1s", preset=preset) == ["kill_duration"]
    assert found(*LIVE, "unused_after=1m", preset=preset) == ["unused_after"]


def test_errors_about_a_value_that_is_wrong_itself_are_not_doubled() -> None:
    """A rule that involves a value which could not be read is not reported as broken."""
    assert found("interval=x", "kill_duration=9s") == ["interval"]
