"""The demonstration on a terminal."""

import time
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from costguard.cli.render import COLOURS, bar, percent, sentence, spark
from costguard.demo import story
from costguard.demo.director import COLUMN_SECONDS, DemoLine, Scene, Stage
from costguard.demo.ending import hours
from costguard.engine.words import duration, hour

NARROW = 96
"""Columns below which bars and history are shorter."""

TALL = 28
"""Rows below which there are no empty lines."""

WIDEST = 104
"""Columns at most; longer lines are hard to read."""


class Screen(Stage):
    """Draws scenes in place; lines are part of the scenes. ``paced``: as fast as a reader can follow."""

    def __init__(self, console: Console, *, paced: bool) -> None:
        self.every = 1 / 12 if paced else 1.0
        self._console = console
        self._paced = paced
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._began = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def draw(self, scene: Scene, shown: float) -> None:
        """Wait until it is due, then show it."""
        if self._paced:
            time.sleep(max(0.0, self._began + shown - time.monotonic()))
        self._live.update(draw(scene, self._console), refresh=True)


def draw(scene: Scene, screen: Console) -> RenderableType:
    """One moment, fitted into the height of the terminal; the panel at the bottom is cut first."""
    tall = screen.height >= TALL
    gap = [Text()] if tall else []
    words = sentence(scene.report["sentence"], scene.report["state"]).wrap(screen, screen.width)
    words.extend([Text()] * (_rows(screen) - len(words)))
    top = Group(_head(scene), _gpus(scene, screen.width), *gap, _clock(scene, screen.width), *gap, *words, *gap)
    foot = Text("Ctrl-C ends it. Nothing on this computer is read or changed.", style="dim")
    panel = _message(scene.message) if scene.message else _journal(scene)
    room = screen.height - len(screen.render_lines(top)) - 1
    panel.height = max(3, min(room, len(screen.render_lines(panel))))
    return Group(top, panel, foot)


def _rows(screen: Console) -> int:
    """Lines reserved for the sentence, so that nothing below it jumps."""
    return 2 if screen.width >= NARROW else 3


def _head(scene: Scene) -> Panel:
    acts = Text()
    names = [act.name for act in story.ACTS]
    current = names.index(scene.act.name)
    for number, act in enumerate(story.ACTS):
        style = "bold white" if number == current else "green" if number < current else "bright_black"
        mark = "●" if number == current else "✔" if number < current else "○"
        acts.append(f"{mark} {act.title}   ", style=style)
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    up = Text(f"up {hours(scene.wall - story.start_wall())}  ", style="dim")
    line.add_row(acts, up + Text(hour(scene.wall), style="bold cyan"))
    words = Group(line, Text(), Text(scene.act.text, style="bold"), Text(scene.act.moral, style="cyan"))
    return Panel(
        words,
        title=Text("costguard demo", style="bold"),
        title_align="left",
        subtitle=Text("simulated machine · real decisions", style="yellow"),
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="bright_black",
        padding=(0, 1),
    )


def _gpus(scene: Scene, width: int) -> Table:
    columns = 40 if width >= NARROW else 20
    table = Table.grid(padding=(0, 2, 0, 1))
    ago = f"{duration(columns * COLUMN_SECONDS)} ago"
    table.add_row("", "", "", Text(ago + "now".rjust(columns - len(ago)), style="dim"), "")
    for gpu, past in zip(scene.report["gpus"], scene.history, strict=False):
        state = str(gpu["state"])
        colour = COLOURS.get(state, "white")
        since = f" for {duration(scene.report['time'] - gpu['since'])}" if gpu["since"] is not None else ""
        table.add_row(
            Text(str(gpu["label"]).split(" (", 1)[0], style="bold"),
            bar(gpu["load"], 16 if width >= NARROW else 12, colour),
            percent(gpu["load"]).rjust(7),
            spark(past, columns),
            Text((("busy" if state == "works" else state) + since).ljust(18), style=colour),
        )
    return table


def _clock(scene: Scene, width: int) -> Table:
    """The clock that leads to a warning, or the countdown to the action."""
    report, now = scene.report, scene.report["time"]
    size = 40 if width >= NARROW else 24
    table = Table.grid(padding=(0, 2, 0, 1))
    incident = report["incident"]
    if report["phase"] == "WARNING" and incident and incident["due"]:
        left = max(0.0, incident["due"] - now)
        share = left / (incident["due"] - incident["warned"])
        table.add_row(Text("countdown ", style="bold yellow"), bar(share, size, "yellow"), f"{duration(left)} left")
    elif report["phase"] == "DONE":
        table.add_row(Text("since then", style="bold"), _lost(scene))
    elif scene.act.name == "boot" and report["state"] == "STARTING":
        table.add_row(Text("idle clock", style="bold"), Text("not yet: the machine has just started", style="dim"))
    else:
        table.add_row(*_idle_clock(scene, size))
    return table


def _lost(scene: Scene) -> Text:
    """What it costs that nothing was done."""
    if scene.would_act is None:
        return Text("DRY RUN: nothing was done", style="dim")
    seconds = scene.wall - scene.would_act
    money = seconds / story.HOUR * story.PRICE
    words = Text(f"billed and idle for {hours(seconds)}", style="bold red")
    return words.append(f", about {money:.0f} USD if an hour costs {story.PRICE:.2f}", style="not bold dim")


def _idle_clock(scene: Scene, size: int) -> tuple[RenderableType, ...]:
    report, now = scene.report, scene.report["time"]
    states = [gpu["state"] for gpu in report["gpus"]]
    title = Text("idle clock", style="bold")
    if "unknown" in states:
        return title, Text("stopped: a GPU cannot be read; unknown is never idle", style="magenta")
    if "works" in states:
        return title, Text("stopped: work is seen", style="green")
    if report["idle_at"] is None:
        quiet = max((now - gpu["since"] for gpu in report["gpus"]), default=0.0)
        return title, Text(f"not started: no work was seen since boot ({duration(quiet)} at 0 %)", style="blue")
    window = report["window"]
    share = min(1.0, max(0.0, 1 - (report["idle_at"] - now) / window))
    return title, bar(share, size, "yellow"), Text(f"{duration(share * window)} of {duration(window)}")


def _journal(scene: Scene) -> Panel:
    lines = [
        Text(f"{hour(line.wall)}  ", style="dim", end="").append(line.text, style="default")
        for line in list(scene.journal)[-5:]
    ]
    for line in lines:
        line.no_wrap, line.overflow, line.end = True, "ellipsis", "\n"
    lines += [Text()] * (5 - len(lines))
    return Panel(Group(*lines), title="what the agent logs", title_align="left", border_style="bright_black")


def _message(line: DemoLine) -> Panel:
    """A message as it was composed."""
    title = "what people get" if line.kind == "warning" else "what happens then"
    body = Group(Text(line.text, style="bold yellow"), Text(line.body))
    return Panel(body, title=title, title_align="left", border_style="yellow", padding=(0, 1))
