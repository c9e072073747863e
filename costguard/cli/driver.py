"""``costguard detach`` and ``costguard attach``: let go of the GPU driver, and take it up again."""

import click

from costguard.cli import reach
from costguard.errors import REFUSED, CostguardError


@click.command()
@reach.state_dir
def detach(*, state_dir: str | None) -> None:
    """Let go of the driver, so that it can be unloaded, upgraded or its GPUs reset.

    The agent goes on without reading any GPU: they are unknown, so nothing is stopped for being idle, also after a
    restart of the agent, until `costguard attach` or the next boot. For root and the user whom the agent runs as.
    """
    _tell(state_dir, "detach")


@click.command()
@reach.state_dir
def attach(*, state_dir: str | None) -> None:
    """Take the driver up again, in a fresh process that loads whatever library is there now."""
    _tell(state_dir, "attach")


def _tell(folder: str | None, command: str) -> None:
    answer = reach.change(folder, {"command": command})
    if not answer.get("done"):
        raise CostguardError(str(answer.get("words")), f"`sudo costguard {command}`", REFUSED)
    words = str(answer["words"])
    click.echo(f"{words[:1].upper()}{words[1:]}.")
