"""A program of the owner that could not be started: which one, as whom, why, and what to do; by real programs and users."""

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from costguard.actions import hook
from costguard.actions.base import Context
from costguard.actions.not_started import name_of, refused

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
    step = f"nobody may not enter {shut}: put the program where nobody may, as into /usr/local/bin"
    assert detail.endswith(f"Permission denied, run as nobody; {step}") is (mode == 0o700)


def test_a_folder_is_no_program(folder: Path) -> None:
    """Whoever may enter it may not run it."""
    assert run(folder, "").endswith("; it is a folder: name a program")


def test_who_runs_it_has_a_name() -> None:
    """The agent's own user, where no other one is named."""
    assert name_of(None) == pwd.getpwuid(os.geteuid()).pw_name
    assert refused("/bin/sh", None) == ""
