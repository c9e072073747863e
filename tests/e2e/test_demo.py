"""The demonstration: it ends, it is honest about what it shows, and it leaves the terminal as it was."""

import itertools
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costguard.cli.invoked import as_typed
from costguard.demo import story
from costguard.demo.director import Director, Scene, Stage
from costguard.demo.ending import following
from tests.e2e.conftest import COMMAND
from tests.e2e.terminal import Terminal

ENVIRONMENT = {**os.environ, "TZ": "UTC", "TERM": "xterm-256color"}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "demo", *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    """The day as JSON events."""
    done = demo("--json")
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_without_a_terminal_it_is_plain_text() -> None:
    """Nothing that moves or colours; every act, the warning, the account and the next steps; 100 columns."""
    done = demo()
    assert (done.returncode, done.stderr) == (0, "")
    assert not CONTROL.search(done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 100
    for number, act in enumerate(story.ACTS, 1):
        assert f"Act {number} of {len(story.ACTS)}: {act.title}" in done.stdout
    assert "DRY RUN: gpu-box would be shut down at" in done.stdout
    assert "the machine is simulated" in done.stdout.splitlines()[0]
    assert re.search(r"about \d+ USD \(estimate; it assumes 7.00 USD an hour\)", done.stdout)
    assert done.stdout.rstrip().splitlines()[-9] == "Next steps"
    for typed, meaning in following(as_typed(sys.executable) + " -m costguard"):
        assert f"  {typed}\n      {meaning}\n" in done.stdout


@pytest.mark.parametrize(
    "start",
    [
        "{bin}/costguard",
        pytest.param("./bin/costguard", marks=pytest.mark.thorough),
        pytest.param("costguard", marks=pytest.mark.thorough),
        pytest.param(f"{sys.executable} -m costguard", marks=pytest.mark.thorough),
    ],
)
def test_the_next_steps_work_when_typed(start: str, tmp_path: Path) -> None:
    """From the folder where it was started, however that was done, by a user who may write there alone."""
    folder = tmp_path / "a folder" / "bin"
    folder.mkdir(parents=True)
    script = folder / "costguard"
    script.write_text(f"#!{sys.executable}\nfrom costguard.cli.main import main\nmain()\n")
    script.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}" if start == "costguard" else "/usr/bin:/bin"
    environment = ENVIRONMENT | {"PATH": path}

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", line], cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=50,
            check=False,
        )  # fmt: skip

    said = typed(f"{start.format(bin=shlex.quote(str(folder)))} config init --path first.toml").stdout
    command = said.partition("`")[2].partition(" config check")[0]
    steps = [step for step, _meaning in following(command)]
    assert [step.removeprefix(command).split()[0] for step in steps] == ["config", "config", "run", "status"]
    for step in steps:
        guards = step.endswith(" status") or " run " in step
        done = typed(f"{step} --help" if guards else step)
        assert (done.returncode, done.stderr) == (0, ""), step


def test_it_never_stops_work(events: list[dict[str, Any]]) -> None:
    """People are warned once, after the last work and an hour of quiet, and ten minutes before the decision."""
    acts = {event["name"]: event["at"] for event in events if event["event"] == "act"}
    messages = [(event["kind"], event["at"]) for event in events if event["event"] == "message"]
    assert [kind for kind, _ in messages] == ["warning", "would_act"]
    warned, acted = messages[0][1], messages[1][1]
    assert warned >= acts["crash"] + 3600.0
    assert acted >= warned + 600.0
    assert list(acts) == [act.name for act in story.ACTS]


def test_unknown_moves_the_warning(events: list[dict[str, Any]]) -> None:
    """The hour begins anew when the GPU can be read again: eleven minutes after the crash."""
    crash = next(event["at"] for event in events if event.get("name") == "crash")
    warned = next(event["at"] for event in events if event.get("kind") == "warning")
    assert warned >= crash + 11 * 60.0 + 3600.0 * 0.99


