"""What the tests of the readers' parts share."""

import pytest

from costguard.readers.nvml import binding
from tests.unit.readers.driver import Board, Library


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(binding, "loaded", made)
    return made


@pytest.fixture
def board(library: Library) -> Board:
    return Board(library)
