"""``costguard fill``: check the options, and become the launcher of background work."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from costguard.cli.argparse_spellings import Lenient
from costguard.cli.examples import examples
from costguard.cli.starting import (
    ANOTHER_PROC,
    ANOTHER_PROC_HINT,
    as_callback,
    become_launcher,
    interval_seconds,
    share,
    signal_number,
)
from costguard.config import values
from costguard.errors import REFUSED, CostguardError

if TYPE_CHECKING:
    from costguard.fill.jobs import Filler

OF_WORK = frozenset({"gpus", "together", "directory", "variables", "log"})
"""Options that a file has for each command of its own."""

HELP = """\
Run a command on every GPU that nobody uses, and end it at once when somebody else comes.

A GPU is free when nobody else's process is on it. Where that is unknown, nothing is started. CUDA_VISIBLE_DEVICES tells
the command its GPU. When it must make room, it and all its processes get TERM, and KILL after --grace. TERM, INT or HUP
to costguard ends everything. Exit codes: 0 when told to end, or all work is done, 2 for wrong options, 3 when no GPU can
be used.
"""


def _names(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """Names with commas between them, in one option or several."""
    return tuple([name.strip() for text in given for name in text.split(",") if name.strip()])


def _variables(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    for text in given:
        if not re.match(r"[A-Za-z_]\w*=", text):
            raise click.BadParameter(f"{text} sets no variable; write NAME=VALUE")
        if text.startswith("CUDA_VISIBLE_DEVICES="):
            raise click.BadParameter("costguard sets CUDA_VISIBLE_DEVICES; --gpus chooses the GPUs")
    return dict([text.split("=", 1) for text in given])


def _folder(_context: click.Context, _parameter: click.Parameter, given: str) -> str:
    if not given:
        raise click.BadParameter("it is empty; write a folder, such as /srv/work")
    return given


def named_gpus(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    """GPUs by number or UUID; none for all."""
    names = _names(context, parameter, given)
    if given and not names:
        raise click.BadParameter("it names no GPU; write numbers or UUIDs, or all")
    return () if tuple(name.lower() for name in names) == ("all",) else names


@click.command(
    cls=Lenient,
    help=HELP,
    context_settings={"allow_interspersed_args": False},
    epilog=examples(
        "costguard fill -- ./work --all",
        "costguard fill --together --once --log work.log -- python sweep.py",
        "costguard fill --gpus 0,1 --interval 0.5s --grace 1s -- ./work",
        "costguard fill --users 5m --ignore-users backup -- ./work",
        "costguard fill --dry-run -- ./work",
        "costguard fill --config gpu_mon.conf",
        "costguard fill --config fill.toml --dry-run",
    ),
)
@click.argument("program", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option("--gpus", multiple=True, callback=named_gpus, metavar="LIST", help="Numbers or UUIDs of the GPUs (default: all that may be used).")  # fmt: skip
@click.option("--together", is_flag=True, help="One process for all of these GPUs, while all of them are free; else one for each.")  # fmt: skip
@click.option(
    "--directory",
    callback=_folder,
    metavar="FOLDER",
    default=".",
    help="Where the command starts; {gpu} becomes the number.",
)
@click.option("--env", "variables", multiple=True, callback=_variables, metavar="NAME=VALUE", help="A variable to add to this environment.")  # fmt: skip
@click.option("--log", metavar="FILE", default="", help="Append the command's output to it; {gpu} becomes the number.")
@click.option("--once", is_flag=True, help="Do not repeat what ended with 0; end when all is done.")
@click.option("--by", type=click.Choice(["processes", "load"]), help="What counts as in use: processes on the GPU, or its load (default: processes).")  # fmt: skip
@click.option("--threshold", callback=as_callback(share), metavar="SHARE", help="With --by load: below it a GPU is not used (default: 5%).")  # fmt: skip
@click.option("--ignore", multiple=True, callback=_names, metavar="NAMES", help="Programs whose use of a GPU does not count, by exact name.")  # fmt: skip
@click.option("--users", callback=as_callback(values.seconds), metavar="TIME", help="Yield while somebody has typed on a terminal within this time (default: off).")  # fmt: skip
@click.option(
    "--ignore-users", multiple=True, callback=_names, metavar="NAMES", help="Users whose terminals do not count."
)
@click.option(
    "--interval", callback=as_callback(interval_seconds), metavar="TIME", help="Time between two looks (default: 1s)."
)
@click.option("--idle-for", callback=as_callback(values.seconds), metavar="TIME", default="10s", show_default=True, help="How long a GPU must be free before the work begins.")  # fmt: skip
@click.option("--rest", callback=as_callback(values.seconds), metavar="TIME", default="30s", show_default=True, help="The shortest wait before work begins again where it had to yield.")  # fmt: skip
@click.option("--unknown-for", callback=as_callback(values.seconds), metavar="TIME", default="10s", show_default=True, help="The work yields when a GPU cannot be judged for longer than this.")  # fmt: skip
@click.option("--retry", callback=as_callback(values.seconds), metavar="TIME", default="5s", show_default=True, help="Pause after work that ended within a minute; doubled each time, up to 5m.")  # fmt: skip
@click.option("--signal", "--signal-name", "number", callback=as_callback(signal_number), metavar="NAME", default="TERM", show_default=True, help="The first signal to the whole tree.")  # fmt: skip
@click.option("--grace", callback=as_callback(values.seconds), metavar="TIME", default="5s", show_default=True, help="Time from that signal to SIGKILL for what is left.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check the work, say what would begin on each GPU, and end.")
@click.option(
    "--config",
    "-c",
    "--conf",
    metavar="FILE",
    help="Take work and options from this file instead: .toml, or else the configuration of gpu_mon.",
)
@click.pass_context
def command(context: click.Context, /, program: tuple[str, ...], config: str | None, **options: Any) -> None:
    """See `HELP`."""
    from costguard.fill.jobs import Filler, FillJob, Patience, WatchRules
    from costguard.holders import numbered_as_here
    from costguard.tree.jobs import Finish

    if config is not None:
        fillers = _from_file(config, context, program, options)
    elif not program:
        raise CostguardError("`costguard fill` needs a command", "`costguard fill -- ./work`")
    elif not program[0]:
        raise CostguardError("the name of the command is empty", "`costguard fill -- ./work`")
    else:
        own = {name: options[name] for name in OF_WORK}
        fillers = (Filler(program, **own),)
    if options["threshold"] is not None and options["by"] != "load":
        raise CostguardError("--threshold means nothing without --by load", "add --by load, or leave it out")
    users = options["users"] or 0.0
    if options["ignore_users"] and not users:
        raise CostguardError("--ignore-users means nothing without --users", "add --users 5m, or leave it out")
    look = WatchRules(
        options["interval"] or 1.0,
        options["by"] or "processes",
        options["threshold"] or 0.05,
        options["ignore"],
        users,
        options["ignore_users"],
    )
    patience = Patience(options["idle_for"], options["rest"], options["unknown_for"], options["retry"], options["once"])
    job = FillJob(fillers, patience, look, Finish(options["number"], options["grace"]), options["dry_run"])
    if not numbered_as_here("/proc"):
        raise CostguardError(f"{ANOTHER_PROC}; nothing was run", ANOTHER_PROC_HINT, REFUSED)
    become_launcher(job, "fill", "nothing was run", 1)


def _from_file(
    path: str, context: click.Context, program: Sequence[str], options: dict[str, Any]
) -> tuple["Filler", ...]:
    """The work of a file; its options count where the command line names none."""
    from costguard.cli import fill_file
    from costguard.cli.importers import gpu_mon, sentences

    typed = {name for name in options if context.get_parameter_source(name) is not ParameterSource.DEFAULT}
    if program or typed & OF_WORK:
        raise CostguardError("with --config the work comes from the file", "leave out the command and its options")
    path = os.path.expanduser(path)
    if path.endswith(".toml"):
        found = fill_file.read(path)
    else:
        found, notes, _remarks = gpu_mon.read(path)
        for text in sentences(notes):
            click.echo(f"costguard fill: {text}", err=True)
    options |= {fill_file.parameter(name): value for name, value in found.options.items() if fill_file.parameter(name) not in typed}  # fmt: skip
    if not options["users"] and "users" in typed:  # who says that no key counts, means nobody's
        options["ignore_users"] = ()
    return found.fillers
