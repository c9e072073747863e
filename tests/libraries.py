"""The libraries that stand in for a driver and for the kernel's clocks: compiled once for all workers of a run."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.testing.nvml import build

CLOCK = Path(__file__).with_name("clock.c")
OTHER = Path(__file__).with_name("other_nvml.c")
_COMPILER = ("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


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
        return self._made(made, lambda: subprocess.run([*_COMPILER, "-o", made, CLOCK], check=True))

    def other_nvml(self, *kinds: str) -> Path:
        """A second stand-in of NVML, as these words of its source choose it."""
        made = self._folder / "-".join(("other", *kinds)) / "libnvidia-ml.so.1"
        flags = [*(f"-D{kind}" for kind in kinds), f"-Wl,-soname,{made.name}"]
        return self._made(made, lambda: subprocess.run([*_COMPILER, *flags, "-o", made, OTHER], check=True))

    def _made(self, file: Path, make: Callable[[], object]) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
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
