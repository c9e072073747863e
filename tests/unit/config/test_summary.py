"""What a configuration will do, in words."""

import time

import pytest

from costguard.config.load import load
from costguard.config.presets import PRESETS
from costguard.config.summary import summary
from costguard.engine.reasons import OWN_REASONS


def words(*assignments: str) -> str:
    return "\n".join(summary(load({"set": list(assignments)}, {}, "/nonexistent/costguard.toml").settings))


def test_default() -> None:
    """The default says that nothing is stopped, what would stop it, and how to postpone."""
    text = words()
    assert text.startswith("Dry run: nothing is stopped")
    assert "every GPU of the machine is quiet" in text
    assert "below 5% for 1h (up to 1% of that time may be above)" in text
    assert "10m later the cloud is asked to stop this machine" in text
    assert "4h without any work" in text
    assert "Never within 20m of boot" in text
    assert "costguard hold" in text


SAID = {
    "deadline": ("deadline.lifetime=7h", "after 7h of running"),
    "idle": ("kill_duration=7h", "below 5% for 7h"),
    "unused": ("unused_after=7h", "after 7h without any work since boot"),
    "unknown": ("unknown_stop_after=7h", "after 7h in which GPUs could not be read"),
}
"""An option of each reason to stop, and what is said of it."""


def test_every_reason_to_stop_is_named() -> None:
    """Whoever checks a configuration learns everything that would end the machine."""
    missing = {reason.name for reason in OWN_REASONS} ^ SAID.keys()
    assert not missing, f"tell of {sorted(missing)} in config/summary.py, and add the words to SAID"
    for option, said in SAID.values():
        assert said in words(option), f"say {said!r} of {option} in config/summary.py"


def test_live_and_dangerous_settings_are_named() -> None:
    """Live, below-load and busy deadlines are said aloud."""
    text = words(
        "mode=live",
        "notify.local_only=true",
        "stop_below_load=true",
        "kill_threshold=50%",
        "deadline.lifetime=7d",
        "deadline.stop_busy=true",
    )
    assert text.startswith("LIVE")
    assert "Note: stop_below_load is set" in text
    assert "after 7d of running, whichever is first, even while it works" in text


@pytest.mark.parametrize(
    ("broken", "mended", "part"),
    [
        (["kill_action=terminate", "sink.tag=true"], ["sink.syslog=log.example.org:601"], "terminate is refused until"),
        (["cloud.provider=none"], ["kill_action=shutdown"], "cloud.provider is none: stop is refused"),
        (["cloud.metadata=never"], ["cloud.metadata=auto"], "cloud.metadata is never: stop is refused"),
    ],
)
def test_an_action_that_can_only_be_refused_is_named(broken: list[str], mended: list[str], part: str) -> None:
    """Before the first plan says so: the configuration is valid, and no bill would end by it."""
    assert part in words("mode=live", "notify.local_only=true", *broken)
    assert part not in words("mode=live", "notify.local_only=true", *broken, *mended)


def test_command_is_shown_without_its_secrets() -> None:
    """The summary may be pasted into a ticket."""
    text = words("kill_action=command", "actions.command.run=notify --password S3CRET")
    assert "notify --password ***" in text
    assert "S3CRET" not in text


def test_a_machine_action_never_promises_the_mean() -> None:
    """Every GPU must be idle before the machine is stopped, also under a preset that judges the mean."""
    given = {"preset": "gpu-sentinel", "set": ["kill_action=shutdown"]}
    sentences = summary(load(given, {}, "/nonexistent/x.toml").settings)
    assert "every GPU of the machine is below 70% for 30s" in sentences[1]
    assert any("judges every GPU, not the mean" in sentence for sentence in sentences)
    assert (
        "the mean of the GPUs is below"
        in summary(load({"preset": "gpu-sentinel"}, {}, "/nonexistent/x.toml").settings)[1]
    )
    assert "judges every GPU, not the mean" in PRESETS["gpu-sentinel"].text


@pytest.mark.parametrize(
    ("settings", "earliest"),
    [
        (["boot_grace=3650d"], "3650d"),
        (["kill_duration=60d"], "60d 10m"),
        (["grace=31d"], "31d 1h"),
    ],
)
def test_a_wait_that_was_hardly_meant_is_named(settings: list[str], earliest: str) -> None:
    """It is valid, and nothing would be stopped for a month."""
    assert f"Note: an idle machine would be stopped after {earliest} at the earliest." in words(*settings)
    assert "at the earliest" not in words()


def test_a_lease_is_shown_in_the_time_of_this_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its zone, so that it can be compared with what was written."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert "at 2027-01-01 17:00:00+09:00" in words("deadline.lease=2027-01-01T10:00:00+02:00")
    finally:
        monkeypatch.undo()
        time.tzset()
