"""The account of the day, and what to do next."""

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from costguard.demo import story
from costguard.demo.director import DayAccount
from costguard.demo.story import MINUTE
from costguard.engine.words import clock, duration, several


def hours(seconds: float) -> str:
    """``24h 00m``: always in hours, so that durations of one day can be compared at a glance."""
    minutes = round(seconds / 60)
    return f"{minutes // 60}h {minutes % 60:02}m"


def following(command: str) -> list[tuple[str, str]]:
    """What to type next and why; ``command`` is how `costguard` is typed here."""
    return [
        (f"{command} config init --path costguard.toml", "write a short configuration"),
        (f"{command} config check costguard.toml", "explain what it will do"),
        (f"{command} run --config costguard.toml", "on a GPU machine: guard it (dry run, nothing is stopped)"),
        (f"{command} status", "meanwhile: see why it is still up, and what would stop it"),
    ]


def facts(account: DayAccount) -> list[tuple[str, str, str]]:
    """(what, how long, remark) of the day."""
    total = account.total
    ran, worked, unknown = (MINUTE * round(seconds / MINUTE) for seconds in (total.length, total.worked, total.unknown))
    rows = [
        ("the machine ran", hours(ran), ""),
        ("GPUs worked", hours(worked), ""),
        ("all GPUs were quiet", hours(ran - worked - unknown), ""),
        ("a GPU could not be read", hours(unknown), "unknown is never idle"),
    ]
    if account.would_act is not None:
        money = account.saved / story.HOUR * story.PRICE
        assumed = f"about {money:.0f} USD (estimate; it assumes {story.PRICE:.2f} USD an hour)"
        rows.append((f"a {story.ACTION} at {clock(account.would_act)} saves", hours(account.saved), assumed))
    return rows


def morals(account: DayAccount) -> list[str]:
    """What it did not stop, and why; from the account, not from the script."""
    download, training = account.spells["download"], account.spells["training"]
    stopped = sum(spell.warnings for name, spell in account.spells.items() if name != story.ACTS[-1].name)
    if stopped:
        return [f"{several(stopped, 'warning')} came during work: this is a bug in costguard, please report it."]
    return [
        f"The download was left alone: {duration(download.quiet)} at 0 %, but no work seen since boot.",
        f"The training was left alone: {duration(training.quiet)} of pauses, each shorter than an hour.",
        "The unreadable GPU never counted as idle: its clock restarted when it could be read again.",
    ]


def ending(account: DayAccount, command: str) -> RenderableType:
    """Everything that stays on the screen."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="left")
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column(style="dim")
    for what, length, remark in facts(account):
        table.add_row(what, length, remark)
    lines = [Text(f"✔ {moral}", style="green") for moral in morals(account)]
    whole = Group(table, Text(), Text("It never stopped work", style="bold"), *lines)
    steps: list[Text] = []
    for typed, meaning in following(command):
        steps += [Text(f"  {typed}", style="bold cyan"), Text(f"      {meaning}")]
    title = Text("this day in numbers", style="bold")
    return Group(
        Panel(whole, title=title, title_align="left", box=box.ROUNDED, border_style="green", padding=(0, 1)),
        Text("Only the machine was simulated; loop, decisions and messages are the agent's own.", style="dim"),
        Text("\nNext steps", style="bold"),
        *steps,
    )
