"""``costguard demo``: a day of a simulated machine, decided by the real agent."""

import sys
from time import strftime

import click

from costguard.cli.examples import examples

INTERRUPTED = 130
"""128 and the number of SIGINT, as shells have it."""


@click.command(epilog=examples("costguard demo", "costguard demo --fast", "costguard demo --fast --json"))
@click.option("--fast", is_flag=True, help="Do not wait between frames.")
@click.option("--json", "as_json", is_flag=True, help="Print the events, one JSON object a line.")
def command(*, fast: bool, as_json: bool) -> None:
    """Watch costguard decide: a simulated machine boots, downloads, trains, crashes and is forgotten.

    It takes about 40 seconds, needs no GPU, no cloud account and no configuration, and reads or changes
    nothing on this computer. Without a terminal it prints plain lines at once.
    """
    try:
        _play(fast=fast, as_json=as_json)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _play(*, fast: bool, as_json: bool) -> None:
    from costguard.cli.invoked import invoked
    from costguard.cli.render import can_move, console
    from costguard.demo.director import Director
    from costguard.demo.lines import Json, Plain

    terminal = console()
    if as_json or not can_move(terminal):
        stage = Json() if as_json else Plain(invoked())
        if not as_json:
            click.echo(
                f"costguard demo: the machine is simulated, the decisions are real. Times are local, {strftime('%Z')}."
            )
        stage.end(Director(stage).play())
        return
    from costguard.demo.ending import ending
    from costguard.demo.screen import WIDEST, Screen

    terminal.width = min(terminal.width, WIDEST)
    with Screen(terminal, paced=not fast) as screen:
        account = Director(screen).play()
    terminal.print(ending(account, invoked()))
