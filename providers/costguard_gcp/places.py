"""Where things are in the API."""

from typing import NamedTuple


class Where(NamedTuple):
    """The machine's place."""

    project: str
    zone: str
    name: str


class Group(NamedTuple):
    """A managed instance group: ``region`` is empty for one that lives in a single zone."""

    project: str
    zone: str
    region: str
    name: str
