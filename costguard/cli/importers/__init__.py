"""Configurations of other tools, one module each: `read` gives what a file asks for, and what of it is otherwise here."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from costguard.cli.fill_file import FillFile


class Note(NamedTuple):
    """What people must know: what was lost, what means another thing here, or to whom it never yields."""

    kind: Literal["lost", "changed", "never_yields"]
    text: str


class Imported(NamedTuple):
    """``remarks``: what stands beside an option, by its name."""

    file: FillFile
    notes: tuple[Note, ...]
    remarks: dict[str, str]


def sentences(notes: Sequence[Note]) -> Iterator[str]:
    """Each note in words."""
    words = {"lost": "not carried over: ", "changed": "", "never_yields": "it never yields "}
    return (f"{words[note.kind]}{note.text}" for note in notes)
