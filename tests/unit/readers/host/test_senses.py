"""The table of senses and what it names."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import costguard.readers.host as package
from costguard.readers.host.sense import Moment, SensePaths, Sight
from costguard.readers.host.senses import SENSES, SenseRow

ROOT = Path(__file__).parents[4]
LOOK = ["self", "now", "processes"]


def test_every_sense_has_its_row() -> None:
    """A sense that has no row is never asked, and a row without its module would fail at start."""
    looks = {
        (file.stem, node.name)
        for file in Path(package.__file__).parent.glob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(part, ast.FunctionDef) and [a.arg for a in part.args.args] == LOOK for part in node.body)
    }
    differing = looks ^ {("sense", "Sense"), *((row.module, row.kind) for row in SENSES)}
    assert not differing, f"give {sorted(differing)} a row in SENSES of readers/host/senses.py"
    assert len({row.name for row in SENSES}) == len(SENSES)


@pytest.mark.parametrize("row", SENSES, ids=lambda row: row.name)
def test_a_row_names_a_sense_that_can_look(row: SenseRow) -> None:
    """Its class takes settings and place, and looks at a moment and the processes."""
    kind = getattr(importlib.import_module(f"costguard.readers.host.{row.module}"), row.kind)
    assert list(inspect.signature(kind).parameters) == ["settings", "place"]
    assert list(inspect.signature(kind.look).parameters) == ["self", "now", "processes"]
    assert row.about.endswith(".")


@pytest.mark.parametrize("row", SENSES, ids=lambda row: row.name)
def test_a_sense_is_explained_and_tested(row: SenseRow) -> None:
    """Whoever reads its name beside a machine that stays up finds what it counts; and what that is was tried."""
    page = (ROOT / "docs/senses.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert any(f"`{row.name}`" in line for line in headings), f"give `{row.name}` a heading in docs/senses.md"
    tests = "".join(file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py"))
    tested = re.search(rf"from costguard\.readers\.host\.{row.module} import .*\b{row.kind}\b", tests)
    assert tested, f"test {row.kind} in tests/unit/readers/host"


def test_values_are_plain() -> None:
    """What crosses a pipe is made of texts and numbers."""
    assert Sight() == ((), "", "")
    assert Moment(1.0, 2.0).boot == 1.0
    assert SensePaths().proc == "/proc"
