"""The job of the process that draws, and its answer."""

from collections.abc import Mapping
from typing import Literal, NamedTuple


class PictureFormat(NamedTuple):
    """How one picture is wanted: ``svg`` takes its colours from the page that it stands on; ``scale`` is for ``png``."""

    kind: Literal["png", "svg"]
    width: float
    scale: float = 1.0


class DrawJob(NamedTuple):
    """Pictures of the history in a folder, between two dates.

    ``pending``: what holds now and may not be recorded yet: the threshold, and the facts of a warning that is just being sent. ``incident``: wait until the history knows it, for at most
    ``patience`` seconds. ``blank``: without a history an empty picture is drawn, which says so. ``cache``: a folder in which the library keeps the list of its fonts.
    """

    folder: str
    since: float
    until: float
    machine: str = ""
    forms: tuple[PictureFormat, ...] = ()
    pending: Mapping[str, object] = {}
    incident: str = ""
    patience: float = 0.0
    blank: bool = False
    cache: str = ""


class Drawn(NamedTuple):
    """The pictures in the order asked for: SVG as it is, PNG in base64. ``missing``: the library is not installed."""

    pictures: tuple[str, ...] = ()
    error: str = ""
    missing: bool = False
