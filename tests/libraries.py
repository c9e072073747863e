"""The libraries that stand in for a driver and for the kernel's clocks: compiled once for all workers of a run."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.testing.nvml import build

CLOCK = Path(__file__).with_name("clock.c")


class Libraries:
    """In one folder, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def nvml(self, library_version: str = "", *, old_driver: bool = False) -> Path:
        """The stand-in of NVML, in a folder of its own for each kind."""
        folder = self._folder / f"nvml-{library_version or 'any'}{'-old' if old_driver else ''}"
        return self._made(
            folder / "libnvidia-ml.so.1", lambda: build(folder, library_version=library_version, old_driver=old_driver)
        )

    def clock(self) -> Path:
        """What gives programs another time, with LD_PRELOAD."""
        made = self._folder / "clock.so"
        compiler = ["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        return self._made(made, lambda: subprocess.run([*compiler, "-o", made, CLOCK], check=True))

    def _made(self, file: Path, make: Callable[[], object]) -> Path:
        self._folder.mkdir(exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not file.exists():
                make()
        return file


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    own = tmp_path_factory.getbasetemp()
    return Libraries((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "libraries")


@pytest.fixture(scope="session")
def nvml_library(libraries: Libraries) -> Path:
    """The stand-in of NVML as most tests need it."""
    return libraries.nvml()
