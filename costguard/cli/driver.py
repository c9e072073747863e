"""``costguard detach`` and ``costguard attach``: release the GPU driver, and use it again."""

import click

from costguard.cli import reach
from costguard.cli.examples import examples
from costguard.notify.words import sentence


@click.command(epilog=examples("sudo costguard detach"))
@reach.state_dir
def detach(*, state_dir: str | None) -> None:
    """Release the GPU driver, so that it can be unloaded, upgraded or its GPUs reset.

    The agent keeps running, but reads no GPU: all are unknown, so nothing is stopped for being idle, also after a
    restart of the agent, until `costguard attach` or the next boot. For root and the agent's own user.
    """
    _send(state_dir, "detach")


@click.command(epilog=examples("sudo costguard attach"))
@reach.state_dir
def attach(*, state_dir: str | None) -> None:
    """Use the GPU driver again, in a new process that loads the library that is installed now."""
    _send(state_dir, "attach")


def _send(folder: str | None, command: str) -> None:
    click.echo(sentence(reach.change(folder, {"command": command}, hint=f"`sudo costguard {command}`")))
