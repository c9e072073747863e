"""``costguard hold``: postpone a stop."""

import os
import time
from typing import Any

import click

from costguard.cli import reach
from costguard.cli.answer import emit
from costguard.cli.examples import examples
from costguard.config.values import moment, spoken_seconds
from costguard.errors import REFUSED, CostguardError

REASON_LENGTH = 200
"""Characters of a reason that the agent keeps."""


def _length(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """A time above zero with its unit (10m, 2h, 1h30m, 1d) in seconds; anything else is a usage error."""
    if value is None:
        return None
    try:
        length = spoken_seconds(value)
        why = f"{value!r} is not a duration"
    except ValueError as error:
        length, why = 0.0, str(error)
    if length <= 0:
        raise click.BadParameter(f"{why}; write a time such as 30m, 2h or 1d")
    return length


def _end(_context: click.Context, _parameter: click.Parameter, value: str | None) -> float | None:
    """Seconds until a moment that is still to come; anything else is a usage error."""
    if value is None:
        return None
    now = time.time()
    try:
        left = moment(value, now) - now
    except ValueError as error:
        raise click.BadParameter(f"{error}; write a time such as 18:00, or a date such as 2027-01-31T18:00") from None
    if left <= 0:
        raise click.BadParameter(f"{value!r} has passed; write a future time, such as 18:00")
    return left


@click.command(
    epilog=examples(
        "costguard hold 2h --reason 'evaluation tonight'",
        "costguard hold --until 18:00",
        "costguard hold --past-deadline 2h",
    )
)
@click.argument("duration", callback=_length, required=False)
@click.option("--until", "end", callback=_end, metavar="TIME", help="Instead of DURATION: 18:00, or a date.")
@click.option(
    "--past-deadline",
    "past",
    callback=_length,
    metavar="DURATION",
    help="Instead: move the deadline (lifetime, lease, budget) by this much, and hold nothing else.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why; others see it next to your name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reach.state_dir
def command(
    *, duration: float | None, end: float | None, past: float | None, reason: str, as_json: bool, state_dir: str | None
) -> None:
    """Keep this machine up for DURATION (30m, 2h, 1h30m, 1d), or until a TIME, whatever the GPUs do.

    Any user of the machine may do this; the configuration limits how long, for each user and in total. Exit
    code 3 when it is refused or too late.
    """
    given = [seconds for seconds in (duration, end, past) if seconds is not None]
    if not given:
        hint = "`costguard hold 2h`, or `costguard hold --until 18:00`; at most 24h by default"
        raise CostguardError("no duration is given: how long should it hold?", hint)
    if len(given) > 1:
        raise CostguardError(
            "more than one of DURATION, --until and --past-deadline is given",
            "write one of them: `costguard hold --until 18:00`",
        )
    seconds, ask = given[0], {"command": "hold", "seconds": given[0], "reason": reason[:REASON_LENGTH]}
    if past is not None:
        _extend(state_dir, {**ask, "past_deadline": True}, as_json=as_json)
        return
    words = _asked(state_dir, ask)
    report = reach.status(state_dir)
    if as_json:
        emit("hold", {"done": True, "words": words, "hold": _granted(report)})
        return
    for line in described(report, seconds, words):
        click.echo(line)


def _asked(state_dir: str | None, ask: dict[str, Any]) -> str:
    """The agent's words; where it is too late, the error says how this machine is started again."""
    try:
        return reach.change(state_dir, ask)
    except CostguardError as error:
        if not error.message.startswith("too late"):
            raise
        from costguard.engine.wording import start_after

        report = reach.status(state_dir)
        action = (report.get("incident") or {}).get("action") or report["action"]
        start = start_after(action, (report["agent"].get("cloud") or {}).get)
        hint = f"once it is off, start it again from elsewhere: {start}" if start else error.hint
        if action == "terminate":
            hint = "a terminated machine is deleted and cannot be started again: create a new one"
        raise CostguardError(error.message, hint, REFUSED) from None


def _extend(state_dir: str | None, ask: dict[str, Any], *, as_json: bool) -> None:
    """Move the deadline, and say what that means."""
    from costguard.cli.render import clean, moment

    words = _asked(state_dir, ask)
    report = reach.status(state_dir)
    deadline = report.get("deadline") or {}
    if as_json:
        emit("hold", {"done": True, "words": words, "deadline": deadline or None})
        return
    extended = deadline.get("extended")
    if not extended:  # taken back in between
        click.echo(clean(words))
        return
    click.echo(
        f"Deadline ({deadline['limit']}) moved by {clean(extended['owner'])} to {moment(extended['until'], report['time'])}."
    )
    if cut := clean(words).partition(" (")[2]:
        click.echo(f"{cut[0].upper()}{cut[1:].removesuffix(')')}.")
    click.echo("Idle time counts as before. To undo this: `costguard release`.")


def _granted(report: dict[str, Any]) -> dict[str, Any] | None:
    """The hold of this user; of an agent that shows no user ids, the newest."""
    mine = [hold for hold in report["holds"] if hold.get("uid") == os.geteuid()]
    return next(iter(mine or report["holds"][-1:]), None)


def described(report: dict[str, Any], asked: float, words: str = "") -> list[str]:
    """Who, until when, and what it means for work and bill; ``words``: the agent's answer."""
    from costguard.cli.render import clean, moment
    from costguard.engine.people import EARLIER_LASTS
    from costguard.engine.wording import wording_of
    from costguard.engine.words import duration

    hold = _granted(report)
    if hold is None or hold["until"] is None:
        return ["held"]
    now = report["agent"]["now"]  # the report itself is as old as the last look
    length = hold["until"] - now
    lines = [f"Held by {clean(hold['owner'])} until {moment(hold['until'], now, exact=True)}."]
    if length < asked - 60.0:
        limits = "hold.max, hold.per_user and hold.total"
        lines.append(f"You asked for {duration(asked)}; the configuration allows {duration(length)} now ({limits}).")
    if EARLIER_LASTS in words:
        lines.append(f"Your earlier hold lasts longer than the {duration(asked)} you asked for, so it counts.")
    last = max(report["holds"], key=lambda held: held["until"] or 0.0)
    if last["until"] > hold["until"] + 1.0:
        lines.append(f"The hold of {clean(last['owner'])} lasts longer, until {moment(last['until'], now)}.")
        hold = last
    if report["mode"] == "live":
        wording = wording_of(report["action"], in_task=bool(report["agent"].get("task")))
        lines.append(f"{wording.no.capitalize()} before then, {wording.guarded.still}.")
    else:
        lines.append("The agent is in dry run: it does nothing anyway.")
    then = "the rules apply again, and a warning comes first"
    if report.get("admin_hold"):
        then = f"the administrator still holds this machine: {clean(report['admin_hold'])}"
    lines.append(f"Then {then}. To end the hold early: `costguard release`.")
    return lines
