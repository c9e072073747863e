"""``--share SEED:PART/PARTS`` runs one share of the tests: other ones for another seed, and each one in exactly one part.

So a merge is checked in less time than all tests take, and a few merges check everything.
"""

import hashlib
from typing import NamedTuple, Self

import pytest


class Share(NamedTuple):
    """Part ``part`` (from 0) of ``parts``, by ``seed``."""

    seed: str
    part: int
    parts: int

    @classmethod
    def of(cls, text: str) -> Self:
        """From the command line. Raises pytest.UsageError."""
        seed, _, rest = text.rpartition(":")
        part, _, parts = rest.partition("/")
        if not (part.isdigit() and parts.isdigit() and int(part) < int(parts)):
            raise pytest.UsageError(f"--share {text}: write SEED:PART/PARTS, such as 7f3a:0/2")
        return cls(seed, int(part), int(parts))

    def has(self, name: str) -> bool:
        """Whether the test of this name is in it."""
        digest = hashlib.sha256(f"{self.seed} {name}".encode()).digest()  # a check sum would draw alike for like seeds
        return int.from_bytes(digest[:8], "big") % self.parts == self.part


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add it."""
    parser.addoption("--share", type=Share.of, help="SEED:PART/PARTS: run one share of the tests, drawn by the seed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is in another share."""
    share: Share | None = config.getoption("--share")
    if share is None:
        return
    kept = [item for item in items if share.has(item.nodeid)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
