"""Every finding that people can read about is explained to them."""

import ast
import importlib
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import costguard.actions
import costguard.cloud
import costguard.tasks
from costguard.actions import end_task
from costguard.actions.cloud import CODES, OWN_CODES
from costguard.tasks.api import GROUP

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
CLOUDS = sorted({point.module.partition(".")[0] for point in entry_points(group="costguard.providers")})
SCHEDULERS = sorted({point.module.partition(".")[0] for point in entry_points(group=GROUP)})
PACKAGES = (
    costguard.actions, costguard.cloud, costguard.tasks, *map(importlib.import_module, (*CLOUDS, *SCHEDULERS))
)  # fmt: skip


MAKERS = {"PlanFinding", "refuse", "follows", "instead", "unread"}
"""What makes a finding: its class, and those of `costguard.cloud.rules` that take its code."""


def codes() -> Iterator[tuple[str, str]]:
    """The first argument of every finding in the source, with its file."""
    for package in PACKAGES:
        for folder in package.__path__:
            for file in sorted(Path(folder).glob("*.py")):
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
                        continue
                    name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                    if name in MAKERS and isinstance(first := node.args[0], ast.Constant):
                        yield str(first.value), file.name


def test_every_code_stands_on_the_page_about_actions() -> None:
    """A code without an explanation helps nobody; programs that read codes find them all there."""
    found = dict(codes()) | dict.fromkeys((*CODES.values(), *OWN_CODES), "cloud.py")
    found |= dict.fromkeys(end_task.CODES.values(), "end_task.py")
    assert len(found) >= 40
    explained = set(re.findall(r"`([a-z_]+)`", PAGE))
    missing = {code: file for code, file in found.items() if code not in explained}
    assert not missing
