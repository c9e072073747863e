"""Sockets at paths of any length."""

import os
import socket
from pathlib import Path

import pytest

from costguard.host.address import PATH_BYTES, address


@pytest.mark.parametrize("length", [PATH_BYTES, PATH_BYTES + 1, 1000])
def test_a_socket_can_be_reached_however_long_its_path_is(short_path: Path, length: int) -> None:
    """The kernel takes 107 bytes; the runtime directory of a user may be longer."""
    name = str(short_path)
    while (left := length - len(f"{name}/control.sock")) > 0:
        name += "/" + "x" * (min(left, 200) - 1)
    folder, path = Path(name), f"{name}/control.sock"
    assert len(path) == length
    folder.mkdir(parents=True)
    before = os.listdir("/proc/self/fd")
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with address(path) as name:
            server.bind(name)
        server.listen()
        assert (folder / "control.sock").is_socket()
        with address(path) as name:
            client.connect(name)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_folder_that_is_missing_is_said_as_for_a_short_path(tmp_path: Path) -> None:
    """Whoever asks learns that no agent is there, and not that a name is too long."""
    with pytest.raises(FileNotFoundError), address(str(tmp_path / ("x" * 120) / "control.sock")):
        pass
