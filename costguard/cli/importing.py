"""``costguard import``: make a configuration of costguard from that of another tool."""

import importlib
import os
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.cli.invoked import invoked
from costguard.errors import USAGE, CostguardError

if TYPE_CHECKING:
    from costguard.cli.importers import Imported


class Importer(NamedTuple):
    """A module with `read`, and its line in the overview."""

    module: str
    text: str


IMPORTERS: Mapping[str, Importer] = {
    "gpu-mon": Importer("costguard.cli.importers.gpu_mon", "Background work for `costguard fill`, from a gpu_mon.conf.")
}


@click.group(
    name="import",
    short_help="Take over the configuration of another tool.",
    epilog=examples(
        "costguard import gpu-mon gpu_mon.conf", "costguard import gpu-mon gpu_mon.conf --output fill.toml"
    ),
)
def command() -> None:
    """Make a configuration of costguard from that of another tool, and say what it could not carry over."""


def _verb(name: str, importer: Importer) -> click.Command:
    """The verb of one tool."""

    @click.command(
        name=name,
        help=f"{importer.text}\n\nPrints it, or writes it to --output. What could not be carried over, or means something "
        "else here, is noted in the file and on standard error. When FILE has an error, nothing is written; the exit code is 2.",
        short_help=importer.text,
        epilog=examples(
            f"costguard import {name} {name.replace('-', '_')}.conf",
            f"costguard import {name} {name.replace('-', '_')}.conf --output fill.toml",
            f"costguard import {name} {name.replace('-', '_')}.conf --json",
        ),
    )
    @click.argument("file")
    @click.option("--output", metavar="FILE", help="Write it there. An existing file is left alone.")
    @click.option("--force", is_flag=True, help="Also replace an existing file.")
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    def verb(file: str, output: str | None, *, force: bool, as_json: bool) -> None:
        if force and output is None:
            raise CostguardError("--force means nothing without --output", "name the file to write with --output")
        imported: Imported = importlib.import_module(importer.module).read(os.path.expanduser(file))
        _tell(name, file, imported, output, force=force, as_json=as_json)

    return verb


for _name, _importer in IMPORTERS.items():
    command.add_command(_verb(_name, _importer))


def _tell(tool: str, file: str, imported: "Imported", output: str | None, *, force: bool, as_json: bool) -> None:
    """Print or write what was made of the file."""
    from costguard.cli.fill_file import written
    from costguard.cli.importers import sentences

    told = list(sentences(imported.notes))
    made = f"Background work for `costguard fill --config FILE`, made by `costguard import {tool}` from {file}."
    text = written(imported.file, [made, *[f"{one[0].upper()}{one[1:]}." for one in told]], imported.remarks)
    if output is not None:
        _write(output, text, file, force=force)
    if as_json:
        emit("import", _answer(file, output, text, imported))
        return
    for one in told:
        click.echo(f"note: {one}", err=True)
    if output is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{output} written. Next: `{invoked()} fill --config {shlex.quote(output)} --dry-run`.")


def _answer(file: str, output: str | None, text: str, imported: "Imported") -> dict[str, Any]:
    from costguard.tree.ending import short_name

    fillers, options = imported.file
    work = [
        {**filler._asdict(), "command": list(filler.command), "gpus": list(filler.gpus), "log": filler.log or None}
        for filler in fillers
    ]
    for one in work:
        one["env"] = one.pop("variables")
    return {
        "file": file,
        "output": output,
        "options": {**options, "signal": short_name(options["signal"])},
        "work": work,
        "notes": [note._asdict() for note in imported.notes],
        "text": text,
    }


def _write(path: str, text: str, source: str, *, force: bool) -> None:
    """Write all of it or nothing, as readable as the source is: commands may hold secrets."""
    source = os.path.expanduser(source)
    made = f"{path}.{os.getpid()}.new" if force else path
    try:
        if force and os.path.exists(path):
            _refuse_other(path, source)
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(os.stat(source).st_mode) & 0o666)
    except FileExistsError:
        raise CostguardError(
            f"{path} exists and was left alone", "name another file with --output, or replace it with --force", USAGE
        ) from None
    except OSError as error:
        raise _unwritten(path, error) from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as written:
            written.write(text)
        if force:
            os.replace(made, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(made)
        raise _unwritten(path, error) from error


def _refuse_other(path: str, source: str) -> None:
    """Only a file is replaced, and never the one that was read."""
    if os.path.samefile(path, source) or not os.path.isfile(path):
        what = "the file that is imported" if os.path.isfile(path) else "no file"
        raise CostguardError(f"{path} is {what}, and was left alone", "name another file with --output", USAGE)


def _unwritten(path: str, error: OSError) -> CostguardError:
    return CostguardError(f"{path} cannot be written: {error.strerror}", "name another file with --output", USAGE)
