"""A pytest plug-in: agents that a test started below its ``tmp_path`` leave no runtime folder in /run or /dev/shm.

Which folders those are follows from the test's own paths, as for the agent itself: what is another agent's is never looked at.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.config.paths import resolve

DEPTH = 2
"""How far below ``tmp_path`` a test's state directory lies."""


def folders(top: Path, depth: int = DEPTH) -> Iterator[str]:
    """A folder and those below it."""
    yield str(top)
    if depth and top.is_dir():
        for entry in os.scandir(top):
            if entry.is_dir(follow_symlinks=False):
                yield from folders(Path(entry.path), depth - 1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """What was there is noted before the fixtures of the test take it away, and is removed when they are through."""
    top = getattr(item, "funcargs", {}).get("tmp_path")
    made = {resolve(folder, os.environ).runtime for folder in folders(top)} if top is not None else set()
    yield
    for runtime in made:
        shutil.rmtree(runtime, ignore_errors=True)
