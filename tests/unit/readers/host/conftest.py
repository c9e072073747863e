"""What tests of several senses need."""

from pathlib import Path

import pytest

from costguard.readers.host.opened import MOST


@pytest.fixture(scope="session")
def hoard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a process has open that has very much open."""
    folder = tmp_path_factory.mktemp("hoard")
    for number in range(MOST + 200):
        (folder / str(number)).symlink_to("/dev/null")
    return folder
