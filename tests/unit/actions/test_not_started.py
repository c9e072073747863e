"""A program of the owner that could not be started: which one, as whom, why, and what to do; by real programs and users."""

import errno
import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from costguard.accounts import Account
from costguard.actions import hook
from costguard.actions.base import Context
from costguard.actions.not_started import explained, found, name_of, refused
from tests.forked import Forked

ROOT = os.geteuid() == 0
USERS = ["", *(["nobody"] if ROOT else [])]


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that everybody may enter."""
    with TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


def run(program: Path, user: str) -> str:
    """What a hook says of it."""
    state = program.parents[1] if program.parent.name == "shut" else program.parent
    with TemporaryDirectory(dir=state) as results:
        settings = {"pre_stop": [str(program)], "user": user}
        outcome = hook.run(Context("stop", "live", incident="b-i1", hook=settings, results=results), "b-i1", 9.0)
    assert outcome.status == "failed"
    return outcome.detail


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("#!/bin/sh\n", 0o644, "Permission denied, run as {name}; {name} may not execute it: `chmod a+rx {path}`"),
        ("#!/nowhere/python\n", 0o755, "No such file or directory, run as {name}; its first line names a program that does not exist: `head -1 {path}`"),
        ("echo saved\n", 0o755, "Exec format error, run as {name}; it is not a program; a script begins with a line such as #!/bin/sh"),
        (None, 0o755, "No such file or directory, run as {name}; there is no such program"),
    ],
)  # fmt: skip
def test_it_names_the_program_the_user_and_the_next_step(
    folder: Path, user: str, text: str | None, mode: int, words: str
) -> None:
    """Whoever reads it, in a message or in the history, need not look for them."""
    program = folder / "save"
    if text is not None:
        program.write_text(text)
        program.chmod(mode)
    told = words.format(name=user or name_of(None), path=program)
    assert run(program, user) == f"the pre-stop hook could not be started: {program}: {told}"


@pytest.mark.skipif(not ROOT, reason="only root runs programs as others")
@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_a_folder_on_the_way_that_the_user_may_not_enter_is_named(folder: Path, mode: int) -> None:
    """As /root is for everybody else."""
    shut = folder / "shut"
    shut.mkdir()
    program = shut / "save"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    shut.chmod(mode)
    detail = run(program, "nobody") if mode == 0o700 else ""
    step = f"nobody may not enter {shut}: put the program where nobody can reach it, such as /usr/local/bin"
    assert detail.endswith(f"Permission denied, run as nobody; {step}") is (mode == 0o700)


@pytest.mark.parametrize(
    ("program", "path", "where"),
    [
        ("save", "{0}/none:{0}/a:{0}/b", "{0}/a/save"), ("save", "{0}/b:{0}/a", "{0}/b/save"), ("save", "{0}/none", "save"),
        ("b/save", "{0}/a", "b/save"), ("{0}/b/save", "{0}/a", "{0}/b/save"), ("/nowhere/save", "{0}/a", "/nowhere/save"),
        ("save", None, "save"), ("sh", None, "{sh}"),
    ],
)  # fmt: skip
def test_where_a_program_is_that_is_only_named(folder: Path, program: str, path: str | None, where: str) -> None:
    """The first in its path, also one that may not be executed: that is what keeps it from starting."""
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "save").write_text("")
        (folder / name / "save").chmod(0o644)
    environ = {} if path is None else {"PATH": path.format(folder)}
    sh = shutil.which("sh", path=os.defpath)
    assert found(program.format(folder), environ) == where.format(folder, sh=sh)


def test_a_folder_is_no_program(folder: Path) -> None:
    """Whoever may enter it may not run it."""
    assert run(folder, "").endswith("; it is a folder: name a program")


def test_who_runs_it_has_a_name() -> None:
    """The agent's own user, where no other one is named."""
    assert name_of(None) == pwd.getpwuid(os.geteuid()).pw_name
    assert refused("/bin/sh", None) == ""


@pytest.mark.parametrize(
    ("account", "as_whom"), [(None, ""), (Account(os.geteuid(), os.getegid(), (), "ann"), "sudo -u ann ")]
)
def test_where_nothing_is_seen_that_keeps_it_from_starting_the_program_itself_says_why(
    account: Account | None, as_whom: str
) -> None:
    """As with an access list, or a module of the kernel: run by the same user."""
    told = explained("/bin/sh", PermissionError(errno.EACCES, "Permission denied"), {}, account)
    assert told == f"/bin/sh: Permission denied, run as {name_of(account)}; `{as_whom}/bin/sh` shows why"


@pytest.mark.skipif(not ROOT, reason="only root becomes a user without a name")
def test_who_has_no_name_has_a_number() -> None:
    """As a user of a container, whom no list of users there knows."""
    program = (
        "from costguard.actions.not_started import name_of; import os; os.setuid(2_000_000_007); print(name_of(None))"
    )
    assert Forked(program, os.environ).communicate(b"")[0] == b"user 2000000007\n"


def test_another_user_has_a_name_or_a_number() -> None:
    """Its own name, before the one that this machine's list has for the number."""
    own = pwd.getpwuid(os.geteuid())
    assert name_of(Account(own.pw_uid, own.pw_gid, ())) == own.pw_name
    assert name_of(Account(own.pw_uid, own.pw_gid, (), "ann")) == "ann"
    assert name_of(Account(2_000_000_009, 1, ())) == "user 2000000009"


@pytest.mark.parametrize(
    ("mode", "owner", "group", "may"),
    [
        (0o100, 7, 8, True), (0o677, 7, 8, False), (0o010, 5, 8, True), (0o010, 5, 9, True), (0o767, 5, 8, False),
        (0o767, 5, 9, False), (0o001, 5, 6, True), (0o776, 5, 6, False),
    ],
)  # fmt: skip
@pytest.mark.skipif(not ROOT, reason="only root gives a file to others")
def test_the_first_of_owner_group_and_others_that_fits_decides(
    folder: Path, mode: int, owner: int, group: int, may: bool
) -> None:
    """As the kernel has it: who owns a file that its group may execute may not, if its own bit lacks."""
    program = folder / "save"
    program.touch()
    program.chmod(mode)
    os.chown(program, owner, group)
    ann = Account(7, 8, (9,), "ann")
    assert refused(str(program), ann) == ("" if may else f"ann may not execute it: `chmod a+rx {program}`")


@pytest.mark.skipif(not ROOT, reason="only root may enter every folder")
def test_root_executes_what_anybody_may_execute_and_enters_every_folder(folder: Path) -> None:
    """A file without any such bit is no program for root either."""
    program = folder / "shut" / "save"
    program.parent.mkdir(mode=0o000)
    program.touch()
    for mode, may in ((0o644, False), (0o100, True), (0o010, True), (0o001, True)):
        program.chmod(mode)
        os.chown(program, 7, 8)
        assert (refused(str(program), Account(0, 0, (), "root")) == "") is may
