"""One rule for folders."""

import os
import pwd
from pathlib import Path

from costguard.config.paths import Paths, resolve


def test_others_use_their_xdg_folders(tmp_path: Path) -> None:
    """State under XDG_STATE_HOME, runtime under XDG_RUNTIME_DIR; a relative variable is ignored."""
    environment = {"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": str(tmp_path)}
    assert resolve(None, environment, 1000) == Paths("/s/costguard", f"{tmp_path}/costguard")
    assert resolve(None, {"XDG_STATE_HOME": "s", "HOME": "/h"}, 1000).state == "/h/.local/state/costguard"


def test_a_user_without_a_home_gets_no_folder_that_depends_on_the_place() -> None:
    """No HOME and no entry in the user database, as in a container that runs as any number."""
    nobody = 2**31 - 7
    for environment in ({}, {"HOME": ""}, {"HOME": "h"}):
        assert resolve(None, environment, nobody).state == "/nonexistent/.local/state/costguard"
    assert resolve(None, {}, pwd.getpwnam("daemon").pw_uid).state.startswith(pwd.getpwnam("daemon").pw_dir)


def test_runtime_is_in_memory_without_xdg() -> None:
    """The state of a boot must not survive it, so it never falls back to a disk."""
    assert resolve(None, {}, 1000).runtime == "/dev/shm/costguard-1000"
    assert resolve(None, {"XDG_RUNTIME_DIR": "/nonexistent"}, 1000).runtime == "/dev/shm/costguard-1000"


def test_a_name_that_another_user_took_first_is_not_waited_for(tmp_path: Path) -> None:
    """Everybody may lay a folder in /dev/shm: what one user takes there must not keep another's agent from starting."""
    stranger = os.geteuid() + 4711
    Path(f"/dev/shm/costguard-{stranger}").mkdir()
    (link := Path(resolve(str(tmp_path), {}, stranger).runtime)).symlink_to(tmp_path)
    try:
        assert resolve(None, {"HOME": "/h"}, stranger).runtime == "/h/.local/state/costguard/run"
        assert resolve(str(tmp_path), {}, stranger).runtime == f"{tmp_path}/run"
    finally:
        os.rmdir(f"/dev/shm/costguard-{stranger}")
        link.unlink()
    assert resolve(None, {"HOME": "/h"}, stranger).runtime == f"/dev/shm/costguard-{stranger}"


def test_root_uses_the_system_folders() -> None:
    """/var/lib and /run, or memory where /run cannot be written."""
    found = resolve(None, {"XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"}, 0)
    assert found.state == "/var/lib/costguard"
    assert found.runtime in ("/run/costguard", "/dev/shm/costguard-0")


def test_every_state_folder_has_its_own_runtime_folder(tmp_path: Path) -> None:
    """Two agents never share a lock; two names of one folder are one agent."""
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.mkdir()
    link.symlink_to(one)
    assert resolve(str(one), {}, 1000) == resolve(str(link), {}, 1000)
    assert resolve(str(one), {}, 1000).runtime != resolve(str(two), {}, 1000).runtime
    assert resolve(str(one), {}, 1000).runtime.startswith("/dev/shm/costguard-1000-")
    assert len(resolve(str(one), {}, 1000).runtime) == len("/dev/shm/costguard-1000-") + 10
