"""A scheduler's own programs: an end in time, whatever they do."""

import os
import time
from pathlib import Path

import pytest

from costguard.tasks.api import SchedulerError
from costguard.tasks.commands import run


def program(folder: Path, text: str, mode: int = 0o755) -> str:
    made = folder / "ask"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(mode)
    return str(folder)


def test_what_it_says_and_how_it_ended(tmp_path: Path) -> None:
    """In plain English, without standard input; its error output is what people read."""
    folder = program(tmp_path, 'cat; echo "$1 $LC_ALL $MINE"; echo "token=abcdef no" >&2; exit 3')
    said = run(["ask", "a b"], 5.0, folder=folder, environ={"MINE": "x", "PATH": os.environ["PATH"]})
    assert (said.code, said.output, said.words, said.late) == (3, "a b C x\n", "token=*** no", False)


def test_one_that_hangs_is_killed(tmp_path: Path) -> None:
    """Also when it ignores SIGTERM; what it did is not known then."""
    began = time.monotonic()
    said = run(["ask"], 0.3, folder=program(tmp_path, "trap '' TERM; exec sleep 30"))
    assert (said.late, time.monotonic() - began < 5.0) == (True, True)


@pytest.mark.parametrize("mode", [None, 0o644])
def test_one_that_is_not_there_was_not_asked(tmp_path: Path, mode: int | None) -> None:
    """A veto with a hint: to ask again would not help."""
    folder = str(tmp_path) if mode is None else program(tmp_path, "exit 0", mode)
    if mode is not None and os.geteuid() == 0:
        assert not os.access(f"{folder}/ask", os.X_OK)
    with pytest.raises(SchedulerError, match="'ask' is not here") as error:
        run(["ask"], 5.0, folder=folder)
    assert (error.value.trouble, error.value.in_doubt, "[task]" in error.value.hint) == ("refused", False, True)


def test_one_that_cannot_start_was_not_asked(tmp_path: Path) -> None:
    """What is no program at all."""
    (tmp_path / "ask").write_text("no program")
    (tmp_path / "ask").chmod(0o755)
    with pytest.raises(SchedulerError, match="could not be started") as error:
        run(["ask"], 5.0, folder=str(tmp_path))
    assert error.value.technical
