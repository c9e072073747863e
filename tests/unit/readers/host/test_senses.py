"""The table of senses and what it names."""

import importlib
import inspect
from pathlib import Path

import pytest

import costguard.readers.host as package
from costguard.readers.host.sense import Moment, Place, Sight
from costguard.readers.host.senses import SENSES, SenseRow

FRAME = {"__init__", "sense", "senses", "processes", "users", "job", "reader", "page"}
"""Modules of the package that are no sense."""


def test_every_module_is_a_sense_of_the_table_or_part_of_the_frame() -> None:
    """A sense that has no row is never asked, and a row without its module would fail at start."""
    modules = {file.stem for file in Path(package.__file__).parent.glob("*.py")} - FRAME
    assert modules == {row.module for row in SENSES}
    assert len({row.name for row in SENSES}) == len(SENSES)


@pytest.mark.parametrize("row", SENSES, ids=lambda row: row.name)
def test_a_row_names_a_sense_that_can_look(row: SenseRow) -> None:
    """Its class takes settings and place, and looks at a moment and the processes."""
    kind = getattr(importlib.import_module(f"costguard.readers.host.{row.module}"), row.kind)
    assert list(inspect.signature(kind).parameters) == ["settings", "place"]
    assert list(inspect.signature(kind.look).parameters) == ["self", "now", "processes"]
    assert row.about.endswith(".")


def test_values_are_plain() -> None:
    """What crosses a pipe is made of texts and numbers."""
    assert Sight() == ((), "", "")
    assert Moment(1.0, 2.0).boot == 1.0
    assert Place().proc == "/proc"
