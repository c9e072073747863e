"""What a configuration names that is not on this machine."""

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from costguard.cli.main import main
from costguard.config.here import Absent, absent
from costguard.config.load import load

SETTINGS = {
    "hooks.pre_stop=/nonexistent/save": Absent("hooks.pre_stop", "program /nonexistent/save", saves=True),
    "hooks.pre_stop=nosuchprogram": Absent("hooks.pre_stop", "program nosuchprogram", saves=True),
    "hooks.warning=/nonexistent/tell": Absent("hooks.warning", "program /nonexistent/tell"),
    "actions.command.run=/nonexistent/end": Absent("actions.command.run", "program /nonexistent/end"),
    "senses.probe.run=/nonexistent/probe": Absent("senses.probe.run", "program /nonexistent/probe"),
    "sink.token_file=/nonexistent/token": Absent("sink.token_file", "file /nonexistent/token"),
    "heartbeat.token_file=/nonexistent/token": Absent("heartbeat.token_file", "file /nonexistent/token"),
}


def of(*settings: str) -> list[Absent]:
    return list(absent(load({"set": list(settings)}, {}, "/nonexistent/costguard.toml").settings))


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_not_here_is_named(setting: str) -> None:
    """With the option that names it."""
    beside = ["heartbeat.url=https://e.org/x"] if setting.startswith("heartbeat") else []
    beside += ["sink.url=https://e.org/x"] if setting.startswith("sink") else []
    assert of(setting, *beside) == [SETTINGS[setting]]


@pytest.mark.parametrize(
    ("settings", "option", "saves"),
    [
        (["hooks.user=nosuch", "hooks.pre_stop=/bin/true"], "hooks.user", True),
        (["hooks.user=nosuch", "hooks.armed=/bin/true"], "hooks.user", False),
        (["senses.probe.user=nosuch", "senses.probe.run=/bin/true"], "senses.probe.user", False),
    ],
)
def test_a_user_who_is_not_here_is_named_where_he_is_needed(settings: list[str], option: str, saves: bool) -> None:
    """Without a program that runs as this user nobody misses him."""
    assert of(*settings) == [Absent(option, "user nosuch", saves)]
    assert of(settings[0]) == []


def test_what_is_here_is_not_named(tmp_path: Path) -> None:
    """A program by its name or path, and a file that this user may not look at."""
    (tmp_path / "token").touch()
    assert of("hooks.pre_stop=true", f"hooks.warning={sys.executable}", "hooks.user=root", f"sink.token_file={tmp_path}/token", "sink.url=https://e.org/x") == []  # fmt: skip


def test_check_warns_of_it_and_says_no_ok() -> None:
    """The file may be meant for another machine, so it is no problem."""
    said = CliRunner().invoke(
        main, ["config", "check", "--set", "hooks.pre_stop=/nonexistent/save"], env=dict(os.environ)
    )
    assert said.exit_code == 0, said.output
    assert said.output.startswith("Valid, with warnings")
    assert "Warning: hooks.pre_stop: there is no program /nonexistent/save on this machine." in said.output


@pytest.mark.parametrize("option", ["cloud.provider", "task.scheduler"])
def test_a_plug_in_that_is_not_installed_is_a_problem(option: str) -> None:
    """Nobody would be asked to stop the machine, or to end the task."""
    said = CliRunner().invoke(main, ["config", "check", "--set", f"{option}=banana"])
    assert (said.exit_code, f"At '{option}': no installed plug-in has the name 'banana'; allowed: auto, none" in said.output) == (2, True)  # fmt: skip
