"""The README promises nothing that is not there, and what it shows is real."""

import io
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner

import costguard
from costguard.cli.main import main
from costguard.cli.render import console, show
from costguard.cli.status_view import view
from costguard.config.presets import PRESETS
from costguard.demo.director import DemoLine, Director, Scene, Stage
from costguard.engine.reasons import REASONS
from release.film import film

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGE = Path(costguard.__file__).parent
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
INLINE = re.findall(r"`(costguard [^`]+)`", README)
OURS = sorted({command.removeprefix("sudo ") for command in (*COMMANDS, *INLINE) if "costguard " in command})


@pytest.mark.parametrize("words", [words for words in OURS if words.startswith("costguard ")])
def test_every_command_exists(words: str) -> None:
    """A verb, its options and its arguments are taken by the command line as the README writes them."""
    _, *arguments = shlex.split(words)
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and arguments:
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"there is no verb {name}"
        command = found
        context = click.Context(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(list(arguments))
    for preset in re.findall(r"--preset (\S+)", words):
        assert preset in PRESETS


ROWS = re.findall(r"^\| [^|]+ \| `(costguard run [^`]+)` \| ", README, re.MULTILINE)


@pytest.mark.parametrize("command", ROWS)
def test_what_replaces_another_tool_is_complete(command: str) -> None:
    """Each row of that table starts as it is written: the configuration that it makes has no problem."""
    done = CliRunner().invoke(main, ["config", "check", *shlex.split(command)[2:]])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "LIVE" in done.stdout


def test_every_preset_of_a_tool_has_its_row() -> None:
    """And no row is lost by its spelling."""
    assert {preset for row in ROWS for preset in re.findall(r"--preset (\S+)", row)} == set(PRESETS) - {"none"}


@pytest.mark.parametrize("shell", sorted(filter(None, map(shutil.which, ("sh", "bash", "zsh")))))
def test_the_wheel_is_found_with_the_library_of_the_cloud(shell: str, tmp_path: Path) -> None:
    """The line of the README, in a folder with one wheel: its name and the extra reach pip as one argument."""
    (line,) = [command for command in COMMANDS if "pip install" in command]
    wheel = tmp_path / "dist" / "costguard_agent-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    given = line.partition("pip install ")[2]
    done = subprocess.run(
        [shell, "-c", f"printf '%s\\n' {given}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "dist/costguard_agent-0.1.0-py3-none-any.whl[aws]\n"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for point in entry_points(group="costguard.providers"):
        assert point.name in extras, f"give {point.name} an extra in pyproject.toml: [] where it has no SDK"
        named = not extras[point.name] or f"`{point.name}`" in README
        assert named, f"name the extra {point.name} below the first command of the README"


def test_every_make_target_exists() -> None:
    """What it tells people to make can be made."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wanted = set(
        re.findall(r"`?make ([a-z]+)", "\n".join((*COMMANDS, *re.findall(r"`make [a-z]+`", README + CONTRIBUTING))))
    )
    assert {"demo", "wheel", "test", "lint"} <= wanted <= targets


def test_every_link_and_file_exists() -> None:
    """Links lead somewhere, also after a file was moved."""
    links = re.findall(r"\]\(([^)#]+)\)", README + CONTRIBUTING)
    assert len(links) >= 5
    for link in links:
        assert (ROOT / link).exists(), link
    assert (ROOT / "pyproject.toml").exists()


def test_it_is_short() -> None:
    """A first page, not a manual."""
    assert len(README.splitlines()) <= 200


def test_the_reasons_are_those_of_the_engine() -> None:
    """The table of reasons is the engine's own."""
    for reason in REASONS:
        row = f"| {' | '.join(reason.cells)} |"
        assert row in README, f"the table of the README lacks {row}"


class Rehearsal(Stage):
    """Keeps what the agent said, and its status when three minutes of the countdown are over."""

    every = 0.1

    def __init__(self) -> None:
        self.said: list[str] = []
        self.status: dict[str, Any] = {}
        self.director: Director | None = None

    def line(self, line: DemoLine) -> None:
        self.said.append(line.text)

    def draw(self, scene: Scene, shown: float) -> None:
        incident = scene.report["incident"]
        counting = scene.report["phase"] == "WARNING" and incident["due"] is not None
        if counting and not self.status and incident["due"] - scene.wall < 420.0:
            assert self.director is not None
            assert self.director.loop is not None
            self.status = self.director.loop.status()


@pytest.fixture(scope="module")
def rehearsal() -> Iterator[Rehearsal]:
    """The day of the demonstration, in UTC."""
    stage = Rehearsal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        stage.director = Director(stage)
        stage.director.play()
        yield stage
    time.tzset()


def test_the_picture_is_what_the_demonstration_draws_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` was run after the last change of it; small, without a script, and for light and dark pages."""
    picture = (ROOT / "docs/demo.svg").read_text(encoding="utf-8")
    assert "](docs/demo.svg)" in README.partition("## ")[0]
    assert len(picture.encode()) < 300_000
    tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(picture).iter()}
    assert tags == {"svg", "title", "style", "defs", "g", "rect", "text", "path", "use"}
    assert "prefers-color-scheme:dark" in picture
    assert "prefers-reduced-motion" in picture
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert film() == picture, "`make docs` draws it again"
    monkeypatch.undo()
    time.tzset()


def test_the_line_that_it_begins_with_is_real(rehearsal: Rehearsal) -> None:
    """The decision line comes from the agent on the demonstration's machine."""
    line = re.search(r"```text\n(WARNING: .*)\n```", README)
    assert line is not None
    assert line[1] in rehearsal.said


def test_the_status_that_it_shows_is_real(rehearsal: Rehearsal) -> None:
    """`costguard status` of the demonstration's machine looks exactly like this, but for the time of day."""
    file = io.StringIO()
    screen = console(file)
    show(screen, view(rehearsal.status, screen))
    real, _, _ = file.getvalue().partition("\nAgent ")
    shown = re.search(r"of a simulated machine:\n\n```text\n(.*?)\n```", README, re.DOTALL)
    assert shown is not None
    due = time.strftime("%H:%M %Z", time.localtime(rehearsal.status["incident"]["due"]))
    assert shown[1] == real.replace(due, "15:24 UTC")


def test_every_path_that_contributors_are_sent_to_exists() -> None:
    """Each one from the top, from the package, or from the tests."""
    named = {
        name for name in re.findall(r"`([\w./*<>-]+)`", CONTRIBUTING) if "/" in name or name.endswith((".py", ".md"))
    }
    assert len(named) > 30
    tops = (ROOT, PACKAGE, ROOT / "tests", ROOT / "tests/engine", ROOT / "tests/simulation", PACKAGE / "testing/nvml")
    lost = [name for name in named if not any(list(top.glob(re.sub("<.*>", "*", name).rstrip("/"))) for top in tops)]
    assert lost == []


def test_every_name_stands_in_the_file_that_contributing_gives() -> None:
    """A table that moved is looked for in vain, and whoever adds a row to a new one has the same thing in two places."""
    text = " ".join(CONTRIBUTING.split())
    told = re.findall(r"`([\w.]+)` (?:of|in) `([\w/]+\.py)`", text)
    told += [
        (name, file)
        for file, names in re.findall(r"`([\w/]+\.py)` \(((?:`\w+`(?:, )?)+)\)", text)
        for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(told) >= 15
    for name, file in told:
        source = "".join(path.read_text(encoding="utf-8") for top in (PACKAGE, ROOT) if (path := top / file).is_file())
        defined = re.search(rf"^ *(?:def |class )?{name.rpartition('.')[2]}\b *[:=(]", source, re.MULTILINE)
        assert defined, f"CONTRIBUTING.md looks for `{name}` in {file}, which has none"
