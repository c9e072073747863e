"""One person with thousands of user ids is one person."""

import os
from pathlib import Path

import pytest

from costguard.host.subordinate import person

ME = os.getuid()
SUBUID = f"""ann:100000:65536
{ME + 7}:165536:65536
root:231072:65536
gone:296608:65536
{ME}:362144:1000
broken
zoe:x:5
ann:500000:10
"""


@pytest.fixture
def etc(tmp_path: Path) -> str:
    (tmp_path / "subuid").write_text(SUBUID)
    (tmp_path / "passwd").write_text("root:x:0:0::/root:/bin/sh\nann:x:4242:100::/home/ann:/bin/sh\nzoe\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("uid", "whose"),
    [
        *[(0, 0), (ME, ME), (4242, 4242), (65535, 65535)],
        *[(100000, 4242), (165535, 4242), (500009, 4242), (165536, ME + 7), (231071, ME + 7)],
        *[(500010, 500010), (70000, 70000), (4294967295, 4294967295)],
    ],
)
def test_an_id_that_was_given_away_is_its_owners(etc: str, uid: int, whose: int) -> None:
    """By name or number; an id that nobody was given is itself."""
    assert person(uid, etc) == whose


@pytest.mark.parametrize(
    ("uid", "first"), [(231072, 231072), (231099, 231072), (296700, 296608), (362200, 362144)], ids=str
)
def test_nobody_becomes_root_or_the_agent(etc: str, uid: int, first: int) -> None:
    """A container's root is not this machine's; a range whose owner is unknown is one person all the same."""
    assert person(uid, etc) == first


def test_without_the_file_everybody_is_who_he_is(tmp_path: Path) -> None:
    """And a file that is no text is no reason to fail."""
    assert person(100000, str(tmp_path)) == 100000
    (tmp_path / "subuid").write_bytes(b"\xff\xfe\0:1:2\n")
    assert person(100000, str(tmp_path)) == 100000
