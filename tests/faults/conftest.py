"""What the tests of the NVML reader share."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from costguard.testing.nvml import Script
from tests.clock import Clock
from tests.faults.nvml_world import Apart, Machine, World, running, take_library
from tests.libraries import Libraries


@pytest.fixture(scope="session")
def library(nvml_library: Path) -> Path:
    return nvml_library


@pytest.fixture
def own_time(libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """The programs of this test run on a machine that is up for a day, and `settle` passes over time."""
    clock = Clock(libraries.clock(), tmp_path / "hands", uptime=86400.0)
    for name, value in clock.environment().items():
        monkeypatch.setenv(name, value)
    running.append(clock)
    yield clock
    running.clear()


@pytest.fixture
def apart(tmp_path: Path, libraries: Libraries, own_time: Clock) -> Iterator[Apart]:
    """Readers are processes of their own."""
    with ExitStack() as stack:
        yield Apart(tmp_path, libraries, stack, own_time)


@pytest.fixture
def world(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Readers are in this process."""
    with ExitStack() as stack:
        made = World(tmp_path, library, monkeypatch, stack)
        running.append(made.clock)
        stack.callback(running.clear)
        yield made


@pytest.fixture
def machine(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    script = Script(tmp_path / "gpus", ring_dry=False, ring=400)
    take_library(library, script.environment(library), monkeypatch)
    found = Machine(script)
    found.tick(3)  # the baseline of the idle GPU
    yield found
    found.close()
