"""``costguard release``: end a hold; as root, every hold, and let the agent watch again."""

import click

from costguard.cli import reach
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.notify.words import sentence


@click.command(epilog=examples("costguard release", "sudo costguard release"))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reach.state_dir
def command(*, as_json: bool, state_dir: str | None) -> None:
    """End your hold on this machine.

    For root and the agent's own user it ends every hold, lets an agent that gave up watch again, and lifts
    the limit on repeated stops. Exit code 3 when there is something to end, and nothing that you may.
    """
    from costguard.cli.render import clean

    words = reach.change(state_dir, {"command": "release"})
    report = reach.status(state_dir)
    if as_json:
        emit("release", {"done": True, "words": words, "sentence": report["sentence"]})
        return
    click.echo(f"{sentence(clean(words))}\n{clean(report['sentence'])}")
