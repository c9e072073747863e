"""The installed `costguard fill`: work on GPUs that nobody uses, and how it makes room."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from costguard.testing.nvml import Process as OnGpu
from costguard.tree import processes

from .filled import QUICK, Filled, somebody
from .guarded import PATIENCE, UUIDS, until


@pytest.fixture
def filled(tmp_path: Path, nvml_library: Path) -> Iterator[Filled]:
    made = Filled(tmp_path, nvml_library)
    yield made
    made.clean_up()


def test_each_free_gpu_gets_its_process_and_loses_it_at_the_end(filled: Filled) -> None:
    """Seed 3: a filler for each GPU, by UUID, and nothing is left when costguard is told to end."""
    process = filled.begin()
    filled.until_working(2)
    assert sorted(gpu for _, gpu in filled.begun()) == sorted(UUIDS)
    filled.end(process)
    assert not filled.working()
