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
from costguard.errors import REFUSED, CostguardError


class Verb(NamedTuple):
    """Where a verb lives (``module:command``) and its line in the overview."""

    target: str
    text: str


VERBS: Mapping[str, Verb] = {
    "run": Verb("costguard.cli.run:command", "Guard this machine."),
    "status": Verb("costguard.cli.status:command", "Say why the machine is still up, and what would stop it."),
    "history": Verb(
        "costguard.cli.history:command", "Show what was seen and done: the hours of each day, and every incident."
    ),
    "doctor": Verb(
        "costguard.cli.doctor:command", "Say whether this machine is guarded, and what to do where it is not."
    ),
    "hold": Verb("costguard.cli.hold:command", "Postpone an action: costguard hold 2h."),
    "release": Verb("costguard.cli.release:command", "End a hold early."),
    "stop": Verb("costguard.cli.stop:command", "End this machine now; or ask its cloud whether the bill has ended."),
    "permissions": Verb(
        "costguard.cli.permissions:command", "Print the rights that a cloud action needs, and the least policy."
    ),
    "notify": Verb("costguard.cli.notify:command", "Send a test message over every channel."),
    "detach": Verb("costguard.cli.driver:detach", "Let go of the driver, so that it can be exchanged."),
    "attach": Verb("costguard.cli.driver:attach", "Take the driver up again."),
    "demo": Verb("costguard.cli.demo:command", "Watch it decide, without a GPU or a cloud account."),
    "replay": Verb("costguard.cli.replay:command", "Say what it would have decided on a recording."),
    "record": Verb("costguard.cli.record:command", "Write a recording of this machine's GPUs."),
    "config": Verb("costguard.cli.config:command", "Write, check or show the configuration."),
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
        """Read the options before the verb, and keep everything that was written for `invoke`."""
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
            _let_go()
            place = error.filename or "the output"
            fail(
                CostguardError(
                    f"{place} could not be written: {error.strerror}", "make room, then run it again", REFUSED
                )
            )


def _let_go() -> None:
    """What waits for standard output is dropped: at the end of the process it would fail a second time."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _explain(error: click.UsageError, written: Sequence[str]) -> NoReturn:
    """End with words about wrong usage, or with click's own page."""
    from costguard.cli.wrong import explain

    if (words := explain(error, written)) is None:
        raise error
    fail(words)


def fail(error: CostguardError) -> NoReturn:
    """Print what happened and what to do next; end with the error's exit code."""
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    raise SystemExit(error.exit_code)


@click.group(name="costguard", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="costguard", message="%(prog)s %(version)s")
def main() -> None:
    """Stop GPU machines that earn nothing any more, and never stop work.

    It starts in dry run: messages say what would be done, and nothing is stopped until the mode is live.
    """
