"""``costguard hold``: postpone a stop."""

import os
from typing import Any

import click

from costguard.cli import reach
from costguard.cli.answer import emit
from costguard.config.values import spoken_seconds

REASON_LENGTH = 200
"""Characters of a reason that the agent keeps."""


def _length(_context: click.Context, _parameter: click.Parameter, value: str) -> float:
    """A time above zero with its unit (10m, 2h, 1h30m, 1d) in seconds; anything else is a usage error."""
    try:
        length = spoken_seconds(value)
        why = f"{value!r} is not a time to hold"
    except ValueError as error:
        length, why = 0.0, str(error)
    if length <= 0:
        raise click.BadParameter(f"{why}; write a time such as 30m, 2h or 1d")
    return length


@click.command()
@click.argument("duration", callback=_length)
@click.option("--reason", default="", metavar="TEXT", help="Why; others see it beside your name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reach.state_dir
def command(*, duration: float, reason: str, as_json: bool, state_dir: str | None) -> None:
    """Keep this machine up for DURATION (30m, 2h, 1h30m, 1d), whatever the GPUs do.

    Any user of the machine may do this; the configuration limits how long, for each user and in total. Exit
    code 3 when it is refused or too late.
    """
    answer = reach.change(state_dir, {"command": "hold", "seconds": duration, "reason": reason[:REASON_LENGTH]})
    report = reach.request(state_dir, {"command": "status"})
    if as_json:
        emit("hold", {"done": True, "words": answer["words"], "hold": _granted(report)})
        return
    for line in told(report, duration):
        click.echo(line)


def _granted(report: dict[str, Any]) -> dict[str, Any] | None:
    """The hold of this user; of an agent that shows no user ids, the newest."""
    mine = [hold for hold in report["holds"] if hold.get("uid") == os.geteuid()]
    return next(iter(mine or report["holds"][-1:]), None)


def told(report: dict[str, Any], asked: float) -> list[str]:
    """Who, until when, and what it means for work and bill."""
    from costguard.cli.render import clean, moment
    from costguard.engine.words import duration

    hold = _granted(report)
    if hold is None or hold["until"] is None:
        return ["held"]
    length = hold["until"] - report["time"]
    lines = [f"Held by {clean(hold['owner'])} until {moment(hold['until'], report['time'])}."]
    if length < asked - 60.0:
        limits = "hold.max, hold.per_user and hold.total"
        lines.append(f"You asked for {duration(asked)}; the configuration allows {duration(length)} now ({limits}).")
    last = max(report["holds"], key=lambda held: held["until"] or 0.0)
    if last["until"] > hold["until"] + 1.0:
        lines.append(f"The hold of {clean(last['owner'])} lasts longer, until {moment(last['until'], report['time'])}.")
        hold = last
    if report["mode"] == "live":
        lines.append(f"No {report['action']} before then, so the machine is billed at least until then.")
    else:
        lines.append("The agent is in dry run: it stops nothing anyway.")
    lines.append("Then the rules apply again, and a warning comes first. To end the hold early: `costguard release`.")
    return lines
