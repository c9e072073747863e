"""The moving picture of the README: `costguard demo` as it draws itself, as one SVG. ``python -m release.film > docs/demo.svg``."""

import io
import os
import re
import sys
import time
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.segment import Segment

from costguard.demo.director import Director, Scene, Stage
from costguard.demo.ending import ending
from costguard.demo.screen import draw

COLUMNS, ROWS = 96, 28
CELL, LINE, FONT = 8.4, 18.0, 14
BASE = 13.5
"""Of letters, in their line."""

BLOCK = LINE - 4
"""How high a full block is, so that bars of two lines do not touch."""

MARGIN = 14.0
EVERY = 0.7
"""Seconds between two pictures."""

LAST = 7.0
"""Seconds for which the account of the day is shown."""

PALETTE = {
    "": ("#24292f", "#d0d7de"), "green": ("#1a7f37", "#3fb950"), "yellow": ("#9a6700", "#d29922"),
    "cyan": ("#1b7c83", "#39c5cf"), "blue": ("#0969da", "#58a6ff"), "magenta": ("#8250df", "#bc8cff"),
    "red": ("#cf222e", "#ff7b72"), "bright_black": ("#6e7781", "#8b949e"), "white": ("#000000", "#ffffff"),
}  # fmt: skip
"""On a light and on a dark page, by the terminal's colour."""

GROUND = ("#f6f8fa", "#0d1117")

LOWER, LEFT = "▁▂▃▄▅▆▇█", "▏▎▍▌▋▊▉"
SIDES = {"│": "ns", "╭": "es", "╮": "ws", "╰": "en", "╯": "wn"}
"""The sides of its cell to which a box's sign leads from the middle."""

_PIECE = re.compile(rf"(?P<blank> +)|(?P<drawn>[{LOWER}{LEFT}─{''.join(SIDES)}]+)|(?P<text>\S+(?: \S+)*)")


class Picture(NamedTuple):
    """What the terminal shows from a moment on: a line of SVG for each row."""

    at: float
    rows: list[str]


class Camera(Stage):
    """The stage of the demonstration that keeps what it sees; lines and acts are part of every scene."""

    every = EVERY

    def __init__(self) -> None:
        self.pictures: list[Picture] = []
        self.warned = 0
        self.console = Console(
            file=io.StringIO(), width=COLUMNS, height=ROWS, force_terminal=True, color_system="standard",
            legacy_windows=False, highlight=False, markup=False, emoji=False, no_color=False, _environ={},
        )  # fmt: skip

    def draw(self, scene: Scene, shown: float) -> None:
        """Take a picture."""
        if scene.report["phase"] == "WARNING":
            self.warned = len(self.pictures)
        self.take(draw(scene, self.console), shown)

    def take(self, seen: RenderableType, shown: float) -> None:
        """One moment."""
        lines = self.console.render_lines(seen, pad=False)[:ROWS]
        self.pictures.append(Picture(shown, ["".join(_row(line)) for line in lines]))


def _row(line: list[Segment]) -> Iterator[str]:
    """The SVG of one line, its top at 0: texts, then what is drawn, one path for each colour."""
    column = 0
    drawn: dict[str, list[tuple[int, str]]] = {}
    for segment in line:
        kind = _kind(segment)
        for found in _PIECE.finditer(segment.text):
            at = column + found.start()
            if text := found["text"]:
                yield f'<text x="{_n(at * CELL)}" y="{BASE}" textLength="{_n(len(text) * CELL)}"{kind}>{escape(text, quote=False)}</text>'
            elif found["drawn"]:
                drawn.setdefault(kind, []).extend((at + number, sign) for number, sign in enumerate(found["drawn"]))
        column += len(segment.text)
    yield from (f'<path d="{"".join(_signs(signs))}"{kind}/>' for kind, signs in drawn.items())


