"""The command line group."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from costguard import __version__, cli
from costguard.cli.answer import emit
from costguard.cli.main import VERBS, LazyGroup, fail, main
from costguard.errors import CostguardError


def costguard(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "costguard", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def test_version() -> None:
    """One line, for scripts."""
    assert costguard("--version").stdout == f"costguard {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    """The overview appears at once: no validation library, no terminal library, no verb."""
    script = (
        "import json, sys\n"
        "from costguard.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "Commands:" in done.stdout
    assert not loaded & {"pydantic", "rich", "apprise", "pynvml", "importlib.metadata", "asyncio", "costguard.config"}
    assert not {name for name in loaded if name.startswith("costguard.cli.")} - {
        "costguard.cli.main",
        "costguard.cli.examples",
    }


def test_overview_lists_what_exists() -> None:
    """A verb whose module is missing is not offered; the others are, in the order of the table."""
    context = click.Context(main)
    listed = main.list_commands(context)
    assert listed == [name for name in VERBS if name in listed]
    assert "config" in listed
    for name in listed:
        module, _, attribute = VERBS[name].target.partition(":")
        assert isinstance(getattr(importlib.import_module(module), attribute), click.Command)


def test_every_verb_is_in_the_table() -> None:
    """A module with a command that the table does not name is a verb that nobody can type."""
    known = {verb.target for verb in VERBS.values()}
    for file in sorted(Path(cli.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"costguard.cli.{file.stem}")
        if isinstance(getattr(module, "command", None), click.Command):
            assert f"{module.__name__}:command" in known, f"add costguard/cli/{file.name} to VERBS of cli/main.py"


def test_unknown_verb_is_a_usage_error() -> None:
    """Exit code 2, as for every wrong usage."""
    done = costguard("stauts")
    assert done.returncode == 2
    assert "stauts" in done.stderr


@pytest.mark.parametrize("verb", [("config", "show"), ("doctor", "--set", "cloud.provider=none")])
def test_a_reader_that_has_gone_gets_no_complaint(verb: Sequence[str], tmp_path: Path) -> None:
    """As in ``costguard doctor | head -1``."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "costguard", *verb, "--state-dir", str(tmp_path)]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_full_disk_is_told_in_words() -> None:
    """No traceback; the exit code says that the answer is not there."""
    command = [sys.executable, "-m", "costguard", "config", "show"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == 3
    assert done.stderr.splitlines()[0] == "error: the output could not be written: No space left on device"
    assert len(done.stderr.splitlines()) == 2


def test_errors_are_two_lines() -> None:
    """An error says what happened, then what to do next; its exit code is kept and no traceback shown."""

    class OneVerb(LazyGroup):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return refuse

    result = CliRunner().invoke(OneVerb("costguard"), ["refuse"])
    assert result.exit_code == 3
    assert result.stderr == "error: too late: the request was sent\nhint: see `costguard status`\n"


@click.command()
def refuse() -> None:
    raise CostguardError("too late: the request was sent", "see `costguard status`", 3)


def test_an_answer_writes_nothing_on_the_screen_of_who_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    """What users and clouds wrote stands in errors and answers: a program gets it as it was, a terminal obeys none of it."""
    foreign = "a\x1b[2J\x9b31m\u202eb"
    with pytest.raises(SystemExit):
        fail(CostguardError(f"refused: {foreign}\n  more", foreign, 3))
    emit("hold", {"words": foreign})
    written = capsys.readouterr()
    assert all(line.isprintable() for line in (written.err + written.out).splitlines())
    assert written.err.splitlines()[1] == "  more"
    assert json.loads(written.out)["words"] == foreign
