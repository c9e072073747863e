"""Whoever comes from another tool finds everything here: each line of what they need, and each row of the page, has its tests."""

import ast
import functools
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "switching.md").read_text(encoding="utf-8")
FOUND: dict[str, list[dict[str, Any]]] = tomllib.loads((TESTS / "meta" / "switching.toml").read_text(encoding="utf-8"))

LINES = {
    "GPU Sentinel": 11,
    "GPU Idle Timeout around a command": 10,
    "GPU Idle Timeout as a watcher": 6,
    "The stressor that fills idle GPUs": 8,
    "gpu_mon": 7,
}
"""How many lines each tool has."""

PENDING: set[str] = set()
"""What is not there yet; whoever builds it takes it out here, and names its tests."""


@functools.cache
def names_in(file: str) -> frozenset[str]:
    """The names of the tests in one file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def proven_by(entry: dict[str, Any]) -> bool:
    """Whether every test that it names is there, and there is one."""
    for test in entry["tests"]:
        file, _, name = test.partition("::")
        assert name in names_in(file), test
    return bool(entry["tests"])


def rows(table: str) -> list[str]:
    """The first cell with words of each row of one table of the page."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (text,) = [one for one in section if one.partition("\n")[0] == table]
    cells = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines() if line.startswith("|")
    ]
    return [next(filter(None, row)) for row in cells[2:]]


@pytest.mark.parametrize(
    "entry", FOUND["line"], ids=lambda entry: f"{entry['tool']} {entry['number']}: {entry['says']}"
)
def test_each_line_has_its_tests(entry: dict[str, Any]) -> None:
    """They are there by name; or what is missing is named, and nothing else is."""
    if "pending" in entry:
        assert entry["pending"] in PENDING
        assert "tests" not in entry
    else:
        assert proven_by(entry)


def test_no_line_is_left_out() -> None:
    """Of no tool; and nothing is called pending that is not."""
    proven: dict[str, set[int]] = {tool: set() for tool in LINES}
    for entry in FOUND["line"]:
        if "tests" in entry:
            proven[entry["tool"]].add(entry["number"])
    assert proven == {tool: set(range(1, count + 1)) for tool, count in LINES.items()}
    assert {entry["pending"] for entry in FOUND["line"] if "pending" in entry} == PENDING


@pytest.mark.parametrize("table", LINES)
def test_each_row_of_the_page_has_its_tests(table: str) -> None:
    """Every row of every table is run, and no row is proven that does not stand there."""
    entries = [entry for entry in FOUND["row"] if entry["table"] == table]
    assert sorted(entry["row"] for entry in entries) == sorted(rows(table))
    assert all(proven_by(entry) for entry in entries)


def test_every_table_of_the_page_is_one_of_these() -> None:
    """A tool that comes to the page brings its tests."""
    assert [line.removeprefix("## ") for line in PAGE.splitlines() if line.startswith("## ")] == list(LINES)
