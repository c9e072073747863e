"""Colours of a picture, for light and dark. None carries a meaning alone: each has a pattern, a place or a word beside it.

The hues are those of Okabe and Ito ("Color Universal Design", 2008), which every kind of colour vision tells apart; in the
dark they are lighter.
"""

from typing import NamedTuple


class Palette(NamedTuple):
    """One colour for each thing."""

    paper: str
    ink: str
    muted: str
    grid: str
    lane: str
    load: str
    peak: str
    limit: str
    unknown: str
    countdown: str
    requested: str
    acted: str
    would: str
    failed: str
    hold: str
    off: str


LIGHT = Palette(
    paper="#ffffff", ink="#1b1f24", muted="#57606a", grid="#d0d7de", lane="#f3f5f7",
    load="#0072b2", peak="#9cc9e3", limit="#b34700", unknown="#6e7781",
    countdown="#e69f00", requested="#d55e00", acted="#b0568a", would="#b0568a", failed="#1b1f24", hold="#009e73", off="#8c959f",
)  # fmt: skip
DARK = Palette(
    paper="#0d1117", ink="#e6edf3", muted="#9aa4af", grid="#3b434c", lane="#171c23",
    load="#56b4e9", peak="#265f82", limit="#ffab70", unknown="#9aa4af",
    countdown="#f0b429", requested="#ff8552", acted="#e29cc4", would="#e29cc4", failed="#e6edf3", hold="#2bc99a", off="#6e7681",
)  # fmt: skip

VARIABLES = Palette(*(f"#0{number:x}c05{number:x}" for number in range(len(LIGHT))))
"""Stands in for the colours of a page, which come from its style: one picture for light and dark."""
