"""``costguard exec``: check the options, and become the launcher of one command."""

import errno
import os
from typing import NoReturn

import click

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

IDLE_CODE = 124
"""Exit code when idle GPUs ended the command: that of timeout(1)."""


def _percent(text: str) -> float:
    """Read a share whose bare number is percent, as in the tool that this flag comes from."""
    return share(text if "%" in text else f"{text}%")


def _aggregate(text: str) -> str:
    if text not in ("all", "any"):
        raise ValueError(f"{text} is not known; allowed: all, any")
    return text


HELP = """\
Run a command, watch the GPUs that it may use, and end it with all its processes when they are idle.

Idle: every reading of the window was below the threshold. A GPU that cannot be read is never idle. Input and output are
the command's own. So is the exit code, except 124 when idle GPUs ended it, 128+n when signal n did, and 126 or 127 when
it could not be run. TERM, INT, HUP and QUIT are passed on; a second one within half a minute ends the whole tree.
"""


@click.command(
    cls=Lenient,
    help=HELP,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
    epilog=examples(
        "costguard exec -- python train.py",
        "costguard exec --threshold 5% --window 10m --delay 2m --signal QUIT -- torchrun train.py",
        "costguard exec -t 50 -s 6 -n 5 -d 3 -x grep foo",
        "costguard exec --dry-run -- ./job.sh",
    ),
)
@click.argument("program", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
@click.option(
    "--threshold",
    callback=as_callback(share),
    metavar="SHARE",
    help="Load below which a GPU is idle: 5%, 0.05 (default: 1%).",
)
@click.option("--interval", "-s", "--sample-freq", callback=as_callback(interval_seconds), metavar="TIME", default="5s", show_default=True, help="Time between two readings.")  # fmt: skip
@click.option("--window", callback=as_callback(values.seconds), metavar="TIME", help="How long every reading must be below it (default: 60 readings, 5m).")  # fmt: skip
@click.option("--delay", callback=as_callback(values.seconds), metavar="TIME", help="Time from the start to the first reading that counts (default: 12 readings, 1m).")  # fmt: skip
@click.option("--aggregate", "-a", "--all-or-any", "--all_or_any", callback=as_callback(_aggregate), metavar="all|any", default="all", show_default=True, help="Idle when all GPUs are, or when any is.")  # fmt: skip
@click.option("--signal", "--signal-name", "number", callback=as_callback(signal_number), metavar="NAME", default="TERM", show_default=True, help="The first signal to the whole tree; with QUIT and faulthandler, Python shows its stacks.")  # fmt: skip
@click.option("--grace", callback=as_callback(values.seconds), metavar="TIME", default="10s", show_default=True, help="Time from that signal to SIGKILL for what is left.")  # fmt: skip
@click.option("--idle-code", type=click.IntRange(0, 255), metavar="NUMBER", default=IDLE_CODE, show_default=True, help="Exit code when the command was ended because it was idle.")  # fmt: skip
@click.option("--require-gpu", is_flag=True, help="Start nothing, and exit with 3, when no GPU can be read.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and end nothing.")
@click.option("--debug", "-x", is_flag=True, help="Show every reading, with its time.")
@click.option("-t", "--threshhold-percentage", "--threshold-percentage", "percentage", callback=as_callback(_percent), metavar="PERCENT", help="The same as --threshold, in percent.")  # fmt: skip
@click.option("-n", "--num-samples", "samples", type=click.IntRange(1), metavar="NUMBER", help="The same as --window, in readings.")  # fmt: skip
@click.option("-d", "--delay-samples", "delayed", type=int, metavar="NUMBER", help="The same as --delay, in readings.")
@click.option("--signal-children", is_flag=True, help="Has no effect: every process of the tree is signalled anyway.")
def command(
    program: tuple[str, ...],
    threshold: float | None,
    percentage: float | None,
    interval: float,
    window: float | None,
    samples: int | None,
    delay: float | None,
    delayed: int | None,
    aggregate: str,
    number: int,
    grace: float,
    idle_code: int,
    *,
    require_gpu: bool,
    dry_run: bool,
    debug: bool,
    signal_children: bool,  # noqa: ARG001 - taken so that old command lines work
) -> None:
    """See `HELP`."""
    from costguard.holders import numbered_as_here
    from costguard.tree.begin import CANNOT_RUN
    from costguard.tree.jobs import Finish, Judgement, LaunchJob

    if not program:
        raise CostguardError(
            "`costguard exec` needs a command",
            "`costguard exec -- python train.py`; beside work that already runs: `costguard run --preset gpu-idle-timeout-any` (docs/switching.md)",
        )
    _only_one(threshold, percentage, "--threshold", "-t")
    _only_one(window, samples, "--window", "-n")
    _only_one(delay, delayed, "--delay", "-d")
    below = percentage if percentage is not None else threshold if threshold is not None else 0.01
    length = window if window is not None else (samples or 60) * interval
    wait = delay if delay is not None else (12 if delayed is None else max(delayed, 0)) * interval
    if length < interval:
        raise CostguardError(
            f"--window {length:g}s is shorter than --interval {interval:g}s, so it would hold no reading",
            "make the window longer, or the interval shorter",
        )
    judgement = Judgement(below, interval, length, wait, aggregate)
    job = LaunchJob(program, judgement, Finish(number, grace), idle_code, require_gpu, dry_run, debug)
    if not numbered_as_here("/proc"):
        _run_unguarded(program, refuse=require_gpu)
    become_launcher(job, "exec", f"{program[0]} was not run", CANNOT_RUN)


def _run_unguarded(program: tuple[str, ...], *, refuse: bool) -> NoReturn:
    """Become the command: where its processes cannot be followed, nobody could end them, or tell them from others'."""
    from costguard.tree.begin import CANNOT_RUN, NOT_FOUND

    if refuse:
        message = f"refused, because --require-gpu is set: {ANOTHER_PROC}; the command was not started"
        raise CostguardError(message, ANOTHER_PROC_HINT, REFUSED)
    click.echo(f"costguard exec: not guarded: {ANOTHER_PROC}; the command runs on, whatever its GPUs do", err=True)
    try:
        os.execvp(program[0], program)  # noqa: S606 - what this verb is for
    except (OSError, ValueError) as error:  # ValueError: an empty name
        number = error.errno if isinstance(error, OSError) else errno.ENOENT
        name = program[0] or "'' (an empty name)"
        code = NOT_FOUND if number == errno.ENOENT else CANNOT_RUN
        raise CostguardError(f"{name} cannot be run: {os.strerror(number or 0)}", exit_code=code) from error


def _only_one(ours: object, theirs: object, name: str, old: str) -> None:
    if ours is not None and theirs is not None:
        raise click.UsageError(f"{name} and {old} mean the same; write one of them")
