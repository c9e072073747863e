"""What an owner's command is given: its arguments, its environment, its time."""

import os
from pathlib import Path
from typing import Any

import pytest

from costguard.actions import command
from costguard.actions.base import Context
from costguard.actions.command import Command
from costguard.actions.not_started import name_of
from costguard.plans import Result


def context(**more: Any) -> Context:
    given: dict[str, Any] = {
        "incident": "i1", "reason": "idle", "idle_seconds": 90.6, "gpus": ("0", "1"), "sentence": "both\0 quiet {gpus}", "instance": "m",
    } | more  # fmt: skip
    return Context("command", "live", **given)


def test_known_names_are_filled_in_once() -> None:
    """In one pass: what is filled in is not filled in again; other braces stay, and no argument has a NUL."""
    words = ["x", "{incident}-{reason}-{idle_seconds}", "{gpus}", "{sentence}", "{instance}{other}{}", 7]
    assert command.arguments(context(settings={"run": words})) == (
        "x", "i1-idle-91", "0,1", "both quiet {gpus}", "m{other}{}", "7",
    )  # fmt: skip
    for nothing in ({}, {"run": None}, {"run": "rm -rf /"}, {"run": 7}):
        assert command.arguments(context(settings=nothing)) == ()
    assert command.arguments(context(settings={"run": ("a",)})) == ("a",)


def test_the_environment_is_that_of_the_guard_without_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold secrets; what is known of the incident is added."""
    monkeypatch.setenv("COSTGUARD_SINK__TOKEN", "secret")
    monkeypatch.setenv("COSTGUARD_REASON", "another")
    monkeypatch.setenv("KEPT", "yes")
    found = command.environment(context())
    assert {name: value for name, value in found.items() if name.startswith("COSTGUARD_")} == {
        "COSTGUARD_INCIDENT": "i1", "COSTGUARD_REASON": "idle", "COSTGUARD_IDLE_SECONDS": "91", "COSTGUARD_GPUS": "0,1",
        "COSTGUARD_SENTENCE": "both quiet {gpus}", "COSTGUARD_INSTANCE": "m", "COSTGUARD_TASK": "", "COSTGUARD_TASK_KIND": "",
    }  # fmt: skip
    assert (found["KEPT"], found["PATH"]) == ("yes", os.environ["PATH"])


def test_a_program_of_the_owner_gets_no_address_of_a_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the agent's environment for its messages, and systemd's credentials, stay with the agent."""
    monkeypatch.setenv("TEAM_URLS", "slack://c4n4ry")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/costguard.service")
    monkeypatch.setenv("KEPT", "yes")
    channels = {"team": {"urls": "env:TEAM_URLS"}, "mail": {"urls": "file:/KEPT"}, "store": {"urls": "secret:KEPT"}}
    config = {"policy": {"mode": "live"}, "notify": {"channels": channels}}
    found = command.environment(Context.of(config, "command"))
    assert "TEAM_URLS" not in found
    assert "CREDENTIALS_DIRECTORY" not in found
    assert found["KEPT"] == "yes"


def test_a_program_is_found_as_it_will_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In PATH, or by its path; what is missing is told before it is needed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "save"
    program.write_text("#!/bin/sh\n")
    action = Command()
    for words, code in (
        (["save"], "command_not_found"),
        ([str(program)], "command_not_found"),
        ([], "command_missing"),
    ):
        plan = action.plan(action.facts(context(settings={"run": words})))
        assert (plan.verdict, [finding.code for finding in plan.findings], plan.command) == ("refuse", [code], ())
    program.chmod(0o755)
    for words in (["save", "{gpus}"], [str(program)]):
        plan = action.plan(action.facts(context(settings={"run": words})))
        assert (plan.verdict, plan.command) == ("go", tuple(word.replace("{gpus}", "0,1") for word in words))


@pytest.mark.parametrize(
    ("script", "settings", "deadline", "found"),
    [
        ("echo fine", {}, 9.0, ("done", "the command succeeded; it said: fine", "exit code 0")), ("exit 0", {}, 9.0, ("done", "the command succeeded", "exit code 0")),
        ("echo no; exit 3", {}, 9.0, ("failed", "the command failed with exit code 3; it said: no", "exit code 3")), ("exit 1", {}, 9.0, ("failed", "the command failed with exit code 1", "exit code 1")),
        ("kill -KILL $$", {}, 9.0, ("failed", "the command died of signal 9", "signal 9")), ("exec sleep 9", {"timeout": 0.05}, 9.0, ("failed", "the command was killed after 0.05 s", "deadline")),
        ("exec sleep 9", {"timeout": 9}, 0.05, ("failed", "the command was killed after 0.05 s", "deadline")), ("exec sleep 9", {"timeout": "9"}, 0.05, ("failed", "the command was killed after 0.05 s", "deadline")),
    ],
)  # fmt: skip
def test_what_became_of_it(
    tmp_path: Path, script: str, settings: dict[str, Any], deadline: float, found: tuple[str, str, str]
) -> None:
    """Its exit code, its signal, or its time; and what it said last."""
    program = tmp_path / "save"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    given = context(settings={"run": [str(program)], **settings}, deadline=deadline)
    action = Command()
    outcome = action.execute(action.plan(action.facts(given)), given)
    assert (outcome.status, outcome.detail, outcome.proof) == found


def test_a_program_that_cannot_be_started_failed(tmp_path: Path) -> None:
    """It went away, or is none."""
    program = tmp_path / "save"
    program.write_text("no program")
    program.chmod(0o755)
    given = context(settings={"run": [str(program)]}, deadline=5.0)
    action = Command()
    plan = action.plan(action.facts(given))
    program.unlink()
    assert action.execute(plan, given) == Result(
        "failed",
        f"the command could not be started: {program}: No such file or directory, run as {name_of(None)}; there is no such program",
    )


def test_only_its_executor_knows_what_it_did() -> None:
    """What was recorded is all that there is, and it is never repeated."""
    recorded = Result("done", "x")
    assert Command().confirm(context(), recorded) is recorded
    assert Command().confirm(context(), None).status == "unknown"
