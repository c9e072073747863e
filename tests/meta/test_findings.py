"""Every finding that people can read about is explained to them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import costguard.actions
import costguard.cloud
import costguard_aws
import costguard_azure
import costguard_gcp
from costguard.actions.cloud import CODES, OWN_CODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/actions.md").read_text(encoding="utf-8")
PACKAGES = (costguard.actions, costguard.cloud, costguard_aws, costguard_azure, costguard_gcp)


def codes() -> Iterator[tuple[str, str]]:
    """The first argument of every finding in the source, with its file."""
    for package in PACKAGES:
        for folder in package.__path__:
            for file in sorted(Path(folder).glob("*.py")):
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                    called = (
                        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "PlanFinding"
                    )
                    if called and isinstance(first := node.args[0], ast.Constant):  # type: ignore[attr-defined] # a call
                        yield str(first.value), file.name


def test_every_code_stands_on_the_page_about_actions() -> None:
    """A code without an explanation helps nobody; programs that read codes find them all there."""
    found = dict(codes()) | dict.fromkeys((*CODES.values(), *OWN_CODES), "cloud.py")
    assert len(found) >= 40
    explained = set(re.findall(r"`([a-z_]+)`", PAGE))
    missing = {code: file for code, file in found.items() if code not in explained}
    assert not missing