def _kind(segment: Segment) -> str:
    """Its colour and weight, as classes."""
    style = segment.style
    if style is None:
        return ""
    colour = style.color.name if style.color is not None else ""
    names = [f"c-{colour}"] if colour in PALETTE and colour else []
    names += [name for name in ("bold", "dim") if getattr(style, name)]
    return f' class="{" ".join(names)}"' if names else ""


def _signs(signs: list[tuple[int, str]]) -> Iterator[str]:
    """Blocks and lines, which no font joins well; neighbours of one kind as one."""
    while signs:
        first, sign = signs[0]
        count = next((n for n, one in enumerate(signs) if one != (first + n, sign)), len(signs))
        signs = signs[count:]
        left, width = first * CELL, count * CELL
        if sign in LOWER:
            high = BLOCK * (LOWER.index(sign) + 1) / len(LOWER)
            yield _box(left, LINE - high, width, high)
        elif sign in LEFT:
            yield _box(left, LINE - BLOCK, CELL * (LEFT.index(sign) + 1) / 8, BLOCK)
        elif sign == "─":
            yield _box(left, LINE / 2 - 0.5, width, 1)
        else:
            middle, sides = left + CELL / 2, SIDES[sign]
            up, down = (0 if "n" in sides else LINE / 2 - 0.5), (LINE if "s" in sides else LINE / 2 + 0.5)
            yield _box(middle - 0.5, up, 1, down - up)
            if sides != "ns":
                yield _box(left if "w" in sides else middle, LINE / 2 - 0.5, CELL / 2, 1)


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h-{_n(width)}z"


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _style(moments: list[float], length: float, width: float, still: int) -> str:
    stops = "".join(
        f"{at / length * 100:.3f}%{{transform:translateX({_n(-n * width)}px)}}" for n, at in enumerate(moments)
    )

    def colours(dark: int) -> str:
        named = "".join(f".c-{name}{{fill:{both[dark]}}}" for name, both in PALETTE.items() if name)
        return f"svg{{fill:{PALETTE[''][dark]}}}.ground{{fill:{GROUND[dark]}}}{named}"

    return (
        f"text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}"
        f".bold{{font-weight:bold}}.dim{{opacity:.7}}{colours(0)}@media (prefers-color-scheme:dark){{{colours(1)}}}"
        f"@keyframes film{{{stops}}}.film{{animation:film {_n(length)}s step-end infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateX({_n(-still * width)}px)}}}}"
    )


def film() -> str:
    """The whole picture; in UTC it is the same everywhere."""
    camera = Camera()
    account = Director(camera).play()
    over = camera.pictures[-1].at + EVERY
    camera.take(ending(account, "costguard"), over)
    names: dict[str, str] = {}
    frames = []
    width, height = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + 2 * MARGIN
    for number, picture in enumerate(camera.pictures):
        rows = []
        for row, drawn in enumerate(picture.rows):
            if drawn:
                name = names.setdefault(drawn, f"r{len(names)}")
                rows.append(f'<use href="#{name}" y="{_n(row * LINE)}"/>')
        frames.append(f'<g transform="translate({_n(number * width)})">{"".join(rows)}</g>')
    defined = "".join(f'<g id="{name}">{drawn}</g>' for drawn, name in names.items())
    style = _style([picture.at for picture in camera.pictures], over + LAST, width, camera.warned)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}" role="img">',
        "<title>costguard demo: a simulated machine trains, is forgotten, and would be shut down after a warning</title>",
        f"<style>{style}</style>",
        f"<defs>{defined}</defs>",
        '<rect class="ground" width="100%" height="100%" rx="8"/>',
        f'<svg x="{_n(MARGIN)}" y="{_n(MARGIN)}" width="{_n(COLUMNS * CELL)}" height="{_n(ROWS * LINE)}"><g class="film">',
        *frames,
        "</g></svg></svg>",
        "",
    ])  # fmt: skip


def main() -> None:
    """To standard output."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    sys.stdout.write(film())


if __name__ == "__main__":
    main()
