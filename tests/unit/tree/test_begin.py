"""How a command is started: nothing of it happens before whoever must know of it does."""

import os
import select
from pathlib import Path

from costguard.tree.begin import DIRECTORY, LOG, NOT_FOUND, Background, Begin, Failed, Prepared
from costguard.tree.processes import find
from tests.e2e.guarded import until


def touching(path: Path) -> Begin:
    return Begin(("touch", str(path)), (), 0, session=True)


def test_it_does_nothing_before_it_is_told(tmp_path: Path) -> None:
    """It is there, to be told of, and waits."""
    made = Prepared(touching(tmp_path / "made"))
    waiting = select.poll()
    waiting.register(made.fd, select.POLLIN)
    assert not waiting.poll(200)
    assert find(made.leader) is not None
    assert not (tmp_path / "made").exists()
    made.go()
    assert made.outcome() is None
    assert os.waitpid(made.leader, 0)[1] == 0
    assert (tmp_path / "made").exists()


def test_who_is_not_told_ends_with_its_launcher(tmp_path: Path) -> None:
    """Killed between the two it leaves nobody of whom nobody knows."""
    come, told = os.pipe()
    launcher = os.fork()
    if launcher == 0:
        os.write(told, b"%d" % Prepared(touching(tmp_path / "made")).leader)
        os._exit(0)
    os.waitpid(launcher, 0)
    os.close(told)
    with open(come, "rb") as pipe:
        leader = int(pipe.read())
    until(lambda: find(leader) is None)
    assert not (tmp_path / "made").exists()


def test_what_it_failed_at_is_told(tmp_path: Path) -> None:
    """Its log, its folder, or the program."""
    for background, failed in (
        (Background(".", {}, str(tmp_path / "no" / "log")), Failed(2, LOG)),
        (Background(str(tmp_path / "no"), {}, ""), Failed(2, DIRECTORY)),
        (Background(".", {}, str(tmp_path)), Failed(21, LOG)),
    ):
        made = Prepared(touching(tmp_path / "made"), background)
        made.go()
        assert made.outcome() == failed
        assert os.waitstatus_to_exitcode(os.waitpid(made.leader, 0)[1]) == NOT_FOUND
