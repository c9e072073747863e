"""``costguard release``: end a hold; as root, all of them and what is latched."""

import click

from costguard.cli import reach
from costguard.cli.answer import emit
from costguard.errors import REFUSED, CostguardError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reach.state_dir
def command(*, as_json: bool, state_dir: str | None) -> None:
    """End your hold on this machine.

    Root, and the user whom the agent runs as, end every hold, let an agent that has given up watch again, and lift
    the limit on repeated stops. Exit code 3 when there is nothing that you may end.
    """
    from costguard.cli.render import clean

    answer = reach.change(state_dir, {"command": "release"})
    if not answer.get("done"):
        raise CostguardError(str(answer.get("words")), "see `costguard status` for what happens now", REFUSED)
    report = reach.request(state_dir, {"command": "status"})
    if as_json:
        emit("release", {"done": True, "words": answer["words"], "sentence": report["sentence"]})
        return
    words = clean(str(answer["words"]))
    click.echo(f"{words[:1].upper()}{words[1:]}.\n{clean(report['sentence'])}")
