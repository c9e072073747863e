"""``costguard status``: why the machine is still up, what would stop it and when, and who can change that."""

import time

import click

from costguard.cli import idle_cost, reach, zone
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.errors import CostguardError


@click.command(epilog=examples("costguard status", "costguard status --watch", "costguard status --json"))
@click.option("--json", "as_json", is_flag=True, help="Print the agent's report as one JSON object.")
@click.option("--watch", is_flag=True, help="Keep showing it until Ctrl-C.")
@click.option(
    "--every", default=2.0, show_default=True, type=click.FloatRange(0.1, 3600.0), metavar="SECONDS",
    help="How often --watch updates.",
)  # fmt: skip
@reach.state_dir
def command(*, as_json: bool, watch: bool, every: float, state_dir: str | None) -> None:
    """Show why this machine is still up, what would stop it and when, and who can change that.

    Exit code 3 when no agent answers.
    """
    if watch:
        _watch(state_dir, every, as_json=as_json)
        return
    report = _asked(state_dir)
    if as_json:
        emit("status", idle_cost.with_cost(report))
        return
    from costguard.cli.render import console, show
    from costguard.cli.status_view import view

    screen = console()
    show(screen, view(report, screen))


def _asked(state_dir: str | None) -> dict[str, object]:
    """The agent's report, and from then on its zone."""
    report = reach.status(state_dir)
    zone.adopt(report)
    return report


def _watch(state_dir: str | None, every: float, *, as_json: bool) -> None:
    """Poll the agent. It must answer the first time; later, a silence is shown and waited out."""
    from costguard.cli.render import can_move, console

    screen = console()
    report = _asked(state_dir)
    try:
        if as_json or not can_move(screen):
            _lines(report, state_dir, every, as_json=as_json)
        else:
            _screen(report, state_dir, every)
    except KeyboardInterrupt:
        return  # the ordinary way to end it


def _lines(report: dict[str, object], state_dir: str | None, every: float, *, as_json: bool) -> None:
    """Outside a terminal: one line for every new sentence, or JSON for every answer."""
    before = ""
    while True:
        sentence = str(report.get("sentence"))
        if as_json:
            emit("status", idle_cost.with_cost(report), lines=True)
        elif sentence != before:
            click.echo(sentence)
            before = sentence
        time.sleep(every)
        report = _asked(state_dir)


def _screen(report: dict[str, object], state_dir: str | None, every: float) -> None:
    from rich.live import Live

    from costguard.cli.render import clean, console
    from costguard.cli.watch_view import screenful

    screen = console()
    hint = f"updated every {every:g} s · Ctrl-C ends this view, not the agent"
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screenful(report, screen, hint), refresh=True)
            time.sleep(every)
            try:
                report = _asked(state_dir)
            except CostguardError as error:
                lost = f"NO ANSWER: {clean(error.message)}; the view below is old\n"
                live.update(screenful(report, screen, hint, lost), refresh=True)
                time.sleep(every)
