"""Machines with costguard as a service, for `make test-vm`: they boot, and what is tested happens in them."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.guarded import Guarded
from tests.vm.image import Image

IMAGE = "COSTGUARD_VM_IMAGE"


@pytest.fixture(scope="session")
def image() -> Image:
    """Made beforehand, because no test leaves this machine, and building one asks mirrors."""
    folder = os.environ.get(IMAGE)
    if not folder:
        pytest.fail("no machine was built; run `make test-vm`", pytrace=False)
    return Image.of(Path(folder))


@pytest.fixture(scope="session")
def plain(image: Image) -> Image:
    """The same distribution without costguard, as a cloud offers it."""
    return Image.of(image.disk.parent, "plain")


@pytest.fixture(scope="module")
def guarded(image: Image) -> Iterator[Guarded]:
    """One machine for all tests of a file: a boot takes most of a minute."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, Guarded(image, Path(folder)) as machine:
        machine.before = machine.files()
        machine.set_up()
        yield machine
