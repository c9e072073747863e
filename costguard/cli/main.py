"""The ``costguard`` command: a group whose verbs are imported only when they are used."""

import errno
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import click

from costguard import __version__
from costguard.cli.examples import examples
from costguard.errors import REFUSED, CostguardError


class VerbLine(NamedTuple):
    """Where a verb lives (``module:command``) and its line in the overview."""

    target: str
    text: str


VERBS: Mapping[str, VerbLine] = {
    "run": VerbLine("costguard.cli.run:command", "Guard this machine."),
    "exec": VerbLine("costguard.cli.exec:command", "Run one command, and end it when its GPUs are idle."),
    "fill": VerbLine("costguard.cli.fill:command", "Run background work on GPUs that nobody uses."),
    "stress": VerbLine("costguard.cli.stress:command", "Put a load on GPUs, and see how warm they get."),
    "status": VerbLine("costguard.cli.status:command", "Show why the machine is still up, and what would stop it."),
    "history": VerbLine("costguard.cli.history:command", "Show the hours of each day and every incident."),
    "doctor": VerbLine(
        "costguard.cli.doctor:command", "Check whether this machine is guarded, and say what is missing."
    ),
    "hold": VerbLine("costguard.cli.hold:command", "Postpone a stop: costguard hold 2h."),
    "release": VerbLine("costguard.cli.release:command", "End a hold early."),
    "stop": VerbLine("costguard.cli.stop:command", "Stop this machine now, or check whether its bill has ended."),
    "install": VerbLine("costguard.cli.install:install", "Install costguard as a service of this machine."),
    "uninstall": VerbLine("costguard.cli.install:uninstall", "Undo what `install` did."),
    "permissions": VerbLine("costguard.cli.permissions:command", "Print the rights that a cloud action needs."),
    "notify": VerbLine("costguard.cli.notify:command", "Send a test message over every channel."),
    "detach": VerbLine("costguard.cli.driver:detach", "Release the GPU driver, so that it can be upgraded."),
    "attach": VerbLine("costguard.cli.driver:attach", "Use the GPU driver again."),
    "demo": VerbLine("costguard.cli.demo:command", "Watch it decide, without a GPU or a cloud account."),
    "replay": VerbLine("costguard.cli.replay:command", "Show what it would have decided on a recording."),
    "record": VerbLine("costguard.cli.record:command", "Record what this machine's GPUs do."),
    "config": VerbLine("costguard.cli.config:command", "Write, check or show the configuration."),
    "import": VerbLine("costguard.cli.importing:command", "Take over the configuration of another tool."),
}
"""The overview is printed from this table, so that it costs no import."""


class LazyGroup(click.Group):
    """Knows its verbs by name and imports the one that is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the interface of click
        """The verbs of this installation, in the order of the table."""
        return [name for name, verb in VERBS.items() if importlib.util.find_spec(verb.target.partition(":")[0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb; None when there is none of that name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, attribute = VERBS[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # the table names commands only
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name].text) for name in self.list_commands(ctx)])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the options before the verb, and keep the whole command line for `invoke`."""
        written = list(args)
        try:
            context = super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            _explain(error, written)
        context.obj = written
        return context

    def invoke(self, ctx: click.Context) -> object:
        """Run the verb; an error for people is printed as such and becomes the exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            _explain(error, ctx.obj or ())
        except CostguardError as error:
            fail(error)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            _drop_output()
            message = f"{error.filename or 'the output'} could not be written: {error.strerror}"
            fail(CostguardError(message, "free some space, then run it again", REFUSED))


def _drop_output() -> None:
    """Drop what waits for standard output; it would fail again when the process ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _explain(error: click.UsageError, written: Sequence[str]) -> NoReturn:
    """Explain wrong usage, or leave it to click's own page."""
    from costguard.cli.wrong import explain

    if (explained := explain(error, written)) is None:
        raise error
    fail(explained)


def fail(error: CostguardError) -> NoReturn:
    """Print what happened and what to do next; end with the error's exit code."""
    from costguard.cli.answer import printable

    click.echo(f"error: {printable(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {printable(error.hint)}", err=True)
    raise SystemExit(error.exit_code)


@click.group(
    name="costguard",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "costguard demo",
        "costguard doctor",
        "sudo costguard install --dry-run",
        "costguard status --watch",
        "costguard hold 2h",
    ),
)
@click.version_option(__version__, prog_name="costguard", message="%(prog)s %(version)s")
def main() -> None:
    """Stop idle GPU machines, and never stop work.

    It starts in dry run: messages say what would happen, and nothing is stopped until the mode is live.
    """
