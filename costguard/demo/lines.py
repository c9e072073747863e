"""The demonstration as plain lines or JSON, outside a terminal."""

import textwrap

import click

from costguard.cli.answer import emit
from costguard.demo import story
from costguard.demo.director import DayAccount, DemoLine, Stage
from costguard.demo.ending import facts, following, morals
from costguard.engine.words import hour

WIDTH = 100


class Plain(Stage):
    """One line for each event, at once."""

    def __init__(self, command: str) -> None:
        self._command = command  # how to type `costguard` here
        self._number = 0

    def act(self, wall: float, act: story.Act) -> None:
        """A heading."""
        self._number += 1
        click.echo()
        _wrapped(f"{hour(wall)}  ", f"Act {self._number} of {len(story.ACTS)}: {act.title}. {act.text}")
        _wrapped("       ", act.moral)

    def line(self, line: DemoLine) -> None:
        """A line of the journal, or a message with its body."""
        if line.kind == "journal":
            _wrapped(f"{hour(line.wall)}  ", line.text)
            return
        for text in (line.text, *line.body.splitlines()):
            _wrapped("       | ", text)

    def end(self, account: DayAccount) -> None:
        """The account and the next steps."""
        click.echo("\nThis day in numbers")
        for what, length, remark in facts(account):
            click.echo(f"  {what:<26} {length:>8}  {remark}".rstrip())
        click.echo("\nIt never stopped work")
        for moral in morals(account):
            _wrapped("  - ", moral)
        click.echo("\nOnly the machine was simulated; loop, decisions and messages are the agent's own.\n\nNext steps")
        for typed, meaning in following(self._command):
            click.echo(f"  {typed}\n      {meaning}")


class Json(Stage):
    """One JSON object for each event; ``at`` is a date in seconds since the epoch, of the simulated clock."""

    def act(self, wall: float, act: story.Act) -> None:
        """An act begins."""
        _dump(event="act", at=wall, name=act.name, text=act.text)

    def line(self, line: DemoLine) -> None:
        """The journal, or a message with its title and body."""
        if line.kind == "journal":
            _dump(event="journal", at=line.wall, sentence=line.text)
        else:
            _dump(event="message", at=line.wall, kind=line.kind, title=line.text, body=line.body)

    def end(self, account: DayAccount) -> None:
        """Seconds are facts of the simulation; money is an estimate, and its price an assumption."""
        spells = {name: spell._asdict() for name, spell in account.spells.items()}
        money = round(account.saved / story.HOUR * story.PRICE, 2)
        _dump(
            event="account",
            at=account.ended,
            acts=spells,
            would_act=account.would_act,
            saved_seconds=account.saved,
            estimate={"saved": money, "price_per_hour": story.PRICE, "currency": "USD", "price": "an assumption"},
        )


def _dump(**event: object) -> None:
    emit("demo", event, lines=True)


def _wrapped(first: str, text: str) -> None:
    blank = first if "|" in first else " " * len(first)
    click.echo(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=blank, break_long_words=False))
