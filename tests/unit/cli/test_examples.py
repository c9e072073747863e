"""Every `--help` ends with examples, and each of them works as it is written."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from costguard.cli.main import main

NOBODY = 3
"""The exit code of verbs that find no agent, no history or no installation."""

CODES: Mapping[str, tuple[int, ...]] = {
    "permissions": (0,), "config": (0,), "install": (0,), "uninstall": (NOBODY,), "replay": (0,), "import": (0,),
    "status": (NOBODY,), "history": (NOBODY,), "hold": (NOBODY,), "release": (NOBODY,), "detach": (NOBODY,), "attach": (NOBODY,),
    "doctor": (1, 4),
}  # fmt: skip
"""What each ends with on a machine without an agent. Not here: what would act, ask, wait or watch (`run`, `stop`, `record`,
`notify test`, `demo`, which has tests of its own), and `exec` and `fill`, which become something else; `stress` as `fill`."""

GPU_MON = "[defaults]\ninterval_seconds=10\n[gpu]\ngpus=ALL\nignore_programs=\n[tty]\nenabled=yes\n[process]\ngpus=ALL\ndir=/\ncmd=true\n"
"""The least that a configuration of that tool has."""

AGENTS = ("status", "history", "hold", "release", "detach", "attach", "doctor")
"""Verbs that talk to an agent: to none of this machine."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every verb, and those of groups, by what people type."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())


COMMANDS = {"": main, **dict(commands())}


def examples(name: str) -> list[str]:
    """The lines below the heading, as `--help` prints them."""
    said = CliRunner().invoke(main, [*name.split(), "--help"], env={"COLUMNS": "80"}).output
    return [line.strip() for line in said.partition("\n  Examples:\n")[2].splitlines() if line.strip()]


CLOUDS = sorted(point.name for point in entry_points(group="costguard.providers"))
EXAMPLES = sorted({line.replace("CLOUD", cloud) for name in COMMANDS for line in examples(name) for cloud in CLOUDS})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_examples_of_its_own(name: str) -> None:
    """At the end, one a line, short enough for a terminal; the overview has those of others."""
    found = examples(name)
    assert found, f"give `costguard {name}` an `epilog=examples(…)` (cli/examples.py)"
    long = [line for line in found if len(line) > 90]
    assert not long, f"examples of `costguard {name}` are too long for a terminal: {long}"
    foreign = [line for line in found if not re.match(rf"(sudo )?costguard {name}\b", line)]
    assert not foreign, f"examples of another verb below `costguard {name}`: {foreign}"


def words(line: str) -> list[str]:
    """What costguard gets of it: without sudo, and without what the shell does next."""
    return shlex.split(line.partition(" && ")[0].removeprefix("sudo "))[1:]


@pytest.mark.parametrize("line", EXAMPLES)
def test_it_is_taken_as_it_is_written(line: str) -> None:
    """Verb, options, and values of the right kind."""
    command: click.Command = main
    arguments, context = words(line), click.Context(main)
    while isinstance(command, click.Group):
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, line
        command = found
        made = command.make_context(name, list(arguments), parent=context)
        context = click.Context(command, parent=context) if isinstance(command, click.Group) else made


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the examples name, on a machine without an agent or a configuration."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("COSTGUARD_")]:
        monkeypatch.delenv(name)
    rows = [
        f"2026/11/23 0{hour}:00:{second:02}.000, 0, {hour * 9} %" for hour in range(2) for second in range(0, 60, 10)
    ]
    (tmp_path / "night.csv").write_text("timestamp, index, utilization.gpu [%]\n" + "\n".join(rows) + "\n")
    (tmp_path / "costguard.toml").write_text("notify.local_only = true\n")
    (tmp_path / "gpu_mon.conf").write_text(GPU_MON)
    (tmp_path / "fill.toml").write_text('[[work]]\ncommand = "true"\n')
    (tmp_path / "image/usr").mkdir(parents=True)
    (tmp_path / "work").touch(mode=0o755)
    return tmp_path


def here(line: str, place: Path) -> list[str]:
    """The words, with this folder in place of the machine's own."""
    given = words(line)
    given += ["--state-dir", str(place / "state")] if given[0] in AGENTS else []
    given += ["--dry-run"] if given[0] in {"install", "uninstall"} and "--dry-run" not in given else []
    if given[0] in {"install", "uninstall"}:
        at = given.index("--root") if "--root" in given else len(given)
        given[at : at + 2] = ["--root", str(place / "image")]
    if "--output" in given:
        given[given.index("--output") + 1] = str(place / "new.toml")
    if given[:2] == ["config", "init"]:
        named = given.index("--path") if "--path" in given else len(given)
        given[named : named + 2] = ["--path", str(place / "new.toml")]
    return given


@pytest.mark.parametrize(
    "line", [line for line in EXAMPLES if words(line)[0] in CODES and not {"--watch", "--html"} & set(words(line))]
)
def test_it_does_what_it_can_here(line: str, place: Path) -> None:
    """With the exit code of a machine on which nothing runs; nothing crashes."""
    secret = place / "image/etc/costguard/pager.url"
    secret.parent.mkdir(parents=True)
    secret.write_text("x")
    secret.chmod(0o600)
    done = CliRunner().invoke(main, here(line, place))
    assert done.exit_code in CODES[words(line)[0]], done.output
    assert isinstance(done.exception, SystemExit | None), done.exception


@pytest.mark.parametrize("line", [line for line in EXAMPLES if words(line)[0] == "exec"])
def test_exec_starts_its_command(line: str, place: Path) -> None:
    """Each with the options of its line, and a program that ends at once."""
    options = words(line)[: words(line).index("--")] if "--" in words(line) else words(line)[:10]
    command = [sys.executable, "-m", "costguard", *options, "--", "sh", "-c", "exit 7"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 7


@pytest.mark.parametrize("line", [line for line in EXAMPLES if words(line)[0] in {"fill", "stress"}])
def test_background_work_understands_its_options(line: str, place: Path) -> None:
    """Each line as it is written, where there is no GPU: nothing is started, and why is said."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "none"}
    command = [sys.executable, "-m", "costguard", *words(line)]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == NOBODY, done.stderr
    assert "no GPU can be used" in done.stderr
