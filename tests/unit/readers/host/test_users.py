"""Names of users, from two files; who has none is a number."""

from pathlib import Path

import pytest

from costguard.readers.host.sense import SensePaths
from costguard.readers.host.users import Users

PASSWD = "root:x:0:0:root:/root:/bin/sh\n+nis\nbroken:x\nann:x:1000:1000:Ann 77:/home/ann:/bin/sh\nshort:x:77\nlater:x:1000:5::/:/x\n`id`:x:9:9::/:/x\n"


@pytest.fixture
def users(tmp_path: Path) -> Users:
    (tmp_path / "passwd").write_text(PASSWD)
    (tmp_path / "systemd/users").mkdir(parents=True)
    return Users(SensePaths(etc=str(tmp_path), run=str(tmp_path)))


@pytest.mark.parametrize(
    ("uid", "name"),
    [(0, "root"), (1000, "ann"), (77, "short"), (9, "'id'"), (5, "uid 5"), (100, "uid 100"), (-1, "uid -1")],
)
def test_the_file_of_users(users: Users, uid: int, name: str) -> None:
    """The first line with this number, as the C library has it; a line that is none is passed over."""
    assert users.name(uid) == name
    assert users.name(uid) == name


def test_who_is_logged_in_is_known_to_systemd(users: Users, tmp_path: Path) -> None:
    """A name that is not found is asked for again, one that was found is kept."""
    assert users.name(4242) == "uid 4242"
    own = tmp_path / "systemd/users/4242"
    own.write_text("# This is private data. Do not parse.\nSTATE=active\n")
    assert users.name(4242) == "uid 4242"
    own.write_text("# This is private data. Do not parse.\nUNNAME=x\nNAME=bob\nNAME=other\n")
    assert users.name(4242) == "bob"
    own.unlink()
    (tmp_path / "passwd").unlink()
    assert (users.name(4242), users.name(1000)) == ("bob", "uid 1000")
