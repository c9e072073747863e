"""What the tests of the readers' parts share."""

import pynvml
import pytest

from tests.unit.readers.driver import Board, Library


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    made = Library()
    monkeypatch.setattr(pynvml, "nvmlLib", made)
    return made


@pytest.fixture
def board(library: Library) -> Board:
    return Board(library)
