"""What the tests of the NVML reader share."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from costguard.testing.nvml import build
from tests.faults.nvml_world import World


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def world(tmp_path: Path, library: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, library, stack)
