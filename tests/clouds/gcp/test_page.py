"""The page of this cloud says what the code does."""

import re
from pathlib import Path

from costguard.cloud import managed
from costguard.cloud import rules as shared_rules
from costguard_gcp import PROVIDER, rules
from tests.clouds.gcp.cells import CELLS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/clouds-gcp.md").read_text(encoding="utf-8")


def test_the_page_has_the_role_as_it_is_generated() -> None:
    """Whoever copies it gets what the code needs."""
    assert f"```yaml\n{PROVIDER.policy(['stop'])}```" in PAGE
    assert f"```sh\n{PROVIDER.commands(['stop'])}\n```" in PAGE


def test_the_page_has_every_right() -> None:
    """With the reason that the code gives."""
    for right in PROVIDER.permissions(["stop", "terminate", "hibernate"]):
        assert f"| `{right.name}` | {right.why} | {'yes' if right.needed else 'no'}" in PAGE


def test_the_page_has_every_code_and_no_other() -> None:
    """As the rules write them."""
    own, shared = _codes(str(rules.__file__)), _codes(str(shared_rules.__file__))
    table = PAGE.partition("## What a plan can say")[2].partition("## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert own <= listed <= {*own, *shared, managed.CODE}
    assert {code for cell in CELLS.values() for code in cell.codes} <= listed


def _codes(path: str) -> set[str]:
    return set(
        re.findall(r'(?:Finding|refuse|follows|instead|unread)\(\s*"(\w+)"', Path(path).read_text(encoding="utf-8"))
    )
