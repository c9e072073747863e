"""The names of users, beside their ids."""

import os
import pwd
import threading

import pytest

from costguard import people
from costguard.people import with_names


def test_the_system_names_a_user() -> None:
    """The id first, which the kernel has proven; the name after it, once."""
    name = pwd.getpwuid(0).pw_name
    assert (
        with_names("held by uid 0 until 10:00; uid 0, too")
        == f"held by uid 0 ({name}) until 10:00; uid 0 ({name}), too"
    )
    assert with_names(with_names("uid 0")) == f"uid 0 ({name})"


def test_a_name_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between backticks stands out in a chat, as something to type."""
    named = pwd.struct_passwd(("`rm -rf`(x)\n", "x", 7, 7, "", "/", ""))
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: named)
    assert with_names("held by uid 4100007") == "held by uid 4100007 (rm -rfx)"


@pytest.mark.parametrize(
    "text", ["ann (uid 0)", "uid 2147483000", "uid 99999999999", "uid 4294967295", "fluid 0", "uid x"]
)
def test_what_the_system_does_not_know_stays(text: str) -> None:
    """So do records of earlier versions, which wrote a name before it."""
    assert with_names(text) == text


def test_a_user_database_that_hangs_costs_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory server may never answer: the warning goes out without the name."""
    monkeypatch.setattr(people, "LOOKUP_SECONDS", 0.01)
    hanging = threading.Event()

    def hang(uid: int) -> None:
        hanging.wait(60)
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", hang)
    uid = 4_000_000 + os.getpid() % 1000
    assert with_names(f"uid {uid}") == f"uid {uid}"
    hanging.set()
