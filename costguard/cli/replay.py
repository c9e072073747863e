"""``costguard replay``: what a policy would have decided on a recording."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from costguard.cli.answer import emit, printable
from costguard.cli.examples import examples
from costguard.errors import CostguardError
from costguard.money import given

if TYPE_CHECKING:
    from costguard.config.load import LoadedConfiguration
    from costguard.engine.policy import Policy
    from costguard.replay.run import Ignored
    from costguard.replay.show import PolicyRun
    from costguard.replay.trace import Recording

NEXT_SETTING = re.compile(r"[\s,;]+(?=[a-z_]+(?:\.[a-z_]+)*\s*=)")
"""Between two settings: ``grace=5m, kill_duration=2h``."""

PRICE_SETTINGS = ("price_per_hour", "currency")
"""The options that ``--price`` stands for."""

MANY = 20
"""With more machines the time line is left out."""

BIG_BYTES = 4 << 20
"""Size from which progress is shown."""


class NamedPolicy(NamedTuple):
    """A policy and its label; ``ignored``: what of recorded senses does not count under it."""

    label: str
    policy: "Policy"
    ignored: "Ignored"


@click.command(
    epilog=examples(
        "costguard replay night.csv",
        "costguard replay night.csv --policy kill_duration=2h --policy preset:gpu-sentinel",
        "costguard replay night.csv --preset gpu-sentinel --price '2.50 EUR' --no-timeline",
    )
)
@click.argument("names", nargs=-1, required=True, metavar="FILE…")
@click.option(
    "--policy", "specs", multiple=True, metavar="POLICY",
    help="A file.toml, preset:NAME, or settings such as 'kill_duration=2h, grace=5m'. Several policies are compared.",
)  # fmt: skip
@click.option("--config", metavar="FILE", help="Read this file instead of /etc/costguard/config.toml.")
@click.option("--preset", metavar="NAME", help="Start from a preset, such as gpu-sentinel.")
@click.option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Set one option, in every policy: grace=5m."
)
@click.option(
    "--price", metavar="AMOUNT", help="Price of an hour, such as 2.50 or '2.50 EUR': shows money beside hours."
)
@click.option("--machine-column", "machine", metavar="NAME", help="The column with the name of the machine.")
@click.option(
    "--columns", metavar="NAMES",
    help="Names for the columns of a table without a header (a dash skips one), or OURS=THEIRS to rename some.",
)  # fmt: skip
@click.option(
    "--scale",
    type=click.FloatRange(0.0, min_open=True),
    metavar="NUMBER",
    help="Multiply loads by this: 100 for shares of 1.",
)
@click.option(
    "--reader", type=click.Choice(["auto", "standard", "fast"]), default="auto", show_default=True,
    help="How to read CSV; fast needs the extra of that name.",
)  # fmt: skip
@click.option("--every-sample", is_flag=True, help="Run the engine on every sample: slow, with the same decisions.")
@click.option("--no-timeline", is_flag=True, help="Print only the numbers: much faster for many machines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    names: tuple[str, ...],
    specs: tuple[str, ...],
    config: str | None,
    preset: str | None,
    assignments: tuple[str, ...],
    price: str | None,
    machine: str | None,
    columns: str | None,
    scale: float | None,
    reader: str,
    *,
    every_sample: bool,
    no_timeline: bool,
    as_json: bool,
) -> None:
    """Show what costguard would have decided on the recording FILE (a dash for standard input), or on every recording in a folder.

    FILE is a recording of `costguard record`, the output of nvidia-smi --query-gpu=timestamp,index,utilization.gpu
    --format=csv, a table of an exporter (CSV, Parquet), or the JSON answer of a Prometheus server to query_range; it may
    be compressed with gzip. Nothing is stopped: every policy is replayed in dry run.
    """
    from costguard.replay import show
    from costguard.replay.caveats import caveats
    from costguard.replay.formats import files
    from costguard.replay.formats.table import Options

    base: dict[str, object] = {"config": config, "preset": preset, "set": [*assignments, *_priced(price)]}
    policies = [_policy(spec, base, priced=price is not None) for spec in specs] or [
        _load(preset or "the configuration", base)
    ]
    with files.uncollected(), _progress(names, len(policies)) as (reading, deciding):
        recording = files.read_all(names, Options(machine, columns, scale), reader, reading)
        for note in recording.notes:
            click.echo(printable(f"note: {note}"), err=True)
        read = not no_timeline and (as_json or len(recording.traces) <= MANY)
        results = _decide(recording, _distinct(policies), deciding, every_sample=every_sample, read=read)
    notes = [*caveats(results), *_unheeded(recording, policies)]
    for note in notes:
        click.echo(printable(f"warning: {note}"), err=True)
    if as_json:
        emit("replay", show.as_json(names, recording, results, [*recording.notes, *notes], timeline=not no_timeline))
        return
    for line in _report(_title(names), recording, results, timeline=not no_timeline):
        click.echo(printable(line))


def _unheeded(recording: "Recording", policies: "Sequence[NamedPolicy]") -> Iterator[str]:
    """The senses of the recording that a policy has switched off."""
    recorded = {veto.source for trace in recording.traces for seen in trace.vetoes for veto in seen.vetoes}
    for named in policies:
        if off := sorted(recorded & named.ignored.senses):
            yield f"{named.label}: {', '.join(off)} recorded, but switched off here, so what was seen keeps nothing up"


def _priced(price: str | None) -> list[str]:
    """The settings that ``--price`` stands for, in every policy."""
    if price is None:
        return []
    try:
        rate = given(price)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return [f"price_per_hour={rate.per_hour}", f"currency={rate.currency}"]


def _title(names: Sequence[str]) -> str:
    """What was read, for a heading."""
    if len(names) > 1:
        return f"{len(names)} files and folders"
    if names[0] == "-" or names[0].startswith(("/dev/", "/proc/")):  # a name without meaning
        return "standard input" if names[0] in {"-", "/dev/stdin"} else names[0]
    return os.path.basename(os.path.normpath(names[0]))


def _decide(
    recording: "Recording",
    policies: Sequence[NamedPolicy],
    progress: Callable[[float], None],
    *,
    every_sample: bool,
    read: bool,
) -> "list[PolicyRun]":
    """Every policy on every machine; ``read``: with the time line."""
    from costguard.replay.compare import compare
    from costguard.replay.show import PolicyRun

    traces = recording.traces
    rules, ignored = [named.policy for named in policies], [named.ignored for named in policies]
    found = compare(traces, rules, progress, ignored=ignored, every_sample=every_sample, read=read)
    return [
        PolicyRun(named.label, trace, *found[i, j])
        for i, trace in enumerate(traces)
        for j, named in enumerate(policies)
    ]


def _report(title: str, recording: "Recording", results: "Sequence[PolicyRun]", *, timeline: bool) -> Iterator[str]:
    from costguard.replay import show
    from costguard.replay.levels import Levels
    from costguard.replay.picture import picture

    yield from show.heading(title, recording)
    labels = list(dict.fromkeys(result.label for result in results))
    single = len(recording.traces) == 1
    if timeline and len(recording.traces) <= MANY:
        for result in results:
            named = f" under {result.label}" if len(labels) > 1 else ""
            of = f" of {result.trace.name}" if not single else ""
            yield f"\nDecisions{of}{named}"
            yield from map(show.line, result.decisions)
    elif timeline:
        yield f"(no time line for {len(recording.traces)} machines; --json has them)"
    if single and sys.stdout.encoding.lower().startswith("utf"):
        yield ""
        yield from picture(Levels(recording.traces[0]), results[:8])
    yield "\nWhat happened next (dry run: nothing was stopped)"
    yield from show.table(results)
    yield from show.fleet_words(results)
    if spared := list(show.senses(results)):
        yield "\nWhat each sense alone was worth (no recording shows what people did without a GPU)"
        yield from spared


def _policy(spec: str, base: dict[str, object], *, priced: bool) -> NamedPolicy:
    """One ``--policy``: a file, a preset, or settings, on top of the other options. ``priced``: these name a price."""
    from costguard.config.load import ConfigurationError

    try:
        return _understood(spec, base, priced=priced)
    except ConfigurationError as error:
        message = "\n  ".join([f"the policy {spec!r} cannot be replayed:", *error.problems])
        raise CostguardError(message, "`costguard config show` lists all options") from None


def _understood(spec: str, base: dict[str, object], *, priced: bool) -> NamedPolicy:
    if spec.startswith("preset:"):
        return _load(spec, {**base, "preset": spec.removeprefix("preset:")})
    if "=" in spec:
        given, own = base["set"], NEXT_SETTING.split(spec.strip())
        assert isinstance(given, list)  # built in command()
        if priced and any(setting.partition("=")[0].strip() in PRICE_SETTINGS for setting in own):
            raise click.UsageError(f"the policy {spec!r} names a price, and so does --price; allowed: one of them")
        return _load(spec, {**base, "set": [*given, *own]})
    if not os.path.exists(spec):
        hint = "a policy is a file.toml, preset:NAME, or settings such as kill_duration=2h"
        raise CostguardError(f"the policy {spec!r} is not a file", hint)
    return _load(os.path.basename(spec), {**base, "config": spec})


def _load(label: str, arguments: dict[str, object]) -> NamedPolicy:
    from costguard.config.effective import policy
    from costguard.config.load import load
    from costguard.engine.policy import Policy

    # a replay runs nothing, so a preset whose action is a command needs none; its mode is dry-run
    given = arguments["set"]
    assert isinstance(given, list)  # built in command()
    loaded = load({**arguments, "mode": "dry-run", "set": [*given, "actions.command.run=true"]}, os.environ)
    fields = policy(loaded.settings)
    allowed = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    rules = Policy(**allowed)  # type: ignore[arg-type]  # the validated configuration has the types that Policy names
    return NamedPolicy(label, rules, _ignored(loaded))


def _ignored(loaded: "LoadedConfiguration") -> "Ignored":
    """Senses that the configuration switches off, and those that need not see; what nobody wrote is as it was recorded."""
    from costguard.config.effective import switched_off, unneeded
    from costguard.replay.run import Ignored

    return Ignored(switched_off(loaded), unneeded(loaded))


def _distinct(policies: Sequence[NamedPolicy]) -> list[NamedPolicy]:
    """Two policies of one name are numbered."""
    labels = [named.label for named in policies]
    return [
        named if labels.count(named.label) == 1 else named._replace(label=f"{named.label} ({number})")
        for number, named in enumerate(policies, 1)
    ]


@contextmanager
def _progress(
    names: Sequence[str], policies: int
) -> Iterator[tuple[Callable[[int], None] | None, Callable[[float], None]]]:
    """Two bars on standard error, on a terminal and for long work."""
    from costguard.replay.formats.files import size_of

    size = sum(map(size_of, names))
    if not sys.stderr.isatty() or (size < BIG_BYTES and policies < MANY):
        yield None, lambda _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    # without a drawing thread: this process forks for the second core
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bars:
        reading = bars.add_task("reading", total=size or None)
        deciding = bars.add_task("deciding", total=1.0)

        def read(count: int) -> None:
            bars.update(reading, completed=count, refresh=True)

        def decided(share: float) -> None:
            bars.update(reading, completed=size)
            bars.update(deciding, completed=share, refresh=True)

        yield read, decided
