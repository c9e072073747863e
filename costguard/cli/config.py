"""``costguard config``: write, check and show the configuration."""

import os
import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from costguard.cli import options
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cli.invoked import invoked
from costguard.config.paths import DEFAULT_CONFIG
from costguard.errors import USAGE, CostguardError

if TYPE_CHECKING:
    from costguard.config.schema import Settings


@click.group(
    name="config",
    short_help="Write, check or show the configuration.",
    epilog=examples("sudo costguard config init", "costguard config check", "costguard config show"),
)
def command() -> None:
    """Write a first configuration, check one, or show the effective values."""


@command.command(
    short_help="Write a first configuration file.",
    epilog=examples(
        "sudo costguard config init",
        "costguard config init --path costguard.toml --full",
        "costguard config init --path costguard.toml --preset gpu-sentinel",
    ),
)
@click.option("--path", default=DEFAULT_CONFIG, show_default=True, metavar="FILE", help="Where to write.")
@click.option("--preset", default="none", metavar="NAME", help="Start from a preset, such as gpu-sentinel.")
@click.option("--full", is_flag=True, help="Every option with its default and what is allowed, commented out.")
def init(path: str, preset: str, *, full: bool) -> None:
    """Write a short configuration file: mode, action, price and one channel. An existing file is never overwritten."""
    from costguard.config.presets import PRESETS
    from costguard.config.sample import sample, short

    if preset not in PRESETS:
        raise CostguardError(f"there is no preset {preset!r}", f"choose one of: {', '.join(PRESETS)}")
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o755, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        raise CostguardError(
            f"{path} exists and was left alone",
            f"check it with `costguard config check {path}`, or name another file with --path",
        ) from None
    except OSError as error:
        raise CostguardError(
            f"{path} cannot be written: {error.strerror}", "run it with sudo, or name a file of your own with --path"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o644)  # whatever the umask: the agent and every user may read it
        file.write(sample(preset) if full else short(preset))
    click.echo(f"{path} written. Next: edit it, then `{invoked()} config check {shlex.quote(path)}`.")


@command.command(
    short_help="Report every problem at once, or explain what it will do.",
    epilog=examples(
        "costguard config check",
        "costguard config check costguard.toml",
        "costguard config check costguard.toml --live",
    ),
)
@click.argument("file", required=False)
@options.configuration
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(arguments: options.Arguments, file: str | None, *, as_json: bool) -> None:
    """Check FILE (or what `run` would read) and explain what it will do.

    Every problem is reported at once; the exit code is then 2. A channel without an address that can be used is a warning, as is a
    program, user or file that is not on this machine: the file may be right, and meant for another one. Nothing is sent; `costguard notify test` does that.
    """
    from costguard.config.addresses import no_warnings
    from costguard.config.here import absent
    from costguard.config.load import ConfigurationError, load
    from costguard.config.show import origin
    from costguard.config.summary import channel_warnings, summary
    from costguard.notify.usable import troubles

    if file and arguments["config"] not in (None, file):
        raise click.UsageError("FILE and --config are both given")
    try:
        given = {**arguments, "config": file or arguments["config"]}
        loaded = load(given, os.environ, run_by=os.geteuid())
    except ConfigurationError as error:
        if not as_json:
            hint = (
                f"correct {'it' if len(error.problems) == 1 else 'them'}, then run it again; "
                "`costguard config init --full --path FILE` writes every option down"
            )
            raise CostguardError(error.message, hint, USAGE) from None
        emit("config-check", {"ok": False, "errors": error.problems})
        raise SystemExit(USAGE) from None
    channels = loaded.settings.notify.model_dump(mode="json")["channels"]
    lacking, unwarned = troubles(channels), no_warnings(channels)
    about = [*summary(loaded.settings, lacking), *channel_warnings(lacking)]
    if unwarned:
        about.append(f'Warning: {unwarned}. It needs level "warning" or "info", or "warning" in kinds.')
    gone = [f"Warning: {one.words}." for one in absent(loaded.settings)]
    sentences = [*about, *gone, *_passed(loaded.settings, time.time())]
    if as_json:
        emit("config-check", {"ok": True, "file": loaded.source, "files": list(loaded.files), "summary": sentences})
        return
    valid = "Valid, with warnings" if unwarned or gone or any(lack.certain for lack in lacking) else "OK"
    click.echo(f"{valid}: {origin(loaded)}\n")
    click.echo("\n".join(sentences))


def _passed(settings: "Settings", now: float) -> Iterator[str]:
    """A lease in the past is not an error, because the agent must still start; people should know."""
    lease = settings.deadline.lease
    if lease is not None and lease <= now:
        from costguard.config.values import show_local

        yield f"Note: deadline.lease ({show_local(lease)}) has passed: the deadline applies at once."


@command.command(
    short_help="Print the effective values, each with its source.",
    epilog=examples("costguard config show", "costguard config show --config costguard.toml --json"),
)
@options.configuration
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(arguments: options.Arguments, *, as_json: bool) -> None:
    """Print the effective values, each with its source; secrets are masked."""
    from costguard.config import show as shown
    from costguard.config.load import load

    loaded = load(arguments, os.environ)
    if as_json:
        emit("config-show", shown.as_json(loaded))
    else:
        click.echo(shown.as_toml(loaded), nl=False)
