"""Pieces of the screen that verbs share."""

import io
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.text import Text

from costguard.cli.answer import printable
from costguard.engine.words import clock, clock_ahead, duration
from costguard.people import with_names

PLAIN_WIDTH = 100
"""Columns where the width of the screen is unknown."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SPARKS = "▁▂▃▄▅▆▇█"

COLOURS = {
    "STARTING": "cyan",
    "IDLE": "blue",
    "ARMED": "green",
    "HELD": "magenta",
    "WARNING": "yellow",
    "ACTING": "red",
    "CONFIRMING": "red",
    "DONE": "bright_black",
    "FAILED": "bright_red",
    "works": "green",
    "quiet": "yellow",
    "unknown": "magenta",
}
"""One colour for each state; no meaning is in colour alone."""


def console(file: TextIO | None = None) -> Console:
    """The screen: colours and its own width on a terminal, 100 plain columns elsewhere.

    The library obeys NO_COLOR. What the encoding lacks becomes a question mark, never an error.
    """
    file = file or sys.stdout
    if isinstance(file, io.TextIOWrapper):
        file.reconfigure(errors="replace")
    screen = Console(
        file=file,
        width=None if file.isatty() else PLAIN_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )
    if screen.is_dumb_terminal:  # for which the library takes 80 columns without looking
        screen.size = ConsoleDimensions(*shutil.get_terminal_size((PLAIN_WIDTH, 24)))
    return screen


def whole(text: str, indent: int = 0) -> Text:
    """A line that is copied from the screen: it is never broken here, and the terminal's own wrapping leaves no mark in it."""
    return Text(" " * indent + text, style="dim", no_wrap=True, overflow="ignore")


def can_move(screen: Console) -> bool:
    """Whether the terminal can draw in place, in an encoding that has blocks."""
    return screen.is_terminal and not screen.is_dumb_terminal and screen.encoding.startswith("utf")


def show(screen: Console, thing: RenderableType) -> None:
    """Print it; outside a terminal without trailing blanks."""
    if screen.is_terminal:
        screen.print(thing, crop=False)
        return
    with screen.capture() as capture:
        screen.print(thing, crop=False)
    for line in capture.get().splitlines():
        screen.file.write(line.rstrip() + "\n")
    screen.file.flush()  # a closed pipe or a full disk fails here, where it can be reported


def clean(text: object) -> str:
    """Foreign text without control characters, which could rewrite the screen, and with the names of users."""
    return with_names(printable(text).replace("\n", " ").strip())


def bar(load: float | None, width: int, style: str = "", *, unicode: bool = True) -> Text:
    """A load from 0 to 1 as a bar; unknown is dots, never an empty bar."""
    if load is None:
        return Text(("·" if unicode else "?") * width, style="magenta")
    share = min(1.0, max(0.0, load))
    if not unicode:
        full = round(share * width)
        return Text("#" * full + "-" * (width - full))
    full, rest = divmod(round(share * width * 8), 8)
    text = "█" * full + (_EIGHTHS[rest] if rest and full < width else "")
    return Text(text, style=style) + Text(" " * (width - len(text)), style="on grey15")


def spark(loads: Sequence[float | None], width: int) -> Text:
    """The last ``width`` loads as a line of small bars; unknown is a dot."""
    shown = list(loads)[-width:]
    text = Text(" " * (width - len(shown)))
    for load in shown:
        if load is None:
            text.append("·", style="magenta")
        else:
            level = min(len(_SPARKS) - 1, max(0, round(load * (len(_SPARKS) - 1))))
            text.append(_SPARKS[level], style="green" if load >= 0.05 else "grey50")
    return text


def percent(load: float | None) -> str:
    """``62 %``, or ``unknown``."""
    return "unknown" if load is None else f"{load * 100:.0f} %"


def moment(wall: float, now: float, *, exact: bool = False) -> str:
    """A date near now: ``16:42 (in 48m)``, ``09:10 (5m ago)``; ``exact``: ``16:42:07 (in 20s)`` where it is that near."""
    away = wall - now
    at = clock_ahead(wall, now) if exact else clock(wall, now)
    return f"{at} (in {duration(away)})" if away >= 0 else f"{at} ({duration(-away)} ago)"


def sentence(words: str, state: str) -> Text:
    """The engine's sentence, with its state in colour."""
    text = Text(clean(words), style="bold")
    if text.plain.startswith(state):
        text.stylize(f"bold reverse {COLOURS.get(state, 'white')}", 0, len(state))
    return text
