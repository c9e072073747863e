"""Who else can change a file: every folder on the way counts, and every link."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from costguard.trust import clean, weakness

STRANGER = 4711


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file that is nobody else's, two folders down."""
    (tmp_path / "one").mkdir(mode=0o755)
    (tmp_path / "one" / "two").mkdir(mode=0o755)
    file = tmp_path / "one" / "two" / "file"
    file.write_text("x")
    file.chmod(0o644)
    return file


def given_away(path: Path) -> int:
    """Make it somebody else's; the user for whom that is so."""
    if os.geteuid() == 0:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        return 0
    return os.geteuid() + STRANGER  # for whom everything of this user's is a stranger's


def test_what_is_ones_own_is_trusted(place: Path) -> None:
    """Below a temporary folder too: the sticky bit keeps names that are taken."""
    assert weakness(str(place), os.geteuid()) is None


@pytest.mark.parametrize("weak", [".", "..", "../.."])
@pytest.mark.parametrize("bits", [0o002, 0o020])
def test_who_can_write_a_folder_on_the_way_can_change_the_file(place: Path, weak: str, bits: int) -> None:
    """It need not be the file itself: whoever writes a folder puts another one there."""
    folder = (place / weak).resolve() if weak != "." else place
    if bits == 0o020:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file to a group that is not its own")
        os.chown(folder, -1, STRANGER)
    folder.chmod(folder.stat().st_mode | bits)
    found = weakness(str(place), os.geteuid())
    assert found is not None
    assert found.place == str(folder)
    assert f"can write {folder}" in found.reason
    assert found.remedy.endswith(f"chmod go-w {folder}")


@pytest.mark.parametrize("whose", ["file", "folder", "link", "target"])
def test_what_belongs_to_another_user_is_his_to_change(place: Path, tmp_path: Path, whose: str) -> None:
    """Whatever its mode says: an owner can change the mode."""
    link = tmp_path / "link"
    link.symlink_to("one/two/file")
    chosen = {"file": place, "folder": place.parent, "link": link, "target": place}[whose]
    uid = given_away(chosen)
    asked = link if whose in ("link", "target") else place
    found = weakness(str(asked), uid)
    assert found is not None
    assert "belongs to" in found.reason
    if uid == 0:
        assert found.place == str(chosen)


def test_a_free_name_where_everybody_may_lay_files_is_no_safe_place(tmp_path: Path) -> None:
    """As a program in /tmp that is written only when it is needed."""
    tmp_path.chmod(0o1777)
    (tmp_path / "taken").write_text("")
    (tmp_path / "taken").chmod(0o600)
    assert weakness(str(tmp_path / "taken"), os.geteuid()) is None
    for free in (tmp_path / "free", tmp_path / "free" / "further", tmp_path):
        assert weakness(str(free), os.geteuid()) is not None


def test_a_link_that_leads_back_to_itself_is_followed_only_so_far(tmp_path: Path) -> None:
    """Nobody waits for ever."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert weakness(str(tmp_path / "a"), os.geteuid()) is None


def test_devices_are_not_files() -> None:
    """/dev/null is everybody's to write, and nothing comes of it."""
    assert weakness("/dev/null", os.geteuid()) is None


def _lay(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


@pytest.mark.parametrize("lay", [_lay, lambda folder: None], ids=["writable", "missing"])
def test_roots_environment_names_no_folder_of_others(tmp_path: Path, lay: Callable[[Path], None]) -> None:
    """PATH, libraries and Python's path of a root shell that came out of a user's; the home likewise."""
    tmp_path.chmod(0o1777)
    (bad := tmp_path / "bin").parent.chmod(0o1777)
    lay(bad)
    kept, words = clean({"PATH": f"{bad}:/usr/bin::", "PYTHONPATH": "lib", "HOME": str(bad), "OTHER": str(bad)}, 0)
    usual = "" if weakness("/usr/bin", 0) else "/usr/bin"  # in a user namespace even that is nobody's
    assert (kept["PATH"], kept["PYTHONPATH"], kept["OTHER"]) == (usual, "", str(bad))
    assert kept["HOME"] != str(bad)
    assert len(words) == 3
    assert str(bad) in words[0]
    assert "the working directory" in words[0]


def test_another_users_environment_is_left_alone() -> None:
    """It runs nothing that this user could not run."""
    given = {"PATH": "/tmp:.:/usr/bin", "HOME": "/tmp"}
    assert clean(given, 1000) == (given, [])