def test_the_account_adds_up(events: list[dict[str, Any]]) -> None:
    """Every second of the day is counted once; what a stop saves runs from the decision to the end."""
    account = events[-1]
    assert account["event"] == "account"
    parts = [account["acts"][act.name] for act in story.ACTS]
    total = sum(part["worked"] + part["quiet"] + part["unknown"] for part in parts)
    assert total == pytest.approx(story.LENGTH, abs=30.0)
    assert account["saved_seconds"] == pytest.approx(account["at"] - account["would_act"])
    assert account["acts"]["crash"]["unknown"] == pytest.approx(8 * 60.0, abs=20.0)
    assert account["acts"]["download"]["quiet"] > 3600.0, "longer than a plain idle timer would wait"
    truth = sum(p.seconds for p in story.script() if p.name == "training" and p.load != 0.0)
    assert account["acts"]["training"]["worked"] == pytest.approx(truth, rel=0.01)
    assert account["estimate"]["price"] == "an assumption"


@pytest.mark.thorough
def test_the_day_is_the_same_every_time(events: list[dict[str, Any]]) -> None:
    """No clock and no chance of this computer reaches the decisions."""
    assert [json.loads(line) for line in demo("--json").stdout.splitlines()] == events


class Rehearsal(Stage):
    """A stage that shows nothing and remembers when each scene was due."""

    every = 1 / 12

    def __init__(self) -> None:
        self.due: list[float] = []
        self.scenes: list[Scene] = []

    def draw(self, scene: Scene, shown: float) -> None:
        self.due.append(shown)
        self.scenes.append(scene)


def test_it_takes_less_than_a_minute_and_gives_time_to_read() -> None:
    """35 to 50 seconds, every act nearly 3 of them, and no picture stands still for half a second."""
    stage = Rehearsal()
    Director(stage).play()
    assert 35.0 <= stage.due[-1] <= 50.0
    assert max(b - a for a, b in itertools.pairwise(stage.due)) < 0.5
    for act in story.ACTS:
        due = [when for when, scene in zip(stage.due, stage.scenes, strict=True) if scene.act.name == act.name]
        assert due[-1] - due[0] >= 2.8
    warning = [when for when, scene in zip(stage.due, stage.scenes, strict=True) if scene.report["phase"] == "WARNING"]
    assert warning[-1] - warning[0] >= 4.0, "there is time to read the warning"


@pytest.mark.parametrize(
    ("columns", "rows"),
    [(80, 24), *(pytest.param(*size, marks=pytest.mark.thorough) for size in ((100, 30), (200, 50)))],
)
def test_on_a_terminal_it_ends_with_the_account(columns: int, rows: int) -> None:
    """The screen is given back as it was found, the account stays on it, and the exit code is 0."""
    with Terminal([*COMMAND, "demo", "--fast"], ENVIRONMENT, columns=columns, rows=rows) as terminal:
        first = terminal.until(r"idle clock +not started")
        assert "simulated machine · real decisions" in first
        assert "GPU 1" in first
        assert terminal.end() == 0
        assert "It never stopped work" in terminal.text
        assert "costguard status" in terminal.text
        assert not terminal.screen.cursor.hidden
        assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1


def test_colour_is_left_out_when_asked() -> None:
    """NO_COLOR is heeded; the words say everything."""
    with Terminal([*COMMAND, "demo", "--fast"], {**ENVIRONMENT, "NO_COLOR": "1"}) as terminal:
        terminal.until(r"idle clock +not started")
        terminal.interrupt()
        assert terminal.end() == 130
        assert not re.search(r"\x1b\[[0-9;]*3[1-7]", terminal.raw)


@pytest.mark.parametrize(
    "poor", [pytest.param({"TERM": "dumb"}, marks=pytest.mark.thorough), {"PYTHONIOENCODING": "latin-1"}]
)
def test_a_poor_terminal_gets_plain_text(poor: dict[str, str]) -> None:
    """Where pictures cannot be drawn it prints lines, and no character is an error."""
    with Terminal([*COMMAND, "demo"], ENVIRONMENT | poor) as terminal:
        assert terminal.end() == 0
        assert "\x1b" not in terminal.raw
        assert "Act 5 of 5: Idleness" in terminal.raw


def test_ctrl_c_leaves_a_clean_terminal() -> None:
    """The screen and the cursor come back, no traceback, exit code 130."""
    with Terminal([*COMMAND, "demo"], ENVIRONMENT) as terminal:
        terminal.until("STARTING")
        terminal.interrupt()
        assert terminal.end() == 130
        assert not terminal.screen.cursor.hidden
        assert terminal.raw.count("\x1b[?1049h") == terminal.raw.count("\x1b[?1049l") == 1
        assert "Traceback" not in terminal.raw
