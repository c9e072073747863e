"""``costguard release``: end every hold."""

import json

import click

from costguard.agent.client import login
from costguard.cli import reach
from costguard.errors import REFUSED, CostguardError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reach.state_dir
def command(*, as_json: bool, state_dir: str | None) -> None:
    """End every hold on this machine, and let an agent that has given up watch again.

    It also lifts the limit on repeated stops. Exit code 3 when it is refused.
    """
    answer = reach.change(state_dir, {"command": "release", "user": login()})
    if not answer.get("done"):
        raise CostguardError(str(answer.get("words")), "see `costguard status` for what happens now", REFUSED)
    report = reach.request(state_dir, {"command": "status"})
    if as_json:
        words = {"done": True, "words": answer["words"], "sentence": report["sentence"]}
        click.echo(json.dumps(words, ensure_ascii=False, indent=2))
        return
    done = "Nothing was held." if answer["words"] == "nothing was held" else "Released; the rules apply again."
    click.echo(f"{done}\n{report['sentence']}")
