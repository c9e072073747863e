"""``costguard history --html`` and ``--png``: a file, whole or not at all."""

import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from costguard.cli.main import main
from costguard.history import store
from costguard.history.job import Batch
from tests.unit.history.conftest import batch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state directory with a history of just now."""
    minute = int(time.time()) // 60 * 60 - 3600
    rows = [[minute + 60 * number, "a", 60.0, 0.0, 0.0, 0.5, 1.0] for number in range(50)]
    machine = [[minute + 60 * number, 60.0, 0.0, 0.0] for number in range(50)]
    store.save(batch(tmp_path / "history.sqlite", gpus=rows, machine=machine))
    return tmp_path


def history(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["history", "--state-dir", str(folder), *options])


def test_a_page_and_a_picture_are_written(folder: Path) -> None:
    """Each where it was asked for, and nothing else is left there; the way to open it is said."""
    done = history(folder, "--html", f"{folder}/out.html", "--png", f"{folder}/out.png", "--since", "2h")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"Wrote {folder}/out.html" in done.stdout
    root = ET.fromstring((folder / "out.html").read_text().partition("\n")[2])
    assert len(list(root.iter("svg"))) == 2
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in folder.iterdir()} - {"matplotlib"} == {"history.sqlite", "out.html", "out.png"}


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_mode_is_the_users(folder: Path, mask: int) -> None:
    """As any file that this user writes, also where another one stood before; a link is replaced and not followed."""
    (folder / "precious").write_text("keep me")
    (folder / "out.html").symlink_to(folder / "precious")
    before = os.umask(mask)
    try:
        assert history(folder, "--html", f"{folder}/out.html").exit_code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "out.html").lstat().st_mode) == 0o666 & ~mask
    assert (folder / "precious").read_text() == "keep me"


@pytest.mark.parametrize("option", ["--html", "--png"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (".", "is a folder"), ("", "is a folder"), ("sub/", "is a folder"), ("none/out.html", "there is no folder"),
        ("history.sqlite/out.html", "there is no folder"), ("pipe", "is not a regular file"),
    ],
)  # fmt: skip
def test_where_nothing_can_be_written_is_said_before_anything_is_done(
    folder: Path, option: str, name: str, words: str
) -> None:
    """Exit code 2, and what stood there stands there still."""
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    before = sorted(path.name for path in folder.rglob("*"))
    done = history(folder, option, f"{folder}/{name}" if name else "")
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert "hint:" in done.stderr
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_disk_without_room_leaves_what_was_there(folder: Path) -> None:
    """Exit code 2, the old report whole, and nothing beside it."""
    # first without a limit: Python would leave half of each module that it compiles under one
    assert history(folder, "--html", f"{folder}/out.html").exit_code == 0
    (folder / "out.html").write_text("the old one")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); from costguard.cli.main import main; main()"
    )
    argv = [sys.executable, "-c", code, "history", "--state-dir", str(folder), "--html", f"{folder}/out.html"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "cannot be written: File too large" in done.stderr
    assert (folder / "out.html").read_text() == "the old one"
    assert not list(folder.glob("*.new"))


@pytest.mark.parametrize("options", [("--json",), ("last",)])
def test_what_does_not_go_together_is_refused(folder: Path, options: tuple[str, ...]) -> None:
    """A page is of a time: neither of one incident, nor for programs."""
    done = history(folder, "--html", f"{folder}/out.html", *options)
    assert done.exit_code == 2
    assert "leave out INCIDENT and --json" in done.stderr
    assert not (folder / "out.html").exists()


def test_without_a_history_no_page_is_written(tmp_path: Path) -> None:
    """As without the option: exit code 3, and where one would be."""
    done = history(tmp_path, "--html", f"{tmp_path}/out.html")
    assert done.exit_code == 3
    assert "there is no history at" in done.stderr
    assert not (tmp_path / "out.html").exists()


def test_a_time_without_a_record_is_a_page_that_says_so(tmp_path: Path) -> None:
    """Not an error: the agent just began."""
    empty = Batch(str(tmp_path / "history.sqlite"), "b", "i", time.time(), dated=True, gpus=(), machine=(), events=())
    store.save(empty)
    done = history(tmp_path, "--html", f"{tmp_path}/out.html", "--png", f"{tmp_path}/out.png")
    assert done.exit_code == 0, done.output
    assert "Nothing was recorded in this time" in (tmp_path / "out.html").read_text()


@pytest.mark.parametrize("column", ["known", "unknown", "low", "mean", "high"])
def test_values_that_are_none_make_no_traceback(folder: Path, column: str) -> None:
    """SQLite keeps a word where a number belongs: a page without it, or an error in words."""
    with closing(sqlite3.connect(folder / "history.sqlite")) as database, database:
        database.execute(f"UPDATE minutes SET {column} = 'many'")
    done = history(folder, "--html", f"{folder}/out.html", "--since", "2h")
    assert done.exit_code in {0, 3}
    assert done.exception is None or isinstance(done.exception, SystemExit)


def test_without_the_library_the_page_has_no_picture_and_says_what_to_install(folder: Path, tmp_path: Path) -> None:
    """The page is written all the same; a picture alone is refused."""
    (tmp_path / "lib").mkdir()
    stand_in = "raise ModuleNotFoundError(\"No module named 'matplotlib'\", name='matplotlib')"
    (tmp_path / "lib" / "matplotlib.py").write_text(stand_in)
    paths = os.pathsep.join(filter(None, (f"{tmp_path}/lib", os.environ.get("PYTHONPATH", ""))))

    def run(option: str, name: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "costguard", "history", "--state-dir", str(folder), option, f"{folder}/{name}"]
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)

    done = run("--html", "out.html")
    assert done.returncode == 0, done.stderr
    assert "pip install 'matplotlib>=" in done.stderr
    page = (folder / "out.html").read_text()
    assert "matplotlib is not installed" in page
    assert "<svg" not in page
    alone = run("--png", "out.png")
    assert alone.returncode == 3
    assert "pip install 'matplotlib>=" in alone.stderr
    assert not (folder / "out.png").exists()
