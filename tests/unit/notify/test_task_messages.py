"""What the owner of a task reads from its guard: true of a task, and of this one."""

import re

import pytest

from costguard.config.types import KINDS
from costguard.notify.compose import compose
from costguard.tasks.api import Advice

ADVICE = Advice(
    reach="srun --jobid=12 {}", end="`scancel 12`", show="`sacct -j 12`", again="submit it as before (`sbatch`)"
)
FACTS: dict[str, object] = {
    "machine": "node7",
    "instance": "task:Slurm:12",
    "task": "job 12 of alice",
    "advice": ADVICE._asdict(),
    "folder": "/scratch/alice/watch 12",
    "incident": "b-i1",
    "mode": "live",
    "action": "end_task",
    "reason": "idle",
    "gpus": ["GPU 0 (H100)"],
    "threshold": 0.05,
    "window": 3600,
    "due_in_seconds": 600,
    "findings": [["go", "it may be ended", "ask"]],
    "price_per_hour": 32.77,
    "currency": "EUR",
    "money": 3.1,
    "idle_cost": 4.2,
    "unknown_seconds": 900,
    "stops": 1,
    "would": 2,
    "receipt": '{"task":"12"}',
}
OF_THE_MACHINE = {"notice", "came_back", "closed"}
"""Kinds that say what happens to the machine, whatever is guarded on it."""

FALSE_OF_A_TASK = re.compile(
    r"(?i)\bbill|\bprice|\bcosts?\b|stays up|kept up|begun to stop|stopped|any stop|costguard stop|--verify|systemctl|"
    r"console|the machine\b|instance"
)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - OF_THE_MACHINE))
@pytest.mark.parametrize("mode", ["live", "dry-run"])
def test_every_message_names_the_task_and_says_nothing_of_a_machine(kind: str, mode: str) -> None:
    """The node stays up and billed whatever becomes of the task, and its own scheduler ends and shows it."""
    text = compose(kind, {**FACTS, "mode": mode})
    assert "job 12 of alice on node7" in text.title
    assert not FALSE_OF_A_TASK.findall(f"{text.title}\n{text.body}")


@pytest.mark.parametrize("action", ["command", "end_process"])
def test_a_task_is_named_whatever_is_done_for_it(action: str) -> None:
    """Also where the owner's own command ends it."""
    for kind in ("warning", "held", "unknown_alarm"):
        text = compose(kind, {**FACTS, "action": action})
        assert "job 12 of alice on node7" in text.title
        assert not FALSE_OF_A_TASK.findall(f"{text.title}\n{text.body}")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_command_talks_to_the_guard_of_this_task(kind: str) -> None:
    """Each task has a folder of its own: another guard, or none, would answer in the ordinary one."""
    commands = re.findall(r"`([^`]*costguard (?:hold|release|status|history)[^`]*)`", compose(kind, FACTS).body)
    assert all("--state-dir '/scratch/alice/watch 12'" in command for command in commands)
    if kind in {"warning", "countdown", "held", "hold_ended"}:
        assert commands


def test_it_is_postponed_from_where_people_are() -> None:
    """Who waits for a job sits at another machine."""
    command = "costguard hold 2h --state-dir '/scratch/alice/watch 12'"
    body = compose("warning", FACTS).body
    assert f"To postpone it: `{command}` on node7, or from elsewhere `srun --jobid=12 {command}`." in body
    assert "elsewhere" not in compose("warning", {**FACTS, "advice": {}}).body


@pytest.mark.parametrize(
    ("kind", "words", "without"),
    [
        ("accepted", "Not confirmed yet: `sacct -j 12` shows whether", "its scheduler shows whether"),
        ("stopping", "Not confirmed yet: `sacct -j 12` shows when", "its scheduler shows when"),
        ("outcome_unknown", "See whether it still runs: `sacct -j 12`.", "See whether it still runs: its scheduler."),
        ("unknown_alarm", "end it with `scancel 12`.", "end it with its scheduler."),
        ("done", "To start it again: submit it as before (`sbatch`).", ""),
    ],
)
def test_its_scheduler_has_the_words_that_only_it_knows(kind: str, words: str, without: str) -> None:
    """And a plug-in that brings none leaves no gap."""
    assert words in compose(kind, FACTS).body
    body = compose(kind, {**FACTS, "advice": Advice()._asdict()}).body
    assert without in body
    assert "``" not in body
    assert "start it again" not in body


def test_a_name_that_has_the_machine_in_it_has_it_once() -> None:
    """A pod's host is called like the pod."""
    text = compose("warning", {**FACTS, "machine": "train-7", "task": "pod ml/train-7"})
    assert text.title.startswith("pod ml/train-7 will be ended")
    assert " vm will" in compose("warning", {**FACTS, "machine": "vm", "task": "job 1 of vmuser"}).title
