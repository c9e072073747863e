"""What processes have open."""

import os
from pathlib import Path

import pytest

from costguard.readers.host.opened import MOST, opened, sockets_of


def test_of_a_process_that_has_very_much_open_a_part_is_looked_at(tmp_path: Path, hoard: Path) -> None:
    """Half a million files, which anybody may open, would take half a minute."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "fd").symlink_to(hoard)
    assert len(list(opened(str(tmp_path), 7))) == MOST


def test_the_kernel_lists_what_was_opened_first() -> None:
    """So the devices of a GPU, which a process opens at its start, are in that part."""
    found = [int(name) for name, _ in opened("/proc", os.getpid())]
    assert found == sorted(found)


def test_sockets_are_found_by_their_number(tmp_path: Path) -> None:
    """Each with its descriptor; who has ended has none to show."""
    folder = tmp_path / "7" / "fd"
    folder.mkdir(parents=True)
    for name, target in {"3": "socket:[815]", "4": "/dev/null", "5": "socket:[x]"}.items():
        (folder / name).symlink_to(target)
    assert sockets_of(str(tmp_path), 7) == {815: "3"}
    with pytest.raises(FileNotFoundError):
        sockets_of(str(tmp_path), 8)
