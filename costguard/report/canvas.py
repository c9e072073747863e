"""A sheet of so many pixels, with areas, lines and texts on it. The one module that imports matplotlib.

It is loaded by a process that ends: it costs 70 MB and half a second. No text is ever read as a formula, and what its font
lacks becomes a question mark.
"""

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import PathPatch, Polygon
from matplotlib.path import Path
from PIL import Image

from costguard.people import with_names

FONT = "DejaVu Sans"
"""Comes with matplotlib, so every machine has it, and it is wide: what stands in for it on a page needs less room."""

TEXT = 11.0
"""The height of a line of letters, in pixels."""

DOTS = 72
"""Pixels to the inch, as matplotlib counts points: a point is a pixel."""

_RENDERER: Any = RendererAgg  # which matplotlib has no types for
_MEASURE = _RENDERER(1, 1, DOTS)


class Box(NamedTuple):
    """Where something lies, in pixels from the lower left corner."""

    left: float
    bottom: float
    right: float
    top: float


class Canvas:
    """What is drawn on lies above what was there."""

    def __init__(self, width: float, height: float, paper: str, ink: str) -> None:
        self.width, self.height, self._paper, self._ink = width, height, paper, ink
        self._figure = Figure(figsize=(width / DOTS, height / DOTS), dpi=DOTS, facecolor=paper)
        self._axes: Any = self._figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self._axes.set_axis_off()
        self._axes.set_xlim(0.0, width)
        self._axes.set_ylim(0.0, height)

    @property
    def texts(self) -> list[tuple[str, Box]]:
        """Every text, with what its letters really take."""
        found = [(text.get_text(), text.get_window_extent(_MEASURE)) for text in self._axes.texts]
        return [(words, Box(box.x0, box.y0, box.x1, box.y1)) for words, box in found]

    def png(self, scale: float = 1.0) -> bytes:
        """The picture, with ``scale`` dots for each pixel."""
        raw, out = io.BytesIO(), io.BytesIO()
        self._figure.savefig(raw, format="rgba", dpi=DOTS * scale)
        size = int(self.width * scale), len(raw.getvalue()) // 4 // int(self.width * scale)
        Image.frombytes("RGBA", size, raw.getvalue()).convert("RGB").save(out, "png")
        return out.getvalue()

    def svg(self, salt: str) -> str:
        """The picture, whose text stays text; ``salt`` tells the names in it from those of another one on the same page."""
        out = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            self._figure.savefig(out, format="svg", metadata=nothing)
        return out.getvalue()

    def area(self, box: Box, colour: str, hatch: str = "", ink: str = "") -> None:
        """A rectangle; its pattern in ``ink``, or in the colour of the paper."""
        self.areas([box], colour, hatch, ink)

    def areas(self, boxes: Iterable[Box], colour: str, hatch: str = "", ink: str = "") -> None:
        """Several that look alike, as one shape: patterns are slow."""
        corners: list[tuple[float, float]] = []
        for box in boxes:
            if box.right > box.left and box.top > box.bottom:
                corners += [(box.left, box.bottom), (box.right, box.bottom), (box.right, box.top), (box.left, box.top)]
                corners.append(corners[-4])
        if not corners:
            return
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * (len(corners) // 5)
        shape = PathPatch(Path(corners, codes), facecolor=colour, linewidth=0.0, edgecolor=ink or self._paper)
        if hatch:
            shape.set_hatch(hatch)
        self._axes.add_artist(shape)

    def veil(self, box: Box, colour: str) -> None:
        """A rectangle through which one sees."""
        corners = [(box.left, box.bottom), (box.right, box.bottom), (box.right, box.top), (box.left, box.top)]
        self._axes.add_artist(Polygon(corners, facecolor=colour, alpha=0.25, linewidth=0.0))

    def ground(self, points: Sequence[tuple[float, float]], bottom: float, colour: str) -> None:
        """What lies below a line."""
        around = [(points[0][0], bottom), *points, (points[-1][0], bottom)]
        self._axes.add_artist(Polygon(around, facecolor=colour, linewidth=0.0))

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float, *, dashed: bool = False) -> None:
        """From point to point."""
        style: Any = (0, (5, 3)) if dashed else "solid"
        drawn = LineCollection([list(points)], colors=colour, linewidths=width, linestyles=[style])
        self._axes.add_collection(drawn, autolim=False)

    def text(
        self, left: float, bottom: float, words: str, size: float = TEXT, *, colour: str = "", bold: bool = False
    ) -> None:
        """One line of text, which is not cut here."""
        self._axes.text(
            left, bottom + size * 0.22, drawable(words), fontproperties=_font(size, bold=bold), color=colour or self._ink,
            parse_math=False, verticalalignment="baseline", horizontalalignment="left",
        )  # fmt: skip


def wide(words: str, size: float = TEXT, *, bold: bool = False) -> float:
    """The width of a text, in pixels."""
    found = _MEASURE.get_text_width_height_descent(drawable(words), _font(size, bold=bold), ismath=False)
    return float(found[0])


def cut(words: str, room: float, size: float = TEXT, *, bold: bool = False) -> str:
    """As much of a text as fits, with dots where the rest was."""
    words = drawable(words)
    if wide(words, size, bold=bold) <= room:
        return words
    fits = bisect_right(range(len(words)), room, key=lambda most: wide(words[:most] + "…", size, bold=bold))
    return words[: max(0, fits - 1)].rstrip() + "…"


@lru_cache(maxsize=8)
def _font(size: float, *, bold: bool) -> FontProperties:
    return FontProperties(family=FONT, size=size, weight="bold" if bold else "normal")


@lru_cache(maxsize=1024)
def drawable(words: str) -> str:
    """On one line, with names for user ids, and only with what the font has."""
    font = get_font(findfont(FONT))
    named = "".join(c if c.isprintable() else " " for c in with_names(words))
    return "".join(c if c == " " or font.get_char_index(ord(c)) else "?" for c in named).strip()
